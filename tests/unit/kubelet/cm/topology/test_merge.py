# SPDX-License-Identifier: Apache-2.0
"""Merge of topology hints, compared with a merge of all combinations; policies and their options."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.kubelet.cm.topology.hints import ResourceHints, TopologyHint
from kubeloop.kubelet.cm.topology.merge import (
    IMPOSSIBLE,
    NO_PREFERENCE,
    HintLists,
    IsBetter,
    hint_lists,
    is_closer,
    is_narrower,
    merge_hints,
)
from kubeloop.kubelet.cm.topology.policies import TopologyOptions, TopologyPolicy, parse_topology_options
from tests.unit.kubelet.cm.machines import DUAL_SOCKET_HT, MULTI_NUMA_HT, machine

NODES = frozenset(range(4))
DISTANCES = ((10, 21, 11, 31), (21, 10, 31, 12), (11, 31, 10, 21), (31, 12, 21, 10))
HINTS = st.builds(
    TopologyHint,
    st.one_of(st.none(), st.frozensets(st.integers(0, 3), min_size=1)),
    st.booleans(),
)


def reference_better(current: TopologyHint, candidate: TopologyHint, target: int, is_better: IsBetter) -> TopologyHint:
    """Compare two hints rule by rule, in the words of the documentation."""
    now, new = current.affinity, candidate.affinity
    assert now is not None
    assert new is not None
    by_mask = current if now == new or is_better(now, new) else candidate
    if not current.preferred and candidate.preferred:
        return candidate
    if current.preferred and not candidate.preferred:
        return current
    if current.preferred and candidate.preferred:
        return by_mask
    if len(now) > target:
        return by_mask
    if len(now) == target:
        return by_mask if len(new) == target else current
    if len(new) > target:
        return current
    if len(new) == target or len(new) > len(now):
        return candidate
    return current if len(new) < len(now) else by_mask


def reference_merge(hints: HintLists, is_better: IsBetter) -> TopologyHint:
    sizes = [[len(one.affinity) for one in found if one.affinity is not None] for found in hints]
    target = max((min(found) for found in sizes if found), default=0)
    best: TopologyHint | None = None
    for combination in product(*hints):
        masks = [one.affinity for one in combination if one.affinity is not None]
        merged = TopologyHint(
            NODES.intersection(*masks),
            all(one.preferred for one in combination) and all(mask == masks[0] for mask in masks),
        )
        if merged.affinity:
            best = merged if best is None else reference_better(best, merged, target, is_better)
    return TopologyHint(NODES, False) if best is None else best


@given(st.lists(st.lists(HINTS, max_size=5, unique=True).map(tuple), max_size=4), st.booleans())
def test_the_merge_equals_that_of_all_combinations(hints: HintLists, closest: bool) -> None:
    is_better = is_closer(DISTANCES) if closest else is_narrower
    assert merge_hints(NODES, hints, is_better) == reference_merge(hints, is_better)


def test_providers_without_preference_accept_all_nodes() -> None:
    own = TopologyHint(frozenset((1,)), True)
    providers: list[ResourceHints] = [{}, {"a": None, "b": ()}, {"cpu": (own,)}]
    assert hint_lists(providers) == [(NO_PREFERENCE,), (NO_PREFERENCE,), (IMPOSSIBLE,), (own,)]


def test_closer_nodes_are_preferred() -> None:
    hints: HintLists = [tuple(TopologyHint(frozenset(one), True) for one in ((0, 1), (0, 2), (1, 3)))]
    assert merge_hints(NODES, hints, is_narrower).affinity == frozenset((0, 1))
    assert merge_hints(NODES, hints, is_closer(DISTANCES)).affinity == frozenset((0, 2))


@pytest.mark.parametrize(
    ("policy", "affinity", "admits"),
    [
        ("best-effort", frozenset((0, 1)), True),
        ("restricted", frozenset((0, 1)), True),
        ("single-numa-node", None, False),
    ],
)
def test_policies_differ_for_resources_of_two_nodes(policy: str, affinity: frozenset[int], admits: bool) -> None:
    found = TopologyPolicy(policy, TopologyOptions(), DUAL_SOCKET_HT)
    hint, is_admitted = found.merge([{"cpu": (TopologyHint(frozenset((0, 1)), True),)}])
    assert (hint.affinity, is_admitted) == (affinity, admits)


@pytest.mark.parametrize(
    ("policy", "admits"), [("best-effort", True), ("restricted", False), ("single-numa-node", False)]
)
def test_only_best_effort_admits_hints_that_are_not_preferred(policy: str, admits: bool) -> None:
    found = TopologyPolicy(policy, TopologyOptions(), DUAL_SOCKET_HT)
    assert found.merge([{"cpu": (TopologyHint(frozenset((0, 1)), False),)}])[1] is admits


def test_pods_without_preferences_are_admitted_anywhere() -> None:
    found = TopologyPolicy("single-numa-node", TopologyOptions(), DUAL_SOCKET_HT)
    assert found.merge([{}, {}]) == (TopologyHint(None, True), True)


def test_machines_with_too_many_nodes_are_refused() -> None:
    large = machine(9, lambda cpu: cpu, lambda cpu: cpu)
    with pytest.raises(ValueError, match="unsupported on machines with more than 8 NUMA Nodes"):
        TopologyPolicy("restricted", TopologyOptions(), large)
    TopologyPolicy("restricted", parse_topology_options({"max-allowable-numa-nodes": "9"}), large)


def test_distances_are_needed_for_the_closest_nodes() -> None:
    TopologyPolicy("restricted", TopologyOptions(prefers_closest=True), MULTI_NUMA_HT)
    alone = [type(one)(one.id, one.cores) for one in DUAL_SOCKET_HT]
    with pytest.raises(ValueError, match="error getting NUMA distances"):
        TopologyPolicy("restricted", TopologyOptions(prefers_closest=True), alone)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": "true"}, 'unknown Topology Manager Policy option: "x"'),
        (
            {"prefer-closest-numa-nodes": "maybe"},
            'bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (
            {"max-allowable-numa-nodes": "x"},
            'unable to convert policy option to integer "max-allowable-numa-nodes": strconv.Atoi: parsing "x": '
            "invalid syntax",
        ),
        (
            {"max-allowable-numa-nodes": "7"},
            'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
        ),
    ],
)
def test_invalid_options_are_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_topology_options(values)
    assert str(caught.value) == message
