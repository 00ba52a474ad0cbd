# SPDX-License-Identifier: Apache-2.0
"""The server's own objects: made when missing, corrected where they describe the server, else left alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.bootstrap import BootstrapOptions, bootstrap_objects, essential_objects
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import SystemClock
from kubeloop.store.memory import MemoryStore

OPTIONS = BootstrapOptions(now=datetime(2030, 1, 1, tzinfo=UTC), advertise_address="192.0.2.1", client_ca_pem="PEM")
SERVICE = "/registry/services/specs/default/kubernetes"


def on_a_server(scenario: Callable[[MemoryStore, BootstrapWriter], Awaitable[None]]) -> None:
    async def run() -> None:
        store = MemoryStore()
        await store.start()
        await scenario(store, BootstrapWriter(StorageRegistry(store, RESOURCES), SystemClock(), DEFAULT_FEATURES))
        await store.close()

    asyncio.run(run())


def stored(store: MemoryStore, key: str) -> Any:
    record = store.get(key)
    assert record is not None, key
    return json.loads(record.value)


def test_new_server_creates_all_bootstrap_objects() -> None:
    async def scenario(store: MemoryStore, own: BootstrapWriter) -> None:
        await own.ensure(bootstrap_objects(OPTIONS))
        default = stored(store, "/registry/namespaces/default")
        assert default["metadata"]["uid"]
        assert default["metadata"]["creationTimestamp"]
        assert default["metadata"]["managedFields"][0]["manager"] == "kube-apiserver"
        assert default["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
        assert default["status"] == {"phase": "Active"}
        assert stored(store, SERVICE)["spec"]["clusterIP"] == "10.0.0.1"

    on_a_server(scenario)


def test_reported_status_is_kept() -> None:
    async def scenario(store: MemoryStore, own: BootstrapWriter) -> None:
        await own.ensure(essential_objects(OPTIONS))
        conditions = stored(store, "/registry/servicecidrs/kubernetes")["status"]["conditions"]
        assert conditions[0]["type"] == "Ready"

    on_a_server(scenario)


def test_next_start_changes_nothing() -> None:
    async def scenario(store: MemoryStore, own: BootstrapWriter) -> None:
        await own.ensure(bootstrap_objects(OPTIONS))
        revision = store.revision
        await own.ensure(bootstrap_objects(OPTIONS))
        assert store.revision == revision

    on_a_server(scenario)


def test_server_description_is_updated_and_keeps_its_identity() -> None:
    async def scenario(store: MemoryStore, own: BootstrapWriter) -> None:
        await own.ensure(essential_objects(OPTIONS))
        before = stored(store, SERVICE)
        await own.ensure(essential_objects(replace(OPTIONS, secure_port=7443)))
        after = stored(store, SERVICE)
        assert after["spec"]["ports"][0]["targetPort"] == 7443
        assert after["metadata"]["uid"] == before["metadata"]["uid"]

    on_a_server(scenario)


def test_changes_are_kept_and_deleted_objects_are_recreated() -> None:
    async def scenario(store: MemoryStore, own: BootstrapWriter) -> None:
        await own.ensure(essential_objects(OPTIONS))
        key = "/registry/namespaces/default"
        record = store.get(key)
        assert record is not None
        changed = record.value.replace(b'"kubernetes.io/metadata.name"', b'"mine":"x","kubernetes.io/metadata.name"')
        await store.write(key, changed)
        await store.write("/registry/namespaces/kube-public", None)
        await own.ensure(essential_objects(OPTIONS))
        assert stored(store, key)["metadata"]["labels"]["mine"] == "x"
        assert stored(store, "/registry/namespaces/kube-public")["status"]["phase"] == "Active"

    on_a_server(scenario)


VIEWERS = "/registry/clusterroles/system:basic-user"
BINDING = "/registry/clusterrolebindings/system:basic-user"


async def change(store: MemoryStore, key: str, **parts: Any) -> None:
    await store.write(key, json.dumps({**stored(store, key), **parts}).encode())


def test_missing_rules_are_added_and_additional_ones_are_kept() -> None:
    async def scenario(store: MemoryStore, own: BootstrapWriter) -> None:
        await own.ensure(bootstrap_objects(OPTIONS))
        whole, everybody = stored(store, VIEWERS)["rules"], stored(store, BINDING)["subjects"]
        extra = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
        nobody = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "nobody"}
        await change(store, VIEWERS, rules=[extra, *whole[1:]])
        await change(store, BINDING, subjects=[nobody])
        await own.ensure(bootstrap_objects(OPTIONS))
        rules = stored(store, VIEWERS)["rules"]
        assert extra in rules
        given = {
            (group, resource, verb)
            for rule in rules
            for group in rule.get("apiGroups", ())
            for resource in rule.get("resources", ())
            for verb in rule["verbs"]
        }
        assert {
            (group, resource, verb)
            for rule in whole
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        } <= given
        assert stored(store, BINDING)["subjects"] == [nobody, *everybody]

    on_a_server(scenario)


def test_roles_without_autoupdate_are_unchanged() -> None:
    async def scenario(store: MemoryStore, own: BootstrapWriter) -> None:
        await own.ensure(bootstrap_objects(OPTIONS))
        meta = stored(store, VIEWERS)["metadata"]
        kept = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
        await change(store, VIEWERS, rules=None, metadata={**meta, "annotations": kept})
        await own.ensure(bootstrap_objects(OPTIONS))
        assert stored(store, VIEWERS)["rules"] is None

    on_a_server(scenario)
