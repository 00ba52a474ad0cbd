# SPDX-License-Identifier: Apache-2.0
"""Tests of eviction by taints that pods do not tolerate."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Node, Pod, Toleration
from kubeloop.controllers import taint_eviction
from kubeloop.testing import Cluster
from tests.controllers.nodes import SimulatedNodes

AWAY = {"key": "away", "effect": "NoExecute"}
ALSO = {"key": "also", "effect": "NoExecute"}


def tolerated(seconds: int | None, key: str = "away") -> Toleration:
    return Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=seconds)


@pytest.fixture
def world(cluster: Cluster) -> SimulatedNodes:
    world = SimulatedNodes(cluster)
    world.add("a", "b")
    cluster.start(taint_eviction.wire)
    return world


def taint(world: SimulatedNodes, *taints: Any, node: str = "a") -> None:
    world.cluster.client.patch(Node, node, {"spec": {"taints": list(taints) or None}})
    world.cluster.settle()


def is_leaving(world: SimulatedNodes, name: str) -> bool:
    found = world.pod(name)
    return found is None or found.metadata.deletion_timestamp is not None


def test_pod_without_toleration_is_deleted_with_an_event(world: SimulatedNodes) -> None:
    world.run_pod("p", "a")
    world.run_pod("elsewhere", "b")
    taint(world, AWAY)
    found = world.pod("p")
    assert found.metadata.deletion_timestamp is not None
    told = next(one for one in found.status.conditions if one.type == "DisruptionTarget")
    assert (told.status, told.reason) == ("True", "DeletionByTaintManager")
    assert told.message == "Taint manager: deleting due to NoExecute taint"
    assert told.observed_generation == 1
    assert not is_leaving(world, "elsewhere")
    (event,) = world.cluster.events(reason="TaintManagerEviction")
    assert event.message == "Marking for deletion Pod default/p"
    assert event.source.component == "taint-eviction-controller"


def test_pod_on_an_untainted_node_is_evaluated_when_tainted(cluster: Cluster) -> None:
    world = SimulatedNodes(cluster)
    world.add("a")
    loop = cluster.start(taint_eviction.wire)
    world.run_pod("p", "a")
    assert loop.status().reconciles == 0
    taint(world, AWAY)
    assert is_leaving(world, "p")


def test_other_taint_effects_do_not_evict(world: SimulatedNodes) -> None:
    world.run_pod("p", "a")
    taint(world, {"key": "away", "effect": "NoSchedule"}, {"key": "x", "effect": "PreferNoSchedule"})
    assert not is_leaving(world, "p")


def test_pod_is_deleted_exactly_after_toleration_seconds(world: SimulatedNodes) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(world, AWAY)
    world.cluster.advance(99)
    assert not is_leaving(world, "p")
    world.cluster.advance(2)
    assert is_leaving(world, "p")


@pytest.mark.parametrize("seconds", [0, -5])
def test_zero_toleration_seconds_evict_immediately(world: SimulatedNodes, seconds: int) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(seconds),))
    taint(world, AWAY)
    assert is_leaving(world, "p")


def test_pod_with_unlimited_toleration_is_kept(world: SimulatedNodes) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(None),))
    taint(world, AWAY)
    world.cluster.advance(hours=3)
    assert not is_leaving(world, "p")


def test_huge_toleration_seconds_are_unlimited(world: SimulatedNodes) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(2**62),))
    taint(world, AWAY)
    world.cluster.advance(hours=3)
    assert not is_leaving(world, "p")


def test_minimum_of_used_toleration_seconds_applies(world: SimulatedNodes) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(1000), tolerated(10, "also"), tolerated(1, "other")))
    taint(world, AWAY, ALSO)
    world.cluster.advance(9)
    assert not is_leaving(world, "p")
    world.cluster.advance(2)
    assert is_leaving(world, "p")


def test_one_untolerated_taint_evicts(world: SimulatedNodes) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(1000),))
    taint(world, AWAY)
    assert not is_leaving(world, "p")
    taint(world, AWAY, ALSO)
    assert is_leaving(world, "p")
    assert world.told("TaintManagerEviction") == [
        "Cancelling deletion of Pod default/p",
        "Marking for deletion Pod default/p",
    ]


def test_pods_are_kept_if_the_taint_is_removed_in_time(world: SimulatedNodes) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(world, AWAY)
    world.cluster.advance(90)
    taint(world)
    world.cluster.advance(100)
    assert not is_leaving(world, "p")
    assert world.told("TaintManagerEviction") == ["Cancelling deletion of Pod default/p"]


def test_new_taint_restarts_the_toleration_time(world: SimulatedNodes) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(world, AWAY)
    world.cluster.advance(90)
    taint(world)
    taint(world, AWAY)
    world.cluster.advance(90)
    assert not is_leaving(world, "p")
    world.cluster.advance(11)
    assert is_leaving(world, "p")


def test_scheduled_deletion_is_kept_when_tolerated_taints_change(world: SimulatedNodes) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(100), tolerated(500, "also")))
    taint(world, AWAY)
    world.cluster.advance(50)
    taint(world, AWAY, ALSO)
    taint(world, ALSO)
    world.cluster.advance(51)
    assert is_leaving(world, "p")


def test_unlimited_toleration_added_in_time_cancels_eviction(world: SimulatedNodes) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(world, AWAY)
    world.cluster.advance(50)
    patch = [{"op": "remove", "path": "/spec/tolerations/0/tolerationSeconds"}]
    world.cluster.client.patch(Pod, "p", patch, "default", type="application/json-patch+json")
    world.cluster.advance(60)
    assert not is_leaving(world, "p")
    assert world.told("TaintManagerEviction") == ["Cancelling deletion of Pod default/p"]


def test_later_pod_has_its_own_toleration_time(world: SimulatedNodes) -> None:
    taint(world, AWAY)
    world.cluster.advance(50)
    world.run_pod("late", "a", tolerations=(tolerated(100),))
    world.run_pod("at-once", "a")
    world.cluster.advance(90)
    assert is_leaving(world, "at-once")
    assert not is_leaving(world, "late")
    world.cluster.advance(11)
    assert is_leaving(world, "late")


def test_recreated_pod_is_independent(world: SimulatedNodes) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(world, AWAY)
    world.cluster.advance(90)
    world.cluster.client.delete(Pod, "p", "default", grace_seconds=0)
    world.run_pod("p", "a", tolerations=(tolerated(100),))
    world.cluster.advance(90)
    assert not is_leaving(world, "p")
    world.cluster.advance(11)
    assert is_leaving(world, "p")


def test_scheduled_deletion_survives_node_deletion(world: SimulatedNodes) -> None:
    world.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(world, AWAY)
    world.cluster.client.delete(Node, "a")
    world.cluster.advance(101)
    assert is_leaving(world, "p")


def test_existing_taints_count_from_the_start(cluster: Cluster) -> None:
    world = SimulatedNodes(cluster)
    world.add("a")
    world.run_pod("now", "a")
    world.run_pod("later", "a", tolerations=(tolerated(60),))
    taint(world, AWAY)
    cluster.advance(1000)
    cluster.start(taint_eviction.wire)
    assert is_leaving(world, "now")
    cluster.advance(59)
    assert not is_leaving(world, "later")
    cluster.advance(2)
    assert is_leaving(world, "later")


def test_deletion_is_retried_with_one_event(world: SimulatedNodes) -> None:
    world.run_pod("p", "a")
    world.cluster.faults.fail("delete", "pods", times=8)
    taint(world, AWAY)
    world.cluster.advance(30)
    assert is_leaving(world, "p")
    assert world.told("TaintManagerEviction") == ["Marking for deletion Pod default/p"]


def test_disruption_condition_precedes_deletion(world: SimulatedNodes) -> None:
    world.run_pod("p", "a")
    world.cluster.faults.fail("patch", "pods", times=3)
    taint(world, AWAY)
    world.cluster.advance(10)
    assert is_leaving(world, "p")
    assert any(one.type == "DisruptionTarget" for one in world.pod("p").status.conditions)


def test_many_pods_need_no_task_each(world: SimulatedNodes) -> None:
    for number in range(100):
        world.run_pod(f"p{number}", "a", tolerations=(tolerated(100 + number),))

    async def tasks() -> int:
        return len(asyncio.all_tasks())

    before = world.cluster.run(tasks())
    taint(world, AWAY)
    assert world.cluster.run(tasks()) == before
    world.cluster.advance(150.5)
    assert sum(is_leaving(world, f"p{number}") for number in range(100)) == 51
    shown = world.cluster.context.telemetry.registry.render()
    assert "taint_eviction_controller_pod_deletions_total 51" in shown
