# SPDX-License-Identifier: Apache-2.0
"""System objects exist before the server is ready, and come back when they are deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.bootstrap import BootstrapOptions, bootstrap_objects
from kubeloop.apiserver.bootstrap.legacy_token_tracker import CREATION_SECONDS
from kubeloop.apiserver.bootstrap.system_objects import (
    FLOW_CONTROL_SECONDS,
    NAMESPACES_SECONDS,
    SERVICE_SECONDS,
    SystemObjects,
)
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.nonresource.post_start_hooks import NAMESPACES, ROLES, PostStartHooks, hook_names
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from kubeloop.store.memory import MemoryStore

OPTIONS = BootstrapOptions(now=datetime(2030, 1, 1, tzinfo=UTC), advertise_address="127.0.0.1", client_ca_pem="PEM")
SERVICE = "/registry/services/specs/default/kubernetes"
ADDRESS = "/registry/ipaddresses/10.0.0.1"
ENDPOINTS = "/registry/services/endpoints/default/kubernetes"
SLICE = "/registry/endpointslices/default/kubernetes"
NETWORK = "/registry/servicecidrs/kubernetes"
TRACKING = "/registry/configmaps/kube-system/kube-apiserver-legacy-service-account-token-tracking"


class Server:
    """Store of a running server with its system objects."""

    def __init__(self, store: MemoryStore, objects: SystemObjects, hooks: PostStartHooks) -> None:
        self.store, self.objects, self.hooks = store, objects, hooks

    def get(self, key: str) -> Any:
        record = self.store.get(key)
        return None if record is None else json.loads(record.value)

    async def change(self, key: str, change: Callable[[Any], None]) -> None:
        whole = self.get(key)
        change(whole)
        await self.store.write(key, json.dumps(whole).encode())


def on_a_server(scenario: Callable[[Server], Awaitable[None]], options: BootstrapOptions = OPTIONS) -> None:
    loop = VirtualLoop()

    async def run() -> None:
        clock = VirtualClock(loop)
        async with AsyncExitStack() as parts:
            store = MemoryStore()
            await store.start()
            parts.push_async_callback(store.close)
            registry = StorageRegistry(store, RESOURCES)
            objects = SystemObjects(registry, BootstrapWriter(registry, clock, DEFAULT_FEATURES), options, clock)
            hooks = PostStartHooks(hook_names(flowcontrol=True))
            await objects.ensure_all(hooks)
            objects.start_reconcilers(parts)
            await scenario(Server(store, objects, hooks))

    run_virtual(run(), loop=loop)


def test_all_objects_exist_when_their_hooks_are_finished() -> None:
    async def scenario(server: Server) -> None:
        stored = {record.key.rpartition("/")[2] for record in server.store.range("").records}
        assert {obj.metadata.name for _, obj in bootstrap_objects(OPTIONS)} <= stored
        checks = server.hooks.checks()
        assert checks[NAMESPACES]() == checks[ROLES]() == ""

    on_a_server(scenario)


def test_a_hook_is_unhealthy_until_it_is_finished() -> None:
    hooks = PostStartHooks(("poststarthook/a", "poststarthook/b"))
    hooks.finish("poststarthook/a")
    assert {name: check() for name, check in hooks.checks().items()} == {
        "poststarthook/a": "",
        "poststarthook/b": "not finished",
    }
    hooks.finish_all()
    assert not any(check() for check in hooks.checks().values())


@pytest.mark.parametrize(
    ("key", "seconds"),
    [
        ("/registry/namespaces/kube-node-lease", NAMESPACES_SECONDS),
        ("/registry/namespaces/kube-public", NAMESPACES_SECONDS),
        (NETWORK, SERVICE_SECONDS),
        (ENDPOINTS, SERVICE_SECONDS),
        (SLICE, SERVICE_SECONDS),
        ("/registry/flowschemas/catch-all", FLOW_CONTROL_SECONDS),
        ("/registry/flowschemas/service-accounts", FLOW_CONTROL_SECONDS),
        ("/registry/prioritylevelconfigurations/exempt", FLOW_CONTROL_SECONDS),
        (TRACKING, CREATION_SECONDS),
    ],
)
def test_a_deleted_object_comes_back_at_upstreams_interval(key: str, seconds: float) -> None:
    async def scenario(server: Server) -> None:
        await server.store.write(key, None)
        await asyncio.sleep(seconds - 0.5)
        assert server.get(key) is None
        await asyncio.sleep(1)
        assert server.get(key) is not None

    on_a_server(scenario)


def test_the_service_comes_back_with_its_address() -> None:
    async def scenario(server: Server) -> None:
        await server.store.write(SERVICE, None)
        await server.store.write(ADDRESS, None)
        await asyncio.sleep(SERVICE_SECONDS + 1)
        assert server.get(SERVICE)["spec"]["clusterIP"] == "10.0.0.1"
        assert server.get(ADDRESS)["spec"]["parentRef"]["name"] == "kubernetes"

    on_a_server(scenario)


def test_the_service_does_not_come_back_while_another_one_has_its_address() -> None:
    async def scenario(server: Server) -> None:
        await server.store.write(SERVICE, None)
        await server.change(ADDRESS, lambda address: address["spec"]["parentRef"].update(name="thief"))
        await asyncio.sleep(SERVICE_SECONDS + 1)
        assert server.get(SERVICE) is None

    on_a_server(scenario)


def test_a_changed_service_is_left_alone_but_its_endpoints_are_corrected() -> None:
    async def scenario(server: Server) -> None:
        await server.change(SERVICE, lambda service: service["spec"].update(sessionAffinity="ClientIP"))
        await server.change(ENDPOINTS, lambda endpoints: endpoints.update(subsets=[]))
        await asyncio.sleep(SERVICE_SECONDS + 1)
        assert server.get(SERVICE)["spec"]["sessionAffinity"] == "ClientIP"
        assert server.get(ENDPOINTS)["subsets"][0]["addresses"] == [{"ip": "127.0.0.1"}]

    on_a_server(scenario)


def test_a_single_stack_network_becomes_dual_stack_when_the_flag_does() -> None:
    both = BootstrapOptions(now=OPTIONS.now, service_cidrs=("10.0.0.0/24", "fd00::/108"))

    async def scenario(server: Server) -> None:
        await server.change(NETWORK, lambda network: network["spec"].update(cidrs=["10.0.0.0/24"]))
        await asyncio.sleep(SERVICE_SECONDS + 1)
        assert server.get(NETWORK)["spec"]["cidrs"] == ["10.0.0.0/24", "fd00::/108"]

    on_a_server(scenario, both)


def test_a_network_without_a_ready_condition_gets_one() -> None:
    async def scenario(server: Server) -> None:
        await server.change(NETWORK, lambda network: network.pop("status"))
        await asyncio.sleep(SERVICE_SECONDS + 1)
        assert server.get(NETWORK)["status"]["conditions"][0]["type"] == "Ready"

    on_a_server(scenario)


def test_a_mandatory_flow_schema_gets_its_spec_back_whatever_its_annotation_says() -> None:
    async def scenario(server: Server) -> None:
        key = "/registry/flowschemas/catch-all"

        def change(schema: Any) -> None:
            schema["spec"]["matchingPrecedence"] = 17
            schema["metadata"]["annotations"] = {"apf.kubernetes.io/autoupdate-spec": "false"}

        await server.change(key, change)
        await asyncio.sleep(FLOW_CONTROL_SECONDS + 1)
        schema = server.get(key)
        assert schema["spec"]["matchingPrecedence"] == 10000
        assert schema["metadata"]["annotations"] == {"apf.kubernetes.io/autoupdate-spec": "true"}
        assert schema["metadata"]["generation"] == 2

    on_a_server(scenario)


@pytest.mark.parametrize(("annotation", "precedence"), [("true", 9000), ("false", 17)])
def test_a_suggested_flow_schema_is_updated_if_its_annotation_says_so(annotation: str, precedence: int) -> None:
    async def scenario(server: Server) -> None:
        key = "/registry/flowschemas/service-accounts"

        def change(schema: Any) -> None:
            schema["spec"]["matchingPrecedence"] = 17
            schema["metadata"]["annotations"] = {"apf.kubernetes.io/autoupdate-spec": annotation}

        await server.change(key, change)
        await asyncio.sleep(FLOW_CONTROL_SECONDS + 1)
        assert server.get(key)["spec"]["matchingPrecedence"] == precedence

    on_a_server(scenario)


def test_a_suggested_flow_schema_that_somebody_changed_gets_the_annotation_that_protects_it() -> None:
    async def scenario(server: Server) -> None:
        key = "/registry/prioritylevelconfigurations/system"

        def change(level: Any) -> None:
            del level["metadata"]["annotations"]
            level["metadata"]["generation"] = 2

        await server.change(key, change)
        await asyncio.sleep(FLOW_CONTROL_SECONDS + 1)
        assert server.get(key)["metadata"]["annotations"] == {"apf.kubernetes.io/autoupdate-spec": "false"}

    on_a_server(scenario)


@pytest.mark.parametrize(("annotation", "stays"), [("true", False), ("false", True), ("yes", True)])
def test_a_default_object_of_an_older_version_is_removed(annotation: str, stays: bool) -> None:
    async def scenario(server: Server) -> None:
        old = server.get("/registry/flowschemas/service-accounts")
        old["metadata"] |= {"name": "older", "annotations": {"apf.kubernetes.io/autoupdate-spec": annotation}}
        await server.store.write("/registry/flowschemas/older", json.dumps(old).encode())
        await asyncio.sleep(FLOW_CONTROL_SECONDS + 1)
        assert (server.get("/registry/flowschemas/older") is not None) is stays

    on_a_server(scenario)


def test_the_date_of_token_tracking_is_corrected_at_once() -> None:
    async def scenario(server: Server) -> None:
        since = server.get(TRACKING)["data"]["since"]
        await server.change(TRACKING, lambda found: found.update(data={"since": "long ago", "more": "x"}))
        await asyncio.sleep(0.01)
        assert server.get(TRACKING)["data"] == {"since": since, "more": "x"}

    on_a_server(scenario)


def test_nothing_is_written_while_nothing_is_missing() -> None:
    async def scenario(server: Server) -> None:
        revision = server.store.revision
        await asyncio.sleep(3600)
        assert server.store.revision == revision

    on_a_server(scenario)
