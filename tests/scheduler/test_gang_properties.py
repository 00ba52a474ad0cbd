# SPDX-License-Identifier: Apache-2.0
"""Property test: whatever arrives, leaves or fails, no pod of a gang is bound before its minimum can be."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.testing import Cluster, pod
from tests.scheduler.cluster_objects import asking
from tests.scheduler.gangs import add_nodes, gang, gated, member, start_scheduler

GROUPS = ("first", "second")
POD = st.tuples(st.just("pod"), st.sampled_from(GROUPS), st.sampled_from(("1", "2")))
STEPS = st.one_of(
    POD,
    POD,
    POD,
    st.tuples(st.just("node"), st.sampled_from(("1", "2", "4"))),
    st.tuples(st.just("delete"), st.integers(0, 20)),
    st.tuples(st.just("remove node"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.integers(0, 20)),
    st.tuples(st.just("single"), st.sampled_from(("1", "2"))),
)
GROUP_STEPS = st.tuples(st.integers(0, 8), st.integers(0, 8))  # when the groups are created


class Bindings:
    """Checks after each step what it has bound."""

    def __init__(self, cluster: Cluster, least: dict[str, int]) -> None:
        self._cluster, self._least = cluster, least
        self._known: set[str] = set()

    def check(self) -> None:
        """Check that a group of which a pod was bound has its minimum of bound pods."""
        bound: dict[str, set[str]] = {}
        for one in self._cluster.client.list("pods", "default").items:
            group = one.spec.scheduling_group
            if group is not None and one.spec.node_name:
                bound.setdefault(str(group.pod_group_name), set()).add(one.metadata.uid)
        for group_name, uids in bound.items():
            assert not uids - self._known or len(uids) >= self._least[group_name], (group_name, uids)
            self._known |= uids


class GangHarness:
    """Cluster that takes steps."""

    def __init__(self, cluster: Cluster, least: dict[str, int]) -> None:
        self.cluster, self.least = cluster, least
        self.bindings = Bindings(cluster, least)
        self.number = 0
        self.nodes: list[str] = []

    def take(self, step: tuple[Any, ...]) -> None:
        self.number += 1
        getattr(self, "do_" + step[0].replace(" ", "_"))(*step[1:])
        self.cluster.settle()
        self.bindings.check()

    def do_pod(self, group: str, cpu: str) -> None:
        self.cluster.add(member(f"p{self.number}", group, cpu))

    def do_single(self, cpu: str) -> None:
        self.cluster.add(pod(f"p{self.number}", **asking(cpu)))

    def do_delete(self, index: int) -> None:
        pods: list[Pod] = list(self.cluster.client.list("pods", "default").items)
        if pods:
            self.cluster.client.delete("pods", pods[index % len(pods)].metadata.name, "default", grace_seconds=0)

    def do_node(self, cpu: str) -> None:
        name = f"n{self.number}"
        self.nodes.append(name)
        add_nodes(self.cluster, name, cpu=cpu)

    def do_remove_node(self, index: int) -> None:
        if self.nodes:
            self.cluster.client.delete("nodes", self.nodes.pop(index % len(self.nodes)))

    def do_group(self, name: str) -> None:
        if name not in {one.metadata.name for one in self.cluster.client.list(type(gang()), "default").items}:
            self.cluster.add(gang(name, self.least[name]))

    def do_wait(self, seconds: int) -> None:
        self.cluster.advance(seconds)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(2, 4), st.integers(2, 4)),
    GROUP_STEPS,
    st.lists(STEPS, min_size=8, max_size=20),
    st.integers(0, 2**16),
)
def test_no_pod_of_a_gang_is_bound_below_its_minimum(
    least: tuple[int, int], groups: tuple[int, int], steps: list[tuple[Any, ...]], seed: int
) -> None:
    with Cluster(seed=seed, shuffle=True, **gated()) as cluster:
        start_scheduler(cluster)
        env = GangHarness(cluster, dict(zip(GROUPS, least, strict=True)))
        env.take(("node", "2"))
        for number, step in enumerate(steps):
            for name, when in zip(GROUPS, groups, strict=True):
                if when == number:
                    env.take(("group", name))
            env.take(step)
        env.take(("wait", 60))
