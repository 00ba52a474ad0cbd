# SPDX-License-Identifier: Apache-2.0
"""Tests of the order in which pods are deleted."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.shared.pods.deletion_order import (
    DELETION_COST,
    RankProperties,
    deletion_cost,
    lowest_ranked,
    rank_properties,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def time(ago: float) -> Time:
    return Time(format_time(NOW - timedelta(seconds=ago)))


def pod(
    uid: str = "m",
    node: str = "n",
    phase: str = "Running",
    ready: float | None = 100,
    age: float = 100,
    **annotations: str,
) -> Pod:
    condition = (
        PodCondition(type="Ready", status="True", last_transition_time=time(ready)) if ready is not None else None
    )
    return Pod(
        metadata=ObjectMeta(
            uid=uid,
            creation_timestamp=time(age),
            annotations={DELETION_COST: annotations["cost"]} if annotations else {},
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase, conditions=(condition,) if condition else ()),
    )


def restarted(times: int, one: Pod, **spec: object) -> Pod:
    status = ContainerStatus(name="c", restart_count=times)
    if spec:
        return replace(
            one,
            spec=replace(one.spec, init_containers=(Container(name="c", restart_policy="Always"),)),
            status=replace(one.status, init_container_statuses=(status,)),
        )
    return replace(one, status=replace(one.status, container_statuses=(status,)))


def order(*pods: Pod, count: int = 9, **crowding: int) -> list[Pod]:
    """The first to go, after they were grouped as a set does."""
    groups: dict[RankProperties, list[Pod]] = {}
    for one in pods:
        groups.setdefault(rank_properties(one), []).append(one)
    return lowest_ranked(groups, crowding, count, NOW)


ORDERED = {
    "unassigned before assigned": (pod(node="", ready=None, phase="Pending"), pod(ready=None, phase="Pending")),
    "pending before running": (pod(phase="Pending"), pod(phase="Running")),
    "unknown before running": (pod(phase="Unknown"), pod(phase="Running")),
    "unready before ready": (pod(ready=None), pod()),
    "cheap before dear": (pod(cost="-3"), pod(cost="2")),
    "a cost that is none counts as zero": (pod(cost="-1"), pod(cost="+9")),
    "ready for a shorter time first": (pod(ready=10), pod(ready=1000)),
    "often restarted before steady": (restarted(3, pod()), restarted(1, pod())),
    "sidecars' restarts count last": (restarted(3, pod(), sidecar=True), restarted(1, pod(), sidecar=True)),
    "young before old": (pod(ready=None, age=10), pod(ready=None, age=1000)),
    "of about the same age chance decides": (pod("a", ready=99), pod("b", ready=100)),
    "chance also goes against the younger": (pod("a", ready=100), pod("b", ready=99)),
}


@pytest.mark.parametrize(("first", "last"), ORDERED.values(), ids=ORDERED)
def test_the_first_difference_decides(first: Pod, last: Pod) -> None:
    assert order(last, first) == order(first, last) == [first, last]


def test_pods_on_crowded_nodes_are_deleted_first() -> None:
    crowded, lonely = pod(node="busy", ready=1000), pod(node="calm", ready=10)
    assert order(lonely, crowded, busy=2, calm=1) == [crowded, lonely]


def test_exactly_the_requested_number_is_chosen_and_ties_are_random() -> None:
    pods = [pod("d"), pod("b"), pod("c", ready=99), pod("a", ready=None)]
    assert [one.metadata.uid for one in order(*pods, count=3)] == ["a", "b", "c"]
    assert order(*pods, count=0) == []


@pytest.mark.parametrize(("text", "cost"), [("7", 7), ("-7", -7), ("0", 0), ("007", 0), ("+7", 0), ("4294967296", 0)])
def test_deletion_cost_is_parsed_strictly(text: str, cost: int) -> None:
    assert deletion_cost(pod(cost=text)) == cost
