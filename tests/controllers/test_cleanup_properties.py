# SPDX-License-Identifier: Apache-2.0
"""Whatever users, nodes, networks and crashes do: what is cleaned up was due, and what is due is cleaned up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import Conflict
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.controllers import pod_garbage_collector, ttl_after_finished
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller
from kubeloop.testing import Cluster, node, pod
from tests.controllers.faults import LOSSES, NETWORK, ControllerProcess, Step
from tests.controllers.replicas import NS

QUIET = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
TROUBLE = tuple(one for one in (*NETWORK, *LOSSES) if not one.endswith("create"))  # these loops make nothing


def steps(*names: str) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 7)), min_size=10, max_size=30)


# Finished jobs


class Jobs:
    """Jobs that finish at some time and are given more or less time; a finalizer keeps what is deleted in sight."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._made = 0
        self._process = ControllerProcess(cluster, ttl_after_finished.wire)

    def take(self, step: Step) -> None:
        name, number = step
        happenings: dict[str, Callable[[], Any]] = {
            "add": lambda: self._add(number),
            "finish": lambda: self._finish(number),
            "more time": lambda: self._change(number, number * 30),
            "no limit": lambda: self._change(number, None),
            "wait": lambda: self.cluster.advance(number * 10),
        }
        happenings.get(name, lambda: self._process.disturb(name, number))()
        self.check()

    def _add(self, number: int) -> None:
        self._made += 1
        template = {"spec": {"containers": [{"name": "app", "image": "x"}], "restartPolicy": "Never"}}
        metadata = {"name": f"job-{self._made}", "namespace": NS, "finalizers": ["example.com/stay"]}
        spec = {"template": template, "ttlSecondsAfterFinished": number * 15}
        self.cluster.client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})

    def _finish(self, number: int) -> None:
        now = format_time(self.cluster.clock.now())
        for one in self._chosen(number):
            if not one.status.conditions:
                kinds = ("FailureTarget", "Failed")
                said = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds]
                status = {"status": {"startTime": now, "conditions": said}}
                self.cluster.client.patch(Job, one.metadata.name, status, NS, subresource="status")

    def _change(self, number: int, seconds: int | None) -> None:
        for one in self._chosen(number):
            if one.metadata.deletion_timestamp is None:
                version = {"resourceVersion": one.metadata.resource_version}  # a job being deleted keeps its time
                change = {"metadata": version, "spec": {"ttlSecondsAfterFinished": seconds}}
                with suppress(Conflict):
                    self.cluster.client.patch(Job, one.metadata.name, change, NS)

    def _chosen(self, number: int) -> list[Job]:
        found = self._all()
        return [found[number % len(found)]] if found else []

    def _all(self) -> list[Job]:
        return list(self.cluster.client.list(Job, NS).items)

    def check(self) -> None:
        """Check invariants."""
        for one in self._all():
            if one.metadata.deletion_timestamp is not None:
                assert _end(one) <= parse_time(one.metadata.deletion_timestamp), "not before its time"

    def check_end(self) -> None:
        self.cluster.faults.clear()
        self.cluster.advance(minutes=10)
        for one in self._all():
            assert (one.metadata.deletion_timestamp is not None) == (_end(one) != datetime.max.replace(tzinfo=_UTC))


_UTC = parse_time("2026-01-01T00:00:00Z").tzinfo


def _end(job: Job) -> datetime:
    """Return the deletion time of a job; None if it runs or has no TTL."""
    seconds = job.spec.ttl_seconds_after_finished
    finished = [one.last_transition_time for one in job.status.conditions if one.type == "Failed"]
    if seconds is None or not finished or finished[0] is None:
        return datetime.max.replace(tzinfo=_UTC)
    return parse_time(finished[0]) + timedelta(seconds=seconds)


