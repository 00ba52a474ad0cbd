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
def env(cluster: Cluster) -> SimulatedNodes:
    env = SimulatedNodes(cluster)
    env.add("a", "b")
    cluster.start(taint_eviction.wire)
    return env


def taint(env: SimulatedNodes, *taints: Any, node: str = "a") -> None:
    env.cluster.client.patch(Node, node, {"spec": {"taints": list(taints) or None}})
    env.cluster.settle()


def is_leaving(env: SimulatedNodes, name: str) -> bool:
    found = env.pod(name)
    return found is None or found.metadata.deletion_timestamp is not None


def test_pod_without_toleration_is_deleted_with_an_event(env: SimulatedNodes) -> None:
    env.run_pod("p", "a")
    env.run_pod("elsewhere", "b")
    taint(env, AWAY)
    found = env.pod("p")
    assert found.metadata.deletion_timestamp is not None
    told = next(one for one in found.status.conditions if one.type == "DisruptionTarget")
    assert (told.status, told.reason) == ("True", "DeletionByTaintManager")
    assert told.message == "Taint manager: deleting due to NoExecute taint"
    assert told.observed_generation == 1
    assert not is_leaving(env, "elsewhere")
    (event,) = env.cluster.events(reason="TaintManagerEviction")
    assert event.message == "Marking for deletion Pod default/p"
    assert event.source.component == "taint-eviction-controller"


def test_pod_on_an_untainted_node_is_evaluated_when_tainted(cluster: Cluster) -> None:
    env = SimulatedNodes(cluster)
    env.add("a")
    loop = cluster.start(taint_eviction.wire)
    env.run_pod("p", "a")
    assert loop.status().reconciles == 0
    taint(env, AWAY)
    assert is_leaving(env, "p")


def test_other_taint_effects_do_not_evict(env: SimulatedNodes) -> None:
    env.run_pod("p", "a")
    taint(env, {"key": "away", "effect": "NoSchedule"}, {"key": "x", "effect": "PreferNoSchedule"})
    assert not is_leaving(env, "p")


def test_pod_is_deleted_exactly_after_toleration_seconds(env: SimulatedNodes) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(env, AWAY)
    env.cluster.advance(99)
    assert not is_leaving(env, "p")
    env.cluster.advance(2)
    assert is_leaving(env, "p")


@pytest.mark.parametrize("seconds", [0, -5])
def test_zero_toleration_seconds_evict_immediately(env: SimulatedNodes, seconds: int) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(seconds),))
    taint(env, AWAY)
    assert is_leaving(env, "p")


def test_pod_with_unlimited_toleration_is_kept(env: SimulatedNodes) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(None),))
    taint(env, AWAY)
    env.cluster.advance(hours=3)
    assert not is_leaving(env, "p")


def test_huge_toleration_seconds_are_unlimited(env: SimulatedNodes) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(2**62),))
    taint(env, AWAY)
    env.cluster.advance(hours=3)
    assert not is_leaving(env, "p")


def test_minimum_of_used_toleration_seconds_applies(env: SimulatedNodes) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(1000), tolerated(10, "also"), tolerated(1, "other")))
    taint(env, AWAY, ALSO)
    env.cluster.advance(9)
    assert not is_leaving(env, "p")
    env.cluster.advance(2)
    assert is_leaving(env, "p")


def test_one_untolerated_taint_evicts(env: SimulatedNodes) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(1000),))
    taint(env, AWAY)
    assert not is_leaving(env, "p")
    taint(env, AWAY, ALSO)
    assert is_leaving(env, "p")
    assert env.told("TaintManagerEviction") == [
        "Cancelling deletion of Pod default/p",
        "Marking for deletion Pod default/p",
    ]


def test_pods_are_kept_if_the_taint_is_removed_in_time(env: SimulatedNodes) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(env, AWAY)
    env.cluster.advance(90)
    taint(env)
    env.cluster.advance(100)
    assert not is_leaving(env, "p")
    assert env.told("TaintManagerEviction") == ["Cancelling deletion of Pod default/p"]


