# SPDX-License-Identifier: Apache-2.0
"""Checks that a server accepts every builder's object."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop import testing as made
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.testing import Cluster

OBJECTS = [
    made.config_map("one", {"a": "1"}, annotations={"b": "2"}),
    made.cron_job(schedule="*/5 * * * *"),
    made.daemon_set(),
    made.deployment("web", replicas=3, image="web:2", paused=True),
    made.job(labels={"app": "job"}, parallelism=2),
    made.namespace("shop"),
    made.node("one"),
    made.persistent_volume_claim(storage="5Gi"),
    made.pod("web", image="web:2", labels={"app": "web"}, host_network=True),
    made.replica_set(replicas=0),
    made.secret("one", {"key": b"\x00\x01"}),
    made.service(port=8080),
    made.service_account("builder"),
    made.stateful_set(),
]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: type(obj).__name__)
def test_server_accepts_built_objects(cluster: Cluster, obj: Any) -> None:
    found = cluster.add(obj)
    assert type(found) is type(obj)
    assert found.metadata.uid


def test_owner_controls_built_objects(cluster: Cluster) -> None:
    owner = cluster.add(made.replica_set("rs"))
    found: Pod = cluster.add(made.pod("one", owner=owner))
    (reference,) = found.metadata.owner_references
    assert (reference.kind, reference.uid, reference.controller) == ("ReplicaSet", owner.metadata.uid, True)