@QUIET
# The TTL is removed while the controller is about to delete the job.
@example(taken=[*[("add", 0)] * 8, ("finish", 0), ("no limit", 0)], seed=0)
@given(
    steps("add", "add", "finish", "finish", "more time", "no limit", "wait", "wait", *TROUBLE), st.integers(0, 2**16)
)
def test_job_is_never_deleted_early_and_always_eventually(taken: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        jobs = Jobs(cluster)
        for step in taken:
            jobs.take(step)
        jobs.check_end()


# Pods that no other controller removes

NODES = ("n0", "n1", "n2")
MOST_ENDED = 3
QUARANTINE = 40


class Pods:
    """Pods on nodes that come and go. Nothing but time passes between a look before a step and one after it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._made = 0
        self._gone_since: dict[str, datetime] = {}
        for name in NODES:
            cluster.add(node(name))
        self._process = ControllerProcess(cluster, self._wire)

    def _wire(self, context: ControllerContext) -> Controller[str]:
        config = type(context.config)(terminated_pod_gc_threshold=MOST_ENDED)
        return pod_garbage_collector.wire(replace(context, config=config))

    def take(self, step: Step) -> None:
        name, number = step
        if name != "wait":
            self._change(name, number)
            return
        safe = self._safe(self.cluster.clock.now() + timedelta(seconds=number * 10))
        self.cluster.advance(number * 10)
        left = {one.metadata.uid: one for one in self._all()}
        for one in safe:
            assert one.metadata.uid in left, "a pod that is well, or whose node may come back, stays"
            assert left[one.metadata.uid].status.phase == one.status.phase

    def _change(self, name: str, number: int) -> None:
        at = NODES[number % len(NODES)]
        changes: dict[str, Callable[[], Any]] = {
            "add": lambda: self._add(number),
            "end": lambda: self._with_pod(number, self._end),
            "delete": lambda: self._with_pod(number, self._delete),
            "lose node": lambda: self._lose(at),
            "return node": lambda: self._bring_back(at),
        }
        changes.get(name, lambda: self._process.disturb(name, number))()

    def _add(self, number: int) -> None:
        """Add an unscheduled pod, or one on each node."""
        for at in ("",) if number == 7 else sorted(set(NODES) - set(self._gone_since)):
            self._made += 1
            self.cluster.add(pod(f"p-{self._made}", node=at or None, phase="Running" if at else "Pending"))

    def _with_pod(self, number: int, act: Callable[[Pod], None]) -> None:
        if found := self._all():
            act(found[number % len(found)])

    def _end(self, one: Pod) -> None:
        self.cluster.client.patch(Pod, one.metadata.name, {"status": {"phase": "Failed"}}, NS, subresource="status")

    def _delete(self, one: Pod) -> None:
        self.cluster.client.delete(Pod, one.metadata.name, NS, grace_seconds=30)

    def _lose(self, at: str) -> None:
        if at not in self._gone_since:
            self._gone_since[at] = self.cluster.clock.now()
            self.cluster.client.delete(Node, at)

    def _bring_back(self, at: str) -> None:
        if self._gone_since.pop(at, None) is not None:
            self.cluster.add(node(at))

    def _all(self) -> list[Pod]:
        return list(self.cluster.client.list(Pod, NS).items)

    def _safe(self, until: datetime) -> list[Pod]:
        """Return pods that must not be deleted before then."""
        lost = {name for name, since in self._gone_since.items() if since + timedelta(seconds=QUARANTINE) <= until}
        return [
            one
            for one in self._all()
            if one.status.phase in ("Pending", "Running")
            and one.metadata.deletion_timestamp is None
            and one.spec.node_name not in lost
        ]

    def check_end(self) -> None:
        self.cluster.faults.clear()
        self.cluster.advance(minutes=5)
        left = self._all()
        assert not [one for one in left if one.spec.node_name in self._gone_since]
        assert not [one for one in left if one.metadata.deletion_timestamp is not None and not one.spec.node_name]
        assert sum(one.status.phase == "Failed" for one in left) <= MOST_ENDED


LIFE = (*["wait"] * 6, "add", "add", "end", "delete", "lose node", "lose node", "return node")


@QUIET
@given(steps(*LIFE, *TROUBLE), st.integers(0, 2**16))
def test_healthy_pods_are_kept_and_orphaned_pods_are_removed(taken: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        pods = Pods(cluster)
        for step in taken:
            pods.take(step)
        pods.check_end()
