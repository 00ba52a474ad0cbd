# SPDX-License-Identifier: Apache-2.0
"""Isolation of pods: handlers of runtime classes, and user namespaces only where the runtime has them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from kubeloop.api.generated.core_v1 import NodeStatus, Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.node_v1 import RuntimeClass
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.isolation.pod_isolation import IsolationError, IsolationManager, PodIsolation
from kubeloop.kubelet.cri.isolation.runtime_state import RuntimeState
from kubeloop.kubelet.cri.isolation.user_namespaces import IDRange, UserNamespaceManager
from kubeloop.kubelet.cri.messages.runtime import (
    RuntimeCondition,
    RuntimeFeatures,
    RuntimeHandler,
    RuntimeHandlerFeatures,
    RuntimeStatus,
    StatusResponse,
)
from kubeloop.kubelet.cri.messages.security import IDMapping, NamespaceMode
from tests.unit.kubelet.cri.fake_runtime import FakeRuntime

UNIT = 65536
READY = RuntimeStatus(
    conditions=(RuntimeCondition(type="RuntimeReady", status=True), RuntimeCondition(type="NetworkReady", status=True))
)
HANDLERS = (
    RuntimeHandler(name="", features=RuntimeHandlerFeatures(user_namespaces=True, recursive_read_only_mounts=True)),
    RuntimeHandler(name="kata"),
)


class FakeClasses:
    def __init__(self, **handlers: str) -> None:
        self.handlers = handlers
        self.has_synced = True

    def get(self, namespace: str, name: str) -> RuntimeClass | None:
        return RuntimeClass(handler=self.handlers[name]) if name in self.handlers else None

    async def wait_synced(self) -> None:
        raise TimeoutError


class Machine:
    def __init__(self, root: Path) -> None:
        self.classes = FakeClasses(kata="kata", gone="gone")
        self.state = RuntimeState(FakeRuntime().as_service())
        self.state.handle(StatusResponse(status=READY, runtime_handlers=HANDLERS))
        ids = UserNamespaceManager(NodePaths(root), IDRange(UNIT, 200 * UNIT), UNIT, 110, Random(1))
        self.isolation = IsolationManager(self.classes, self.state, ids)

    def isolate(self, name: str | None = None, host_users: bool | None = None) -> PodIsolation:
        spec = PodSpec(runtime_class_name=name, host_users=host_users)
        return asyncio.run(self.isolation.isolation_of(Pod(metadata=ObjectMeta(uid="u"), spec=spec)))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_pod_without_wishes_has_the_default_handler_and_the_users_of_the_node(machine: Machine) -> None:
    for host_users in (None, True):
        found = machine.isolate(host_users=host_users)
        assert (found.handler, found.user_namespace.mode) == ("", NamespaceMode.NODE)
        assert found.has_recursive_read_only


def test_the_handler_is_that_of_the_runtime_class(machine: Machine) -> None:
    found = machine.isolate("kata")
    assert found.handler == "kata"
    assert not found.has_recursive_read_only


def test_a_pod_with_an_unknown_runtime_class_is_refused(machine: Machine) -> None:
    with pytest.raises(IsolationError, match=r'^runtimeclass\.node\.k8s\.io "x" not found$'):
        machine.isolate("x")
    machine.classes.has_synced = False
    with pytest.raises(IsolationError, match="failed to lookup RuntimeClass kata"):
        machine.isolate("kata")


def test_a_user_namespace_maps_root_to_an_id_without_rights(machine: Machine) -> None:
    found = machine.isolate(host_users=False).user_namespace
    (mapping,) = found.uids
    assert found.mode == NamespaceMode.POD
    assert found.gids == (mapping,)
    assert mapping == IDMapping(host_id=mapping.host_id, container_id=0, length=UNIT)
    assert mapping.host_id >= UNIT
    assert machine.isolate(host_users=False).user_namespace == found


@pytest.mark.parametrize(
    ("name", "handlers", "problem"),
    [
        (None, (), "can't set `spec.hostUsers: false`, runtime does not support user namespaces"),
        (
            "kata",
            HANDLERS,
            'can\'t set `spec.hostUsers: false`, RuntimeClass handler "kata" does not support user namespaces',
        ),
        (
            "gone",
            HANDLERS,
            'can\'t set `spec.hostUsers: false`, RuntimeClass handler "gone" does not support user namespaces: '
            'the handler "gone" is not known',
        ),
    ],
)
def test_a_pod_does_not_run_without_the_user_namespace_that_it_asks_for(
    machine: Machine, name: str | None, handlers: tuple[RuntimeHandler, ...], problem: str
) -> None:
    machine.state.handle(StatusResponse(status=READY, runtime_handlers=handlers))
    with pytest.raises(IsolationError) as raised:
        machine.isolate(name, host_users=False)
    assert str(raised.value) == problem


def test_the_node_reports_handlers_and_features_of_the_runtime(machine: Machine) -> None:
    features = RuntimeFeatures(supplemental_groups_policy=True)
    machine.state.handle(StatusResponse(status=READY, runtime_handlers=HANDLERS, features=features))
    status = machine.state.set_node_status(NodeStatus())
    shown = {
        one.name: (one.features.user_namespaces, one.features.recursive_read_only_mounts)
        for one in status.runtime_handlers
        if one.features is not None
    }
    assert shown == {"": (True, True), "kata": (False, False)}
    assert status.features is not None
    assert status.features.supplemental_groups_policy is True


def test_conditions_of_the_runtime_are_errors_of_the_node(machine: Machine) -> None:
    assert machine.state.error == ""
    no_network = RuntimeCondition(type="NetworkReady", reason="NetworkPluginNotReady", message="no config")
    machine.state.handle(StatusResponse(status=RuntimeStatus(conditions=(READY.conditions[0], no_network))))
    assert machine.state.error == (
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:no config"
    )
    machine.state.handle(StatusResponse())
    assert machine.state.error.startswith("container runtime not ready: <nil>")
