"""How fast nodes are emptied: one by one, slower where much of a zone is gone, not at all if all seem to be."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import Node
from kubeloop.controllers import node_lifecycle
from kubeloop.testing import Cluster
from tests.controllers.node_world import NodeWorld, configure


@pytest.fixture
def world(cluster: Cluster) -> NodeWorld:
    return NodeWorld(cluster)


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def start(world: NodeWorld, **flags: float) -> None:
    configure(world.cluster, **flags)
    world.cluster.start(node_lifecycle.wire)
    world.advance(1)


def lose(world: NodeWorld, *lost: str) -> None:
    """They fall silent; it is just noticed when this returns."""
    world.silence(*lost)
    world.advance(41)
    while world.condition(lost[0]).status == "True":
        world.advance(5)


def test_nodes_of_a_zone_are_emptied_one_every_ten_seconds(world: NodeWorld) -> None:
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


def test_each_zone_has_its_own_pace(world: NodeWorld) -> None:
    world.add(*names("a", 5), zone="a")
    world.add(*names("b", 5), zone="b")
    start(world)
    lose(world, "a0", "a1", "b0", "b1")
    assert len(world.tainted(["a0", "a1"])) == len(world.tainted(["b0", "b1"])) == 1


def test_pace_is_the_flags(world: NodeWorld) -> None:
    world.add(*names("a", 8))
    start(world, node_eviction_rate=0.5)
    lose(world, *names("a", 3))
    world.advance(5)
    assert len(world.tainted(names("a", 3))) == 3


def test_small_zone_of_which_much_is_gone_is_left_alone(world: NodeWorld) -> None:
    world.add(*names("a", 6))
    start(world)
    lost = names("a", 4)
    lose(world, *lost)
    world.advance(300)
    assert world.tainted(lost) == []
    assert all(world.taints(name, "NoSchedule") == ["unreachable"] for name in lost)


def test_large_zone_of_which_much_is_gone_is_emptied_slowly(world: NodeWorld) -> None:
    world.add(*names("a", 6))
    start(world, large_cluster_size_threshold=5)
    lost = names("a", 4)
    lose(world, *lost)
    world.advance(95)
    before = len(world.tainted(lost))
    world.advance(100)
    assert len(world.tainted(lost)) == before + 1


def test_what_counts_as_much_is_the_flags(world: NodeWorld) -> None:
    world.add(*names("a", 6))
    start(world, unhealthy_zone_threshold=0.9)
    lose(world, *names("a", 4))
    world.advance(40)
    assert len(world.tainted(names("a", 4))) == 4


def test_zone_that_is_gone_wholly_is_emptied_at_the_usual_pace_while_others_live(world: NodeWorld) -> None:
    world.add(*names("a", 3), zone="a")
    world.add(*names("b", 3), zone="b")
    start(world)
    lose(world, *names("a", 3))
    world.advance(30)
    assert len(world.tainted(names("a", 3))) == 3


def test_if_all_nodes_seem_gone_pods_stay_and_those_that_were_leaving_too(world: NodeWorld) -> None:
    everyone = names("a", 4)
    world.add(*everyone)
    start(world)
    lose(world, "a0")
    assert world.tainted(everyone) == ["a0"]
    world.silence(*everyone)
    world.advance(300)
    assert all(world.condition(name).status == "Unknown" for name in everyone)
    assert world.tainted(everyone) == []


def test_when_one_is_back_the_others_have_their_whole_grace_period_again(world: NodeWorld) -> None:
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


def test_one_node_alone_is_never_emptied(world: NodeWorld) -> None:
    world.add("only")
    start(world)
    world.silence("only")
    world.advance(600)
    assert world.taints("only") == []
    assert world.taints("only", "NoSchedule") == ["unreachable"]


def test_nodes_that_do_not_count_are_emptied_but_make_no_disruption(world: NodeWorld) -> None:
    world.add(*names("x", 3), labels={"node.kubernetes.io/exclude-disruption": ""})
    world.add(*names("a", 2))
    start(world)
    lose(world, *names("x", 3))
    world.advance(40)
    assert len(world.tainted(names("x", 3))) == 3
    assert world.tainted(names("a", 2)) == []


def test_node_that_is_back_before_its_turn_is_never_tainted(world: NodeWorld) -> None:
    world.add(*names("a", 8))
    start(world)
    lose(world, "a0", "a1")
    (waiting,) = {"a0", "a1"} - set(world.tainted(["a0", "a1"]))
    world.revive(waiting)
    world.advance(60)
    assert world.taints(waiting) == []
    assert world.taints(waiting, "NoSchedule") == []


def test_node_that_goes_away_gives_its_turn_to_the_next(world: NodeWorld) -> None:
    world.add(*names("a", 8))
    start(world)
    lose(world, "a0", "a1", "a2")
    waiting = sorted({"a0", "a1", "a2"} - set(world.tainted(["a0", "a1", "a2"])))
    world.cluster.client.delete(Node, waiting[0])
    world.advance(11)
    assert world.taints(waiting[1]) == ["unreachable"]


def test_metrics_tell_of_zones(world: NodeWorld) -> None:
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
