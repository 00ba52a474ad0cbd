# SPDX-License-Identifier: Apache-2.0
"""Property tests of ReplicaSets: they converge to the desired pods under faults.

On the way it never makes pods that it doesn't need, but where an answer was lost, and never touches what is another's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.apps_v1 import ReplicaSet
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_active, is_ready, is_terminating
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.replicaset import wire
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.testing import Cluster, node, pod, replica_set, stateful_set
from tests.controllers.replicas import NS, active_pods_of, counts, make_ready, pods_of, read, set_status

Step = tuple[str, int]
USER = ("scale", "relabel", "orphan", "add orphan", "delete", "touch")
NODES = ("bind", "ready", "unready", "fail", "succeed", "finish")
NETWORK = ("drop watches", "expire watches", "late watch", "conflict", "refuse create", "refuse delete")
LOSSES = ("lose create", "lose delete", "crash")  # after which a surplus pod is expected
PASSING = ("settle", "wait")


class ReplicaSetHarness:
    """A cluster, the set under test, and another owner's pod with the same labels."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.wanted = 2
        self.forgiven = False  # whether something happened after which a pod too many may be made
        self._strays = 0
        self._start()
        cluster.add(node("n"))
        self._other = cluster.add(stateful_set("other", labels={"app": "a"}, replicas=1))
        cluster.add(pod("other-0", labels={"app": "a"}, owner=self._other))
        self.rs: ReplicaSet = cluster.add(replica_set("a", replicas=2))
        cluster.settle()
        self._most = 2

    # Controller with its own caches, as in a separate process.

    def _start(self) -> None:
        self._informers = SharedInformerFactory(self.cluster.async_client, self.cluster.clock)
        context: ControllerContext = replace(self.cluster.context, informers=self._informers)

        async def begin() -> None:
            self._informers.start()

        self._loop = wire(context)
        self.cluster.run(begin())
        self.cluster.start(self._loop)

    def crash(self, turns: int) -> None:
        """Killed after so many turns of the event loop, wherever it waits then."""

        async def run_on() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self.cluster.run(run_on())
        self.cluster.stop(self._loop)
        self.cluster.run(self._informers.stop())
        self._start()

    # Steps

    def take(self, step: Step) -> None:
        name, number = step
        if name in LOSSES:
            self.forgiven = True
        if name == "wait":
            self.cluster.advance(number)
        elif name == "settle":
            self.cluster.settle()
        elif name == "crash":
            self.crash(number)
        elif name in NETWORK or name in LOSSES:
            self._disturb(name, number)
        elif name in ("scale", "add orphan", "touch"):
            self._change_set(name, number)
        elif pods := active_pods_of(self.cluster, self.rs):
            with suppress(Conflict, NotFound):  # the loop may be quicker
                self._change_pod(name, pods[number % len(pods)])

    def _change_set(self, name: str, number: int) -> None:
        if name == "scale":
            self.wanted = number
            self._most = max(self._most, number)
            self._patch(ReplicaSet, "a", {"spec": {"replicas": number}})
        elif name == "add orphan":
            self._strays += 1
            self.cluster.add(pod(f"stray-{self._strays}", labels={"app": "a"}))
        else:
            self._patch(ReplicaSet, "a", {"metadata": {"annotations": {"touched": str(number)}}})

    def _change_pod(self, name: str, one: Pod) -> None:
        cluster, called = self.cluster, one.metadata.name
        changes: dict[str, Callable[[], Any]] = {
            "relabel": lambda: self._patch(Pod, called, {"metadata": {"labels": {"app": "x"}}}),
            "orphan": lambda: self._patch(Pod, called, {"metadata": {"ownerReferences": None}}),
            "delete": lambda: cluster.client.delete(Pod, called, NS),
            "bind": lambda: None if one.spec.node_name else cluster.client.bind(called, NS, "n"),
            "ready": lambda: make_ready(cluster, one),
            "unready": lambda: make_ready(cluster, one, ready=False),
            "fail": lambda: set_status(cluster, one, phase="Failed"),
            "succeed": lambda: set_status(cluster, one, phase="Succeeded"),
            "finish": self._finish,
        }
        changes[name]()

    def _finish(self) -> None:
        """Terminate deleted pods like a node."""
        for one in pods_of(self.cluster, self.rs):
            if one.metadata.deletion_timestamp is not None:
                self.cluster.client.delete(Pod, one.metadata.name, NS, grace_seconds=0)

    def _disturb(self, name: str, number: int) -> None:
        faults = self.cluster.faults
        times = number + 1
        disturbances: dict[str, Callable[[], Any]] = {
            "drop watches": faults.drop_watches,
            "expire watches": faults.expire_watches,
            "late watch": lambda: (faults.delay(number, "watch", times=2), faults.drop_watches()),
            "conflict": lambda: faults.conflict("patch", times=times),
            "refuse create": lambda: faults.fail("create", "pods", times=times),
            "refuse delete": lambda: faults.fail("delete", "pods", times=times),
            "lose create": lambda: faults.lose_answers("create", "pods", times=times),
            "lose delete": lambda: faults.lose_answers("delete", "pods", times=times),
        }
        disturbances[name]()

    def _patch(self, kind: type, name: str, patch: dict[str, Any]) -> None:
        self.cluster.client.patch(kind, name, patch, NS)

    # Invariants

    def check(self) -> None:
        """Check invariants."""
        if not self.forgiven:
            made = [one for one in active_pods_of(self.cluster, self.rs) if not one.metadata.name.startswith("stray")]
            assert len(made) <= self._most
        assert [one.metadata.name for one in active_pods_of(self.cluster, self._other)] == ["other-0"]

    def check_end(self) -> None:
        """Check the final state without faults."""
        self.cluster.faults.clear()
        self.cluster.advance(minutes=20)
        active = active_pods_of(self.cluster, self.rs)
        assert len(active) == self.wanted
        assert all(one.metadata.labels == {"app": "a"} for one in active)
        ready = sum(map(is_ready, active))
        said = read(self.cluster, self.rs)
        assert counts(said) == (self.wanted, self.wanted, ready, ready)
        assert said.status.observed_generation == said.metadata.generation
        assert said.status.conditions == ()
        terminating = [one for one in pods_of(self.cluster, self.rs) if is_terminating(one)]
        assert said.status.terminating_replicas == sum(one.metadata.labels == {"app": "a"} for one in terminating)
        unclaimed = [one for one in self.cluster.client.list(Pod, NS).items if is_active(one)]
        assert all(one.metadata.owner_references for one in unclaimed if one.metadata.labels == {"app": "a"})


def steps(*names: str) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 7)), max_size=25)


def play(taken: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = ReplicaSetHarness(cluster)
        for step in taken:
            harness.take(step)
            harness.check()
        harness.check_end()


QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)


@QUIET
@given(steps(*USER, *NODES, *NETWORK, *PASSING), st.integers(0, 2**16))
def test_replicas_never_exceed_and_converge_to_the_desired_count(taken: list[Step], seed: int) -> None:
    play(taken, seed)


@QUIET
@given(steps(*USER, *NODES, *NETWORK, *LOSSES, *PASSING), st.integers(0, 2**16))
def test_lost_responses_and_crashes_converge_to_the_desired_state(taken: list[Step], seed: int) -> None:
    play(taken, seed)


@QUIET
@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 60), st.integers(0, 2**16))
def test_controller_killed_during_scaling_resumes(first: int, then: int, turns: int, seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = ReplicaSetHarness(cluster)
        harness.take(("scale", first))
        harness.crash(turns)
        harness.take(("scale", then))
        harness.crash(turns)
        harness.check_end()
