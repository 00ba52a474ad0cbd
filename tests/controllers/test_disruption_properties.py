# SPDX-License-Identifier: Apache-2.0
"""Evictions never take more pods than a budget allows, whatever else goes wrong; and nothing is held back for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import NotFound, TooManyRequests
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.api.pods.pod import is_active, is_ready
from kubeloop.controllers.disruption import wire
from kubeloop.testing import Cluster, node, pod
from tests.controllers.replicas import NS, make_ready

Step = tuple[str, int]
NEEDED = 3
STEPS = ("evict", "evict many", "add", "finish", "crash", "wait", "settle")
TROUBLE = ("drop watches", "expire watches", "late watch", "late write", "conflict", "refuse", "lose answer")


class DisruptionHarness:
    """Ready pods on a node, a budget for them, and the loop that keeps it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._made = 0
        cluster.add(node("n"))
        for _ in range(5):
            self._add_pod()
        cluster.add(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "b", "namespace": NS},
                "spec": {"minAvailable": NEEDED, "selector": {"matchLabels": {"app": "a"}}},
            }
        )
        self._loop = cluster.start(wire)

    def take(self, step: Step) -> None:
        name, number = step
        match name:
            case "evict":
                self._evict(number, 1)
            case "evict many":
                self._evict(0, number)
            case "add":
                self._add_pod()
            case "finish":
                self._finish()
            case "crash":
                self._crash(number)
            case "wait":
                self.cluster.advance(number * 20)
            case "settle":
                self.cluster.settle()
            case _:
                self._disturb(name, number)

    def _add_pod(self) -> None:
        self._made += 1
        one = self.cluster.add(pod(f"a-{self._made}", labels={"app": "a"}, node="n"))
        make_ready(self.cluster, one)

    def _evict(self, first: int, count: int) -> None:
        """Several at the same moment."""
        names = [one.metadata.name for one in self._pods()[first : first + count]]

        async def evict_all() -> list[Any]:
            calls = (self.cluster.async_client.evict(name, NS) for name in names)
            return await asyncio.gather(*calls, return_exceptions=True)

        for answer in self.cluster.run(evict_all()):
            assert not isinstance(answer, Exception) or isinstance(answer, TooManyRequests | NotFound)

    def _finish(self) -> None:
        """The node ends what is to end."""
        for one in self._pods():
            if not is_active(one):
                self.cluster.client.delete(Pod, one.metadata.name, NS, grace_seconds=0)

    def _crash(self, turns: int) -> None:
        async def run_on() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self.cluster.run(run_on())
        self.cluster.stop(self._loop)
        self._loop = self.cluster.start(wire)

    def _disturb(self, name: str, number: int) -> None:
        faults, budgets = self.cluster.faults, "poddisruptionbudgets"
        match name:
            case "drop watches":
                faults.drop_watches()
            case "expire watches":
                faults.expire_watches()
            case "late watch":
                faults.delay(number * 10, "watch", times=2)
                faults.drop_watches()
            case "late write":
                faults.delay(number * 10, "patch", budgets, times=2)
            case "conflict":
                faults.conflict("patch", budgets, times=number)
            case "refuse":
                faults.fail("patch", budgets, times=number)
            case "lose answer":
                faults.lose_answers("patch", budgets, times=number)

    def _pods(self) -> list[Pod]:
        return list(self.cluster.client.list(Pod, NS).items)

    def check(self) -> None:
        """Check invariants."""
        healthy = [one for one in self._pods() if is_active(one) and is_ready(one)]
        assert len(healthy) >= NEEDED

    def check_end(self) -> None:
        self.cluster.faults.clear()
        self.cluster.advance(minutes=10)
        self._finish()
        self.cluster.settle()
        pods = self._pods()
        said = self.cluster.client.get(PodDisruptionBudget, "b", NS).status
        assert (said.current_healthy, said.expected_pods) == (len(pods), len(pods))
        assert said.disruptions_allowed == len(pods) - NEEDED
        assert said.disrupted_pods == {}
        assert said.conditions[0].reason == ("SufficientPods" if len(pods) > NEEDED else "InsufficientPods")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(st.lists(st.tuples(st.sampled_from((*STEPS, *TROUBLE)), st.integers(0, 8)), max_size=25), st.integers(0, 2**16))
def test_enough_pods_remain_under_faults(taken: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = DisruptionHarness(cluster)
        for step in taken:
            harness.take(step)
            harness.check()
        harness.check_end()
