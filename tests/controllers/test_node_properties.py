# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to nodes and loops: no network is given twice, and pods leave when they have to and only then."""

from __future__ import annotations

from datetime import datetime, timedelta
from ipaddress import ip_network
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Node, Toleration
from kubeloop.controllers import node_ipam, node_lifecycle, taint_eviction
from kubeloop.testing import Cluster, node
from tests.controllers.faults import LOSSES, NETWORK, ControllerProcess, Step, steps
from tests.controllers.nodes import SimulatedNodes, configure

NODES = ("n0", "n1", "n2", "n3")
TOLERATED = {"at-once": 0, "soon": 20, "later": 60, "ever": None}
AWAY = [{"key": "away", "effect": "NoExecute"}]
SLACK = 20.0  # seconds that faults may cost a deletion: a broken watch is mended within these


# Networks


@settings(max_examples=25, deadline=None)
@given(steps("add", "delete", "advance", *NETWORK, *LOSSES), st.integers(0, 1000))
def test_no_cidr_is_assigned_twice_or_leaked(happenings: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        configure(cluster, allocate_node_cidrs=True, cluster_cidr="10.0.0.0/22,fd00::/60")
        process = ControllerProcess(cluster, node_ipam.wire)
        present: set[str] = set()
        for name, number in happenings:
            one = f"n{number}"
            if name == "add" and one not in present:
                cluster.client.create(node(one))
                present.add(one)
            elif name == "delete" and one in present:
                cluster.client.delete(Node, one)
                present.discard(one)
            elif name == "advance":
                cluster.advance(number)
            elif name not in ("add", "delete"):
                process.disturb(name, number)
            _check_networks(cluster)
        cluster.faults.clear()
        cluster.advance(2000)
        _check_networks(cluster)
        served = [one for one in cluster.client.list(Node).items if one.spec.pod_cidrs]
        assert len(served) == min(len(present), 4)


def _check_networks(cluster: Cluster) -> None:
    given = [ip_network(text) for one in cluster.client.list(Node).items for text in one.spec.pod_cidrs]
    for first, second in combinations(given, 2):
        assert first.version != second.version or not first.overlaps(second), (first, second)


# Pods


@settings(max_examples=25, deadline=None)
@given(steps("taint", "untaint", "advance", "advance", *NETWORK, *LOSSES), st.integers(0, 1000))
def test_pods_are_evicted_exactly_when_due(happenings: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        env = SimulatedNodes(cluster)
        env.add("a")
        for name, seconds in TOLERATED.items():
            toleration = Toleration(key="away", operator="Exists", effect="NoExecute", toleration_seconds=seconds)
            env.run_pod(name, "a", tolerations=(toleration,))
        process = ControllerProcess(cluster, taint_eviction.wire)
        tainted_since: datetime | None = None
        left: set[str] = set()
        for name, number in [*happenings, ("untaint", 0), ("taint", 0)]:
            if name == "taint" and tainted_since is None:
                cluster.client.patch(Node, "a", {"spec": {"taints": AWAY}})
                tainted_since = cluster.clock.now()
            elif name == "untaint" and tainted_since is not None:
                left |= _gone(env)
                cluster.client.patch(Node, "a", {"spec": {"taints": None}})
                # A partitioned controller cannot know yet that the taint is removed: only its own view counts.
                cluster.advance(SLACK)
                left |= {one for one in _gone(env) if not _too_early(one, tainted_since, cluster.clock.now())}
                tainted_since = None
            elif name == "advance":
                cluster.advance(10 * number)
            elif name not in ("taint", "untaint"):
                process.disturb(name, number)
            _check_no_early_eviction(env, tainted_since, left)
        cluster.faults.clear()
        cluster.advance(300)
        assert _gone(env) == {"at-once", "soon", "later"}


def _gone(env: SimulatedNodes) -> set[str]:
    found = {name: env.pod(name) for name in TOLERATED}
    return {name for name, one in found.items() if one is None or one.metadata.deletion_timestamp is not None}


def _too_early(name: str, since: datetime, now: datetime) -> bool:
    seconds = TOLERATED[name]
    return seconds is None or now < since + timedelta(seconds=seconds)


def _check_no_early_eviction(env: SimulatedNodes, since: datetime | None, left: set[str]) -> None:
    for name in _gone(env) - left:
        assert since is not None, f"{name} left a node without taints"
        assert not _too_early(name, since, env.cluster.clock.now()), f"{name} left too early"


# Nodes


@settings(max_examples=15, deadline=None)
@given(steps("silence", "revive", "advance", "advance", *NETWORK, "lose patch", "crash", most=16), st.integers(0, 1000))
def test_taints_converge_to_node_conditions(happenings: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        configure(cluster, node_eviction_rate=1.0, unhealthy_zone_threshold=2.0)
        env = SimulatedNodes(cluster)
        env.add(*NODES)
        process = ControllerProcess(cluster, node_lifecycle.wire)
        for name, number in happenings:
            one = NODES[number % 3]
            if name == "silence":
                env.silence(one)
            elif name == "revive" and one not in env.living:
                env.revive(one)
            elif name == "advance":
                env.advance(10 * number)
            elif name != "revive":
                process.disturb(name, number)
            assert env.condition("n3").status == "True"  # it has never been silent, however little is seen of it
        cluster.faults.clear()
        env.advance(400)
        lost = [one for one in NODES if one not in env.living]
        assert env.tainted(NODES) == lost
        for one in NODES:
            expected = [] if one in env.living else ["unreachable"]
            assert env.taints(one, "NoSchedule") == expected
