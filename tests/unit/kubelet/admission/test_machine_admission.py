# SPDX-License-Identifier: Apache-2.0
"""Admission by the machine of a real node: before the predicates, with release of rejected pods; static resizes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from kubeloop.api.generated.core_v1 import Container, ContainerStatus, Node, NodeStatus, Pod, PodSpec, PodStatus
from kubeloop.api.generated.core_v1 import ResourceRequirements as Resources
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Quantity, Time
from kubeloop.kubelet.admission.admit_handler import PodAdmitHandler
from kubeloop.kubelet.admission.allocator import AllocationManager
from kubeloop.kubelet.admission.predicates import rejection_of
from kubeloop.kubelet.admission.resize import allocation_from_spec, infeasible_resize
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.sync.pod_state import PodState, TerminationReason


def quantities(**texts: str) -> dict[str, Quantity]:
    return {name: Quantity(text) for name, text in texts.items()}


NODE = Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable=quantities(cpu="1", memory="1Gi", pods="10")))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(cpu: str, memory: str = "1Mi", *, generation: int = 1) -> Pod:
    sizes = quantities(cpu=cpu, memory=memory)
    containers = (Container(name="c", resources=Resources(requests=sizes, limits=sizes)),)
    meta = ObjectMeta(name="p", namespace="ns", uid="u", generation=generation)
    return Pod(metadata=meta, spec=PodSpec(node_name="n", containers=containers))


class Recorder:
    """Events, nodes without pressure, and a machine that may reject pods."""

    def __init__(self, rejection: TerminationReason | None = None, later: TerminationReason | None = None) -> None:
        self.rejection, self.later = rejection, later
        self.calls: list[str] = []
        self.node: Node | None = None  # that the predicates see instead

    async def allocate(self, pod: Pod) -> TerminationReason | None:
        self.calls.append("allocate")
        return self.rejection

    def node_for_admission(self, pod: Pod, node: Node) -> Node:
        self.calls.append("node")
        return self.node or node

    def release(self, uid: str) -> None:
        self.calls.append(f"release {uid}")

    async def admit(self, pod: Pod, node: Node) -> TerminationReason | None:
        self.calls.append("admit")
        return self.later

    def is_shutting_down(self, node: Node) -> bool:
        return False

    def node_pressures(self, node: Node) -> frozenset[str]:
        return frozenset()

    def record_rejected(self, pod: Pod, reason: str, message: str) -> None:
        self.calls.append(f"event {reason}")

    def record_resize_infeasible(self, pod: Pod, message: str) -> None:
        self.calls.append(message.partition(":")[0])

    def admit_pod(self, given: Pod) -> PodState:
        fake = cast(Any, self)
        allocator = AllocationManager(fake, lambda key: None)
        handler = PodAdmitHandler(fake, fake, allocator, fake, fake, admitter=self)
        return asyncio.run(handler.admit(given, NODE, NOW))


def test_the_machine_is_asked_before_and_after_the_predicates() -> None:
    machine = Recorder()
    assert machine.admit_pod(pod("1")).allocation is not None
    assert machine.calls == ["allocate", "node", "admit"]


def test_a_pod_without_room_for_its_cpus_is_rejected_by_the_machine_first() -> None:
    machine = Recorder(TerminationReason("UnexpectedAdmissionError", "m", rejected=True))
    state = machine.admit_pod(pod("2"))
    assert state.allocation is None
    assert machine.calls == ["allocate", "node", "release u", "event UnexpectedAdmissionError"]


@pytest.mark.parametrize(
    ("machine", "given", "reason"),
    [
        (Recorder(), pod("2"), "OutOfcpu"),
        (Recorder(later=TerminationReason("AppArmor", "m", rejected=True)), pod("1"), "AppArmor"),
    ],
)
def test_what_the_machine_has_allocated_is_released_if_the_pod_is_rejected(
    machine: Recorder, given: Pod, reason: str
) -> None:
    state = machine.admit_pod(given)
    assert state.allocation is None
    assert state.termination_reason is not None
    assert state.termination_reason.reason == reason
    assert machine.calls[-2:] == ["release u", f"event {reason}"]


def test_predicates_see_the_node_with_what_is_allocated() -> None:
    machine = Recorder()
    machine.node = Node(metadata=NODE.metadata, status=NodeStatus(allocatable={**NODE.status.allocatable, "cpu": "4"}))
    assert machine.admit_pod(pod("3")).termination_reason is None
    refused = Recorder().admit_pod(pod("3")).termination_reason
    assert refused is not None
    assert refused.reason == "OutOfcpu"


def test_a_pod_that_has_run_keeps_its_resources_until_it_has_ended() -> None:
    status = PodStatus(
        container_statuses=(ContainerStatus(name="c", image="i", image_id="x", ready=True, restart_count=0),)
    )
    running = msgspec.structs.replace(pod("1"), status=status)
    rejection = rejection_of(running, "TopologyAffinityError", "m")
    assert not rejection.rejected
    assert rejection.message == "Pod was rejected: m"
    machine = Recorder(rejection)
    assert machine.admit_pod(running).termination_reason == rejection
    assert machine.calls == ["allocate", "node", "event TopologyAffinityError"]
    assert rejection_of(pod("1"), "TopologyAffinityError", "m").rejected


def test_static_resources_of_guaranteed_pods_are_not_resized() -> None:
    allocation = allocation_from_spec(pod("1"))
    every = frozenset(("cpu", "memory"))
    said = "Resize is infeasible for Guaranteed Pods alongside"
    assert infeasible_resize(pod("2"), allocation, every) == f'{said} CPU Manager policy "static"'
    assert infeasible_resize(pod("1", "2Mi"), allocation, every) == f'{said} Memory Manager policy "Static"'
    assert infeasible_resize(pod("2"), allocation, frozenset(("memory",))) == ""
    other = Pod(spec=PodSpec(containers=(Container(name="c", resources=Resources(requests=quantities(cpu="2"))),)))
    assert infeasible_resize(other, allocation, every) == ""


def test_an_infeasible_resize_is_pending_with_one_event() -> None:
    events = Recorder()
    allocator = AllocationManager(cast(PodEvents, events), lambda key: None, static=frozenset(("cpu",)))
    state = PodState(reported_status=PodStatus(), first_seen=Time(""), allocation=allocator.add_pod(pod("1")))
    for _ in range(2):
        state = allocator.handle_resize(pod("2", generation=2), NODE, state)
    assert state.resize.pending is not None
    assert state.resize.pending.reason == "Infeasible"
    assert events.calls == ["Pod resize Infeasible"]
