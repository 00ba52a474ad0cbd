# SPDX-License-Identifier: Apache-2.0
"""Tests of eviction rates: one node at a time, slower in partially disrupted zones, none in full disruption."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import Node
from kubeloop.controllers import node_lifecycle
from kubeloop.testing import Cluster
from tests.controllers.nodes import SimulatedNodes, configure


@pytest.fixture
def world(cluster: Cluster) -> SimulatedNodes:
    return SimulatedNodes(cluster)


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def start(world: SimulatedNodes, **flags: float) -> None:
    configure(world.cluster, **flags)
    world.cluster.start(node_lifecycle.wire)
    world.advance(1)


def lose(world: SimulatedNodes, *lost: str) -> None:
    """Silence nodes until they are detected as not ready."""
    world.silence(*lost)
    world.advance(41)
    while world.condition(lost[0]).status == "True":
        world.advance(5)


def test_nodes_of_a_zone_are_evicted_one_every_ten_seconds(world: SimulatedNodes) -> None:
    world.add(*names("a", 8))
    start(world)
    lost = names("a", 3)
    lose(world, *lost)
    assert len(world.tainted(lost)) == 1
    world.advance(8)
    assert len(world.tainted(lost)) == 1
    world.advance(3)
    assert len(world.tainted(lost)) == 2
    world.advance(10)
    assert len(world.tainted(lost)) == 3


def test_each_zone_has_its_own_rate(world: SimulatedNodes) -> None:
    world.add(*names("a", 5), zone="a")
    world.add(*names("b", 5), zone="b")
    start(world)
    lose(world, "a0", "a1", "b0", "b1")
    assert len(world.tainted(["a0", "a1"])) == len(world.tainted(["b0", "b1"])) == 1


def test_eviction_rate_is_set_by_flag(world: SimulatedNodes) -> None:
    world.add(*names("a", 8))
    start(world, node_eviction_rate=0.5)
    lose(world, *names("a", 3))
    world.advance(5)
    assert len(world.tainted(names("a", 3))) == 3


def test_small_partially_disrupted_zone_stops_evictions(world: SimulatedNodes) -> None:
    world.add(*names("a", 6))
    start(world)
    lost = names("a", 4)
    lose(world, *lost)
    world.advance(300)
    assert world.tainted(lost) == []
    assert all(world.taints(name, "NoSchedule") == ["unreachable"] for name in lost)


def test_large_partially_disrupted_zone_uses_the_secondary_rate(world: SimulatedNodes) -> None:
    world.add(*names("a", 6))
    start(world, large_cluster_size_threshold=5)
    lost = names("a", 4)
    lose(world, *lost)
    world.advance(95)
    before = len(world.tainted(lost))
    world.advance(100)
    assert len(world.tainted(lost)) == before + 1


def test_unhealthy_zone_threshold_is_set_by_flag(world: SimulatedNodes) -> None:
    world.add(*names("a", 6))
    start(world, unhealthy_zone_threshold=0.9)
    lose(world, *names("a", 4))
    world.advance(40)
    assert len(world.tainted(names("a", 4))) == 4


def test_fully_disrupted_zone_is_evicted_at_the_normal_rate(world: SimulatedNodes) -> None:
    world.add(*names("a", 3), zone="a")
    world.add(*names("b", 3), zone="b")
    start(world)
    lose(world, *names("a", 3))
    world.advance(30)
    assert len(world.tainted(names("a", 3))) == 3


def test_full_disruption_of_all_zones_stops_evictions(world: SimulatedNodes) -> None:
    everyone = names("a", 4)
    world.add(*everyone)
    start(world)
    lose(world, "a0")
    assert world.tainted(everyone) == ["a0"]
    world.silence(*everyone)
    world.advance(300)
    assert all(world.condition(name).status == "Unknown" for name in everyone)
    assert world.tainted(everyone) == []


def test_recovery_from_full_disruption_restarts_the_grace_period(world: SimulatedNodes) -> None:
    everyone = names("a", 3)
    world.add(*everyone)
    start(world)
    world.silence(*everyone)
    world.advance(100)
    world.revive("a0")
    world.advance(40)
    assert world.condition("a0").status == "True"
    world.revive("a1")
    world.advance(60)
    assert world.tainted(everyone) == ["a2"]
    assert world.condition("a1").status == "True"


def test_single_node_is_never_evicted(world: SimulatedNodes) -> None:
    world.add("only")
    start(world)
    world.silence("only")
    world.advance(600)
    assert world.taints("only") == []
    assert world.taints("only", "NoSchedule") == ["unreachable"]


def test_excluded_nodes_are_evicted_without_counting_as_disruption(world: SimulatedNodes) -> None:
    world.add(*names("x", 3), labels={"node.kubernetes.io/exclude-disruption": ""})
    world.add(*names("a", 2))
    start(world)
    lose(world, *names("x", 3))
    world.advance(40)
    assert len(world.tainted(names("x", 3))) == 3
    assert world.tainted(names("a", 2)) == []


def test_node_recovered_before_its_turn_is_not_tainted(world: SimulatedNodes) -> None:
    world.add(*names("a", 8))
    start(world)
    lose(world, "a0", "a1")
    (waiting,) = {"a0", "a1"} - set(world.tainted(["a0", "a1"]))
    world.revive(waiting)
    world.advance(60)
    assert world.taints(waiting) == []
    assert world.taints(waiting, "NoSchedule") == []


def test_deleted_node_passes_its_turn_to_the_next(world: SimulatedNodes) -> None:
    world.add(*names("a", 8))
    start(world)
    lose(world, "a0", "a1", "a2")
    waiting = sorted({"a0", "a1", "a2"} - set(world.tainted(["a0", "a1", "a2"])))
    world.cluster.client.delete(Node, waiting[0])
    world.advance(11)
    assert world.taints(waiting[1]) == ["unreachable"]


def test_metrics_have_zones(world: SimulatedNodes) -> None:
    world.add(*names("a", 4), zone="east")
    world.add("b")
    start(world)
    lose(world, "a0")
    shown = world.cluster.context.telemetry.registry.render()
    assert 'node_collector_zone_size{zone=":\x00:east"} 4' in shown
    assert 'node_collector_unhealthy_nodes_in_zone{zone=":\x00:east"} 1' in shown
    assert 'node_collector_zone_health{zone=":\x00:east"} 75' in shown
    assert 'node_collector_evictions_total{zone=":\x00:east"} 1' in shown
    assert 'node_collector_evictions_total{zone=""} 0' in shown