def test_new_taint_restarts_the_toleration_time(env: SimulatedNodes) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(env, AWAY)
    env.cluster.advance(90)
    taint(env)
    taint(env, AWAY)
    env.cluster.advance(90)
    assert not is_leaving(env, "p")
    env.cluster.advance(11)
    assert is_leaving(env, "p")


def test_scheduled_deletion_is_kept_when_tolerated_taints_change(env: SimulatedNodes) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(100), tolerated(500, "also")))
    taint(env, AWAY)
    env.cluster.advance(50)
    taint(env, AWAY, ALSO)
    taint(env, ALSO)
    env.cluster.advance(51)
    assert is_leaving(env, "p")


def test_unlimited_toleration_added_in_time_cancels_eviction(env: SimulatedNodes) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(env, AWAY)
    env.cluster.advance(50)
    patch = [{"op": "remove", "path": "/spec/tolerations/0/tolerationSeconds"}]
    env.cluster.client.patch(Pod, "p", patch, "default", type="application/json-patch+json")
    env.cluster.advance(60)
    assert not is_leaving(env, "p")
    assert env.told("TaintManagerEviction") == ["Cancelling deletion of Pod default/p"]


def test_later_pod_has_its_own_toleration_time(env: SimulatedNodes) -> None:
    taint(env, AWAY)
    env.cluster.advance(50)
    env.run_pod("late", "a", tolerations=(tolerated(100),))
    env.run_pod("at-once", "a")
    env.cluster.advance(90)
    assert is_leaving(env, "at-once")
    assert not is_leaving(env, "late")
    env.cluster.advance(11)
    assert is_leaving(env, "late")


def test_recreated_pod_is_independent(env: SimulatedNodes) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(env, AWAY)
    env.cluster.advance(90)
    env.cluster.client.delete(Pod, "p", "default", grace_seconds=0)
    env.run_pod("p", "a", tolerations=(tolerated(100),))
    env.cluster.advance(90)
    assert not is_leaving(env, "p")
    env.cluster.advance(11)
    assert is_leaving(env, "p")


def test_scheduled_deletion_survives_node_deletion(env: SimulatedNodes) -> None:
    env.run_pod("p", "a", tolerations=(tolerated(100),))
    taint(env, AWAY)
    env.cluster.client.delete(Node, "a")
    env.cluster.advance(101)
    assert is_leaving(env, "p")


def test_existing_taints_count_from_the_start(cluster: Cluster) -> None:
    env = SimulatedNodes(cluster)
    env.add("a")
    env.run_pod("now", "a")
    env.run_pod("later", "a", tolerations=(tolerated(60),))
    taint(env, AWAY)
    cluster.advance(1000)
    cluster.start(taint_eviction.wire)
    assert is_leaving(env, "now")
    cluster.advance(59)
    assert not is_leaving(env, "later")
    cluster.advance(2)
    assert is_leaving(env, "later")


def test_deletion_is_retried_with_one_event(env: SimulatedNodes) -> None:
    env.run_pod("p", "a")
    env.cluster.faults.fail("delete", "pods", times=8)
    taint(env, AWAY)
    env.cluster.advance(30)
    assert is_leaving(env, "p")
    assert env.told("TaintManagerEviction") == ["Marking for deletion Pod default/p"]


def test_disruption_condition_precedes_deletion(env: SimulatedNodes) -> None:
    env.run_pod("p", "a")
    env.cluster.faults.fail("patch", "pods", times=3)
    taint(env, AWAY)
    env.cluster.advance(10)
    assert is_leaving(env, "p")
    assert any(one.type == "DisruptionTarget" for one in env.pod("p").status.conditions)


def test_many_pods_need_no_task_each(env: SimulatedNodes) -> None:
    for number in range(100):
        env.run_pod(f"p{number}", "a", tolerations=(tolerated(100 + number),))

    async def tasks() -> int:
        return len(asyncio.all_tasks())

    before = env.cluster.run(tasks())
    taint(env, AWAY)
    assert env.cluster.run(tasks()) == before
    env.cluster.advance(150.5)
    assert sum(is_leaving(env, f"p{number}") for number in range(100)) == 51
    shown = env.cluster.context.telemetry.registry.render()
    assert "taint_eviction_controller_pod_deletions_total 51" in shown
