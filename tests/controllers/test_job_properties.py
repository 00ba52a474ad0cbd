# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to pods, calls, watches and managers: no pod is lost, counted twice, or one too many."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_active
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.job import wire
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.testing import Cluster
from tests.controllers.jobs import NAMESPACE, TRACKING, active, bind, deleted, job_of, pods, report, run

ADMIN = User("watcher", ("system:masters",))
STEPS = 25
MOST = 4  # concurrent pods
MOST_ROUNDS = 40


class JobHarness:
    """Job with its pods, and checks of the invariants."""

    def __init__(self, cluster: Cluster, seed: int, *, restless: bool) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.restless = restless  # whether the user changes the job on the way
        self.parallelism = MOST if restless else self.chance.randint(1, MOST)
        self.outcomes: dict[str, str] = {}  # how each pod ended, by UID
        self.unsure: set[str] = set()  # pods that ended when they had been given up already
        self.created: set[str] = set()  # UIDs of all pods there ever were
        self.broken: list[str] = []
        self._watch()
        self.informers = cluster.context.informers
        self.loop = cluster.start(wire)
        self.spec = self._spec()
        cluster.add({**_JOB, "spec": self.spec})

    def _spec(self) -> dict[str, Any]:
        chance = self.chance
        containers = [{"name": "app", "image": "x"}]
        spec: dict[str, Any] = {
            "parallelism": self.parallelism,
            "completions": chance.randint(1, 8),
            "backoffLimit": chance.choice([0, 2, 6, 50]),
            "podReplacementPolicy": chance.choice(["TerminatingOrFailed", "Failed"]),
            "template": {"spec": {"containers": containers, "restartPolicy": "Never"}},
        }
        if chance.random() < 0.5:
            spec["completionMode"] = "Indexed"
            if chance.random() < 0.5:
                spec["backoffLimitPerIndex"] = chance.choice([0, 1, 3])
        return spec

    def _watch(self) -> None:
        """See every state of the pods, one after the other, by a way that nothing disturbs."""
        clean = SharedInformerFactory(Client(InProcessTransport(self.cluster.server, ADMIN)), self.cluster.clock)
        seen = clean.for_resource(resource_of_class(Pod))

        def check(*_: Any) -> None:
            self.created.update(one.metadata.uid for one in seen.list(NAMESPACE))
            running = [one for one in seen.list(NAMESPACE) if is_active(one)]
            if len(running) > self.parallelism:
                self.broken.append(f"{len(running)} concurrent pods")

        seen.add_handler(ResourceEventHandlerFuncs(on_add=check, on_update=check, on_delete=check))

        async def start() -> None:
            clean.start()

        self.cluster.run(start())

    # -- what happens

    def step(self) -> None:
        actions = (
            [self.outcome] * 4
            + [self.run_some, self.delete_one, self.let_go, self.crash, self.disturb, self.disturb]
            + [self.drop_watches, self.blind, self.pass_time, self.pass_time]
        )
        if self.restless:
            actions += [self.suspend_or_resume, self.resize]
        self.chance.choice(actions)()
        self.cluster.run(self._ticks(self.chance.randint(0, 40)))

    def outcome(self) -> None:
        alive = [one for one in pods(self.cluster) if is_active(one)]
        if not alive:
            return
        self.end(self.chance.choice(alive), "Succeeded" if self.chance.random() < 0.6 else "Failed")

    def end(self, pod: Pod, phase: str) -> None:
        """A kubelet reports a pod's end, if it is still there."""
        try:
            ended = report(self.cluster, pod, phase=phase)
        except NotFound:
            self.unsure.add(pod.metadata.uid)
            return
        self.note(ended, phase)

    def note(self, pod: Pod, phase: str) -> None:
        if TRACKING in pod.metadata.finalizers:
            self.outcomes.setdefault(pod.metadata.uid, phase)
        else:
            self.unsure.add(pod.metadata.uid)

    def suspend_or_resume(self) -> None:
        self.change({"suspend": self.chance.random() < 0.5})

    def resize(self) -> None:
        self.change({"parallelism": self.chance.randint(0, MOST)})

    def change(self, spec: dict[str, Any]) -> None:
        self.cluster.client.patch(Job, "job", {"spec": spec}, NAMESPACE)

    def run_some(self) -> None:
        for pod in active(self.cluster):
            if self.chance.random() < 0.5 and not pod.spec.node_name:
                with suppress(NotFound, Conflict):  # it may be deleted at this moment
                    bind(self.cluster, pod)
                    run(self.cluster, pod)

    def delete_one(self) -> None:
        alive = active(self.cluster)
        if alive:
            pod = self.chance.choice(alive)
            try:
                gone = self.cluster.client.delete(Pod, pod.metadata.name, NAMESPACE)
            except NotFound:
                gone = None
            if isinstance(gone, Pod):
                self.note(gone, "Failed")
            else:
                self.unsure.add(pod.metadata.uid)

    def let_go(self) -> None:
        """A kubelet ends what is deleted."""
        for pod in pods(self.cluster):
            with suppress(NotFound):
                if deleted(pod):
                    if pod.status.phase in ("Pending", "Running"):
                        report(self.cluster, pod, phase="Failed")
                    self.cluster.client.delete(Pod, pod.metadata.name, NAMESPACE, grace_seconds=0)

    def disturb(self) -> None:
        faults, chance = self.cluster.faults, self.chance
        resource = chance.choice(["pods", "jobs", ""])
        times = chance.randint(1, 3)
        kinds: list[Callable[[], object]] = [
            lambda: faults.conflict("patch", resource, times=times),
            lambda: faults.fail("write", resource, times=times),
            lambda: faults.lose_answers("write", resource, times=times),
            lambda: faults.delay(0.3, "write", resource, times=times),
        ]
        chance.choice(kinds)()

    def drop_watches(self) -> None:
        resource = self.chance.choice(["pods", "jobs"])
        faults = self.cluster.faults
        self.chance.choice([faults.drop_watches, faults.expire_watches])(resource)

    def blind(self) -> None:
        """Delay the watches of a resource for some seconds, and lose responses."""
        resource = self.chance.choice(["pods", "jobs"])
        faults = self.cluster.faults
        faults.drop_watches(resource)
        faults.fail("watch", resource, times=self.chance.randint(1, 4))
        faults.lose_answers("write", self.chance.choice(["pods", "jobs"]), times=self.chance.randint(1, 3))

    def crash(self) -> None:
        """Kill the manager at any point; the next one starts with the server's state only."""
        cluster = self.cluster
        cluster.run(self._ticks(self.chance.randint(0, 30)))
        cluster.stop(self.loop)
        cluster.run(self.informers.stop())
        self.informers = SharedInformerFactory(cluster.async_client, cluster.clock)
        self.loop = wire(replace(cluster.context, informers=self.informers))

        async def start() -> None:
            self.informers.start()

        cluster.run(start())
        cluster.start(self.loop)

    def pass_time(self) -> None:
        self.cluster.advance(self.chance.choice([0.05, 0.5, 5, 30]))

    async def _ticks(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    # -- the end

    def finish(self) -> Job:
        """End all faults; every pod succeeds."""
        cluster = self.cluster
        cluster.faults.clear()
        if self.restless:
            self.change({"suspend": False, "parallelism": 2})
        for _ in range(MOST_ROUNDS):
            cluster.advance(700)
            self.let_go()
            found = job_of(cluster)
            if any(one.type in ("Complete", "Failed") for one in found.status.conditions):
                return found
            for pod in active(cluster):
                self.end(pod, "Succeeded")
        raise AssertionError(f"the job never ends: {found.status}")


_JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": NAMESPACE}}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
@example(seed=2597040)
def test_every_pod_is_counted_once_and_parallelism_holds(seed: int) -> None:
    check(seed, restless=False)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_invariants_hold_while_suspended_resumed_and_scaled(seed: int) -> None:
    check(seed, restless=True)


def check(seed: int, *, restless: bool) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = JobHarness(cluster, seed, restless=restless)
        for _ in range(STEPS):
            harness.step()
        done = harness.finish()
        assert not harness.broken
        happened, slack = Counter(harness.outcomes.values()), len(harness.unsure)
        succeeded, failed = done.status.succeeded, done.status.failed
        kinds = {one.type for one in done.status.conditions}
        assert succeeded <= happened["Succeeded"] + slack
        # A pod of an indexed job may be recorded as failed because the job ends, and succeed before its finalizer is
        # removed: then its index counts as well, as upstream's calculateSucceededIndexes does.
        twice = happened["Succeeded"] if harness.spec.get("completionMode") == "Indexed" and "Failed" in kinds else 0
        assert happened.total() <= succeeded + failed <= len(harness.created) + twice
        if "Complete" in kinds:
            assert happened["Succeeded"] <= succeeded
            assert happened["Failed"] <= failed <= happened["Failed"] + slack
        else:  # what it was seen to run when it failed was stopped, and counts as failed
            assert "Failed" in kinds
        assert restless or not slack
        cluster.advance(1)
        assert not [one for one in pods(cluster) if one.metadata.finalizers], "all are let go"
