# SPDX-License-Identifier: Apache-2.0
"""Runs all controllers over objects of every kind: once settled, nothing is written or logged."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.requests import Call
from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.client import Client
from kubeloop.controllers import select
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.context import Wire
from kubeloop.scheduler.scheduler import wire as scheduler
from kubeloop.testing import Cluster, namespace
from tests.all_kinds import objects_around, objects_in
from tests.controllers.certificate_requests import approve, authority_in, certificate_of, signing_request

_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED)
_MANAGER = User("system:kube-controller-manager", (AUTHENTICATED,))
_WRITES = ("create", "update", "patch", "delete", "deletecollection")

_HEARTBEATS = ("/registry/leases/", "/registry/minions/")
_REQUEST = "/registry/certificatesigningrequests/csr"
SIGNED_AN_HOUR_AGO = ("certificatesigningrequest-cleaner-controller", "delete", "certificatesigningrequests")

Writes = Counter[tuple[str, str, str]]  # by the loop, the verb and the resource


class WriteCountingTransport(InProcessTransport):
    """The way of one loop to the server, on which its writes are counted, also those that change nothing."""

    def __init__(self, server: ApiServer, user: User, loop: str, writes: Writes) -> None:
        super().__init__(server, user)
        self._loop = loop
        self._writes = writes

    async def call(self, call: Call) -> Any:
        if call.verb in _WRITES:
            self._writes[self._loop, call.verb, call.resource.plural] += 1
        return await super().call(call)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ManagerConfig:
    folder = tmp_path_factory.mktemp("keys")
    with Cluster() as other:
        certificate, key = authority_in(folder, other.clock.now())
    account_key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "sa.key").write_bytes(account_key)
    return ManagerConfig(
        allocate_node_cidrs=True,
        cluster_cidr="10.244.0.0/16",
        cluster_signing_cert_file=certificate,
        cluster_signing_key_file=key,
        service_account_private_key_file=str(folder / "sa.key"),
    )


def start_all(cluster: Cluster, config: ManagerConfig) -> Writes:
    """Start every controller that `*` selects, each with the role of its account."""
    writes: Writes = Counter()
    root = Path(config.cluster_signing_cert_file).read_text()
    for one in select(["*"]):
        user = User(f"system:serviceaccount:kube-system:{one.account}", _GROUPS) if one.account else _MANAGER
        client = Client(WriteCountingTransport(cluster.server, user, one.name, writes))
        cluster.start(_wired(one.wire(), client=client, config=config, root_ca=root))
    cluster.start(scheduler)
    return writes


def _wired(wire: Wire, **surroundings: Any) -> Wire:
    return lambda context: wire(replace(context, **surroundings))


def fill(cluster: Cluster) -> None:
    for one in objects_around():
        cluster.client.create(one)
    cluster.client.create(namespace("shop"))
    cluster.settle()
    for one in objects_in("shop"):
        cluster.client.create(one)
    cluster.client.create(signing_request())
    approve(cluster)


def revisions(cluster: Cluster) -> dict[str, int]:
    """Return the last change of each object, except heartbeats of nodes and repeated events."""
    found = cluster.server.registry.store.range("/registry/").records
    changed = {one.key: one.create_revision if "/events/" in one.key else one.mod_revision for one in found}
    return {key: revision for key, revision in changed.items() if not key.startswith(_HEARTBEATS)}


def test_idle_controllers_write_and_log_nothing(
    cluster: Cluster, config: ManagerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    cluster.add_nodes(1)
    writes = start_all(cluster, config)
    fill(cluster)
    cluster.advance(minutes=10)
    assert caplog.messages == []
    assert {one.status.phase for one in cluster.client.list(Pod, "shop").items} == {"Running", "Succeeded"}
    assert certificate_of(cluster) is not None
    writes.clear()
    before = revisions(cluster)
    cluster.advance(hours=1)
    assert caplog.messages == []
    assert writes == {SIGNED_AN_HOUR_AGO: 1}
    after = revisions(cluster)
    assert after.items() <= before.items()
    assert {key for key in before.keys() - after.keys() if "/events/" not in key} == {_REQUEST}
