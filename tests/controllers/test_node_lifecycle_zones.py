# SPDX-License-Identifier: Apache-2.0
"""Tests of eviction rates: one node at a time, slower in partially disrupted zones, none in full disruption."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import Node
from kubeloop.controllers import node_lifecycle
from kubeloop.testing import Cluster
from tests.controllers.nodes import SimulatedNodes, configure


@pytest.fixture
def env(cluster: Cluster) -> SimulatedNodes:
    return SimulatedNodes(cluster)


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def start(env: SimulatedNodes, **flags: float) -> None:
    configure(env.cluster, **flags)
    env.cluster.start(node_lifecycle.wire)
    env.advance(1)


def lose(env: SimulatedNodes, *lost: str) -> None:
    """Silence nodes until they are detected as not ready."""
    env.silence(*lost)
    env.advance(41)
    while env.condition(lost[0]).status == "True":
        env.advance(5)


def test_nodes_of_a_zone_are_evicted_one_every_ten_seconds(env: SimulatedNodes) -> None:
    env.add(*names("a", 8))
    start(env)
    lost = names("a", 3)
    lose(env, *lost)
    assert len(env.tainted(lost)) == 1
    env.advance(8)
    assert len(env.tainted(lost)) == 1
    env.advance(3)
    assert len(env.tainted(lost)) == 2
    env.advance(10)
    assert len(env.tainted(lost)) == 3


def test_each_zone_has_its_own_rate(env: SimulatedNodes) -> None:
    env.add(*names("a", 5), zone="a")
    env.add(*names("b", 5), zone="b")
    start(env)
    lose(env, "a0", "a1", "b0", "b1")
    assert len(env.tainted(["a0", "a1"])) == len(env.tainted(["b0", "b1"])) == 1


def test_eviction_rate_is_set_by_flag(env: SimulatedNodes) -> None:
    env.add(*names("a", 8))
    start(env, node_eviction_rate=0.5)
    lose(env, *names("a", 3))
    env.advance(5)
    assert len(env.tainted(names("a", 3))) == 3


def test_small_partially_disrupted_zone_stops_evictions(env: SimulatedNodes) -> None:
    env.add(*names("a", 6))
    start(env)
    lost = names("a", 4)
    lose(env, *lost)
    env.advance(300)
    assert env.tainted(lost) == []
    assert all(env.taints(name, "NoSchedule") == ["unreachable"] for name in lost)


def test_large_partially_disrupted_zone_uses_the_secondary_rate(env: SimulatedNodes) -> None:
    env.add(*names("a", 6))
    start(env, large_cluster_size_threshold=5)
    lost = names("a", 4)
    lose(env, *lost)
    env.advance(95)
    before = len(env.tainted(lost))
    env.advance(100)
    assert len(env.tainted(lost)) == before + 1


def test_unhealthy_zone_threshold_is_set_by_flag(env: SimulatedNodes) -> None:
    env.add(*names("a", 6))
    start(env, unhealthy_zone_threshold=0.9)
    lose(env, *names("a", 4))
    env.advance(40)
    assert len(env.tainted(names("a", 4))) == 4


def test_fully_disrupted_zone_is_evicted_at_the_normal_rate(env: SimulatedNodes) -> None:
    env.add(*names("a", 3), zone="a")
    env.add(*names("b", 3), zone="b")
    start(env)
    lose(env, *names("a", 3))
    env.advance(30)
    assert len(env.tainted(names("a", 3))) == 3


def test_full_disruption_of_all_zones_stops_evictions(env: SimulatedNodes) -> None:
    everyone = names("a", 4)
    env.add(*everyone)
    start(env)
    lose(env, "a0")
    assert env.tainted(everyone) == ["a0"]
    env.silence(*everyone)
    env.advance(300)
    assert all(env.condition(name).status == "Unknown" for name in everyone)
    assert env.tainted(everyone) == []


def test_recovery_from_full_disruption_restarts_the_grace_period(env: SimulatedNodes) -> None:
    everyone = names("a", 3)
    env.add(*everyone)
    start(env)
    env.silence(*everyone)
    env.advance(100)
    env.revive("a0")
    env.advance(40)
    assert env.condition("a0").status == "True"
    env.revive("a1")
    env.advance(60)
    assert env.tainted(everyone) == ["a2"]
    assert env.condition("a1").status == "True"


def test_single_node_is_never_evicted(env: SimulatedNodes) -> None:
    env.add("only")
    start(env)
    env.silence("only")
    env.advance(600)
    assert env.taints("only") == []
    assert env.taints("only", "NoSchedule") == ["unreachable"]


def test_excluded_nodes_are_evicted_without_counting_as_disruption(env: SimulatedNodes) -> None:
    env.add(*names("x", 3), labels={"node.kubernetes.io/exclude-disruption": ""})
    env.add(*names("a", 2))
    start(env)
    lose(env, *names("x", 3))
    env.advance(40)
    assert len(env.tainted(names("x", 3))) == 3
    assert env.tainted(names("a", 2)) == []


def test_node_recovered_before_its_turn_is_not_tainted(env: SimulatedNodes) -> None:
    env.add(*names("a", 8))
    start(env)
    lose(env, "a0", "a1")
    (waiting,) = {"a0", "a1"} - set(env.tainted(["a0", "a1"]))
    env.revive(waiting)
    env.advance(60)
    assert env.taints(waiting) == []
    assert env.taints(waiting, "NoSchedule") == []


def test_deleted_node_passes_its_turn_to_the_next(env: SimulatedNodes) -> None:
    env.add(*names("a", 8))
    start(env)
    lose(env, "a0", "a1", "a2")
    waiting = sorted({"a0", "a1", "a2"} - set(env.tainted(["a0", "a1", "a2"])))
    env.cluster.client.delete(Node, waiting[0])
    env.advance(11)
    assert env.taints(waiting[1]) == ["unreachable"]


def test_metrics_have_zones(env: SimulatedNodes) -> None:
    env.add(*names("a", 4), zone="east")
    env.add("b")
    start(env)
    lose(env, "a0")
    shown = env.cluster.context.telemetry.registry.render()
    assert 'node_collector_zone_size{zone=":\x00:east"} 4' in shown
    assert 'node_collector_unhealthy_nodes_in_zone{zone=":\x00:east"} 1' in shown
    assert 'node_collector_zone_health{zone=":\x00:east"} 75' in shown
    assert 'node_collector_evictions_total{zone=":\x00:east"} 1' in shown
    assert 'node_collector_evictions_total{zone=""} 0' in shown
