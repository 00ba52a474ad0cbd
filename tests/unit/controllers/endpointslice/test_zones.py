# SPDX-License-Identifier: Apache-2.0
"""Hints divide endpoints among zones by the processors of their nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Node, NodeCondition, NodeStatus
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointConditions, EndpointHints, ForZone
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Quantity
from kubeloop.controllers.endpointslice.slice_plan import SliceDraft, SlicePlan
from kubeloop.controllers.endpointslice.zones import (
    HintsUnavailable,
    ZoneAllocation,
    cpu_ratios_by_zone,
    giving_and_receiving_zones,
    hint_by_zones,
    is_overloaded,
    valid_hints,
    zone_allocations,
)


def a_node(zone: str, cpu: str = "1", ready: bool = True, **labels: str) -> Node:
    condition = NodeCondition(type="Ready", status="True" if ready else "False")
    all_labels = {"topology.kubernetes.io/zone": zone, **labels} if zone else labels
    return Node(
        metadata=ObjectMeta(labels=all_labels),
        status=NodeStatus(allocatable={"cpu": Quantity(cpu)} if cpu else {}, conditions=(condition,)),
    )


def in_zone(zone: str | None, hint: str = "", ready: bool | None = True) -> Endpoint:
    hints = EndpointHints(for_zones=(ForZone(name=hint),)) if hint else None
    return Endpoint(addresses=("10.0.0.1",), conditions=EndpointConditions(ready=ready), zone=zone, hints=hints)


def test_zones_are_weighted_by_cpus_of_ready_nodes() -> None:
    nodes = [a_node("a"), a_node("a", "500m"), a_node("b", "1500m"), a_node("c", ready=False)]
    assert cpu_ratios_by_zone(nodes) == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize("odd", [a_node(""), a_node("b", ""), a_node("b", "0")])
def test_node_without_zone_or_cpu_disables_hints(odd: Node) -> None:
    assert cpu_ratios_by_zone([a_node("a"), a_node("b"), odd]) is None


def test_single_zone_has_no_hints() -> None:
    assert cpu_ratios_by_zone([a_node("a"), a_node("a")]) is None
    assert cpu_ratios_by_zone([]) is None


def test_allocations_stay_within_the_overload_threshold() -> None:
    assert zone_allocations({"a": 0.5, "b": 0.5}, 10) == {
        "a": ZoneAllocation(5, 5, 5.0),
        "b": ZoneAllocation(5, 5, 5.0),
    }
    assert zone_allocations({"a": 0.5, "b": 0.5}, 12) == {
        "a": ZoneAllocation(5, 7, 6.0),
        "b": ZoneAllocation(5, 7, 6.0),
    }
    assert zone_allocations({"a": 0.8, "b": 0.2}, 20) == {
        "a": ZoneAllocation(14, 16, 16.0),
        "b": ZoneAllocation(4, 6, 4.0),
    }


@pytest.mark.parametrize(
    ("ratios", "endpoints", "why"),
    [
        (None, 10, "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"),
        ({}, 10, "Nodes only ready in one zone"),
        ({"a": 0.5, "b": 0.5}, 1, "Insufficient number of endpoints (1 endpoints, 2 zones)"),
        (
            {"a": 0.34, "b": 0.33, "c": 0.33},
            4,
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold "
            "(4 endpoints, 3 zones)",
        ),
    ],
)
def test_impossible_allocations_are_explained(ratios: dict[str, float] | None, endpoints: int, why: str) -> None:
    with pytest.raises(HintsUnavailable) as caught:
        zone_allocations(ratios, endpoints)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("desired", "hints", "giving", "taking"),
    [
        ({"a": 2.0, "b": 2.0}, {"a": 2, "b": 2}, {}, {}),
        ({"a": 2.0, "b": 2.0}, {"a": 4}, {"a": 2}, {"b": 2}),
        ({"a": 1.4, "b": 1.6}, {"a": 2, "b": 1}, {}, {}),
        ({"a": 1.3, "b": 1.7}, {"a": 2, "b": 1}, {}, {}),
        ({"a": 1.5, "b": 1.5, "c": 1.0}, {"a": 4}, {"a": 2}, {"b": 1, "c": 1}),
        ({"a": 3.4, "b": 2.6}, {"a": 5, "b": 1}, {"a": 1}, {"b": 1}),
        ({"a": 1.5, "b": 4.0, "c": 1.0}, {"a": 2, "b": 1, "c": 3}, {"c": 2, "a": 1}, {"b": 3}),
    ],
)
def test_surplus_zones_give_to_deficient_zones(
    desired: dict[str, float], hints: dict[str, int], giving: dict[str, int], taking: dict[str, int]
) -> None:
    shares = {zone: ZoneAllocation(0, 100, count) for zone, count in desired.items()}
    assert giving_and_receiving_zones(shares, hints) == (giving, taking)


def test_valid_hints_of_a_slice_are_recognized() -> None:
    shares = {"a": ZoneAllocation(1, 2, 1.5), "b": ZoneAllocation(1, 2, 1.5)}
    assert valid_hints([in_zone("a", "a"), in_zone("a", "b")], {}, shares) == {"a": 1, "b": 1}
    assert valid_hints([in_zone("a", "a"), in_zone("a", ready=False)], {}, shares) == {"a": 1}
    assert valid_hints([in_zone("a", "a"), in_zone("a")], {}, shares) is None
    assert valid_hints([in_zone("a", "gone")], {}, shares) is None
    assert valid_hints([in_zone("a", "a")], {"a": 2}, shares) is None


def test_service_is_overloaded_if_a_zone_has_too_few_hints() -> None:
    even = {"a": 0.5, "b": 0.5}
    assert not is_overloaded({}, even)
    assert is_overloaded({"a": 1}, None)
    assert is_overloaded({"a": 2}, even)
    assert not is_overloaded({"a": 5, "b": 5}, even)
    assert is_overloaded({"a": 7, "b": 3}, even)


def test_endpoint_without_a_zone_prevents_hints() -> None:
    plan = SlicePlan(create=[SliceDraft(None, "IPv4", (), {}, [in_zone("a"), in_zone(None)])])
    with pytest.raises(HintsUnavailable, match="One or more endpoints do not have a zone specified"):
        hint_by_zones(plan, {"a": 0.5, "b": 0.5})


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=30), st.data())
def test_hints_never_overload_a_zone(pods: list[tuple[str, bool]], data: st.DataObject) -> None:
    weights = data.draw(st.tuples(*[st.integers(1, 10)] * 3))
    ratios = {zone: weight / sum(weights) for zone, weight in zip("abc", weights, strict=True)}
    endpoints = [in_zone(zone, ready=ready) for zone, ready in pods]
    plan = SlicePlan(create=[SliceDraft(None, "IPv4", (), {}, endpoints)])
    try:
        hints = hint_by_zones(plan, ratios)
    except HintsUnavailable:
        return
    found = [one.hints.for_zones[0].name for one in plan.create[0].endpoints if one.hints is not None]
    assert len(found) == sum(ready for _, ready in pods)
    assert {zone: found.count(zone) for zone in found} == {zone: count for zone, count in hints.items() if count}
