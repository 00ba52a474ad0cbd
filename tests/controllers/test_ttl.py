# SPDX-License-Identifier: Apache-2.0
"""Tests of the TTL annotation of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.controllers.ttl import ANNOTATION, TTL_BOUNDARIES, annotated_ttl, boundary_index, wire
from tests.controllers.controller_harness import ControllerHarness, bench


def test_nodes_get_the_ttl_annotation_and_it_is_restored() -> None:
    async def scenario(plane: ControllerHarness) -> None:
        await plane.client.create(Node(metadata=ObjectMeta(name="before")))
        await plane.start(wire)
        await plane.client.create(Node(metadata=ObjectMeta(name="later")))
        await plane.settle()
        for name in ("before", "later"):
            assert (await plane.client.get(Node, name)).metadata.annotations[ANNOTATION] == "0"
        await plane.client.patch(Node, "later", {"metadata": {"annotations": {ANNOTATION: "much"}}})
        await plane.settle()
        assert (await plane.client.get(Node, "later")).metadata.annotations[ANNOTATION] == "0"

    bench(scenario)


def test_larger_cluster_has_a_larger_ttl() -> None:
    async def scenario(plane: ControllerHarness) -> None:
        await plane.start(wire)
        for number in range(101):
            await plane.client.create(Node(metadata=ObjectMeta(name=f"node-{number}")))
        await plane.settle()
        assert (await plane.client.get(Node, "node-100")).metadata.annotations[ANNOTATION] == "15"

    bench(scenario)


@pytest.mark.parametrize(
    ("nodes", "before", "after"),
    [(100, 0, 0), (101, 0, 1), (90, 1, 1), (89, 1, 0), (501, 1, 2), (5000, 0, 4), (0, 4, 0), (450, 2, 2), (449, 2, 1)],
)
def test_ttl_changes_with_hysteresis(nodes: int, before: int, after: int) -> None:
    assert boundary_index(nodes, before) == after


@given(st.integers(0, 10_000), st.integers(0, len(TTL_BOUNDARIES) - 1))
def test_ttl_step_is_stable(nodes: int, before: int) -> None:
    step = boundary_index(nodes, before)
    assert TTL_BOUNDARIES[step].size_min <= nodes <= TTL_BOUNDARIES[step].size_max
    assert boundary_index(nodes, step) == step


@pytest.mark.parametrize(("annotations", "told"), [({}, None), ({ANNOTATION: "15"}, 15), ({ANNOTATION: "much"}, None)])
def test_invalid_annotation_counts_as_unset(annotations: dict[str, str], told: int | None) -> None:
    assert annotated_ttl(Node(metadata=ObjectMeta(name="a", annotations=annotations))) == told
