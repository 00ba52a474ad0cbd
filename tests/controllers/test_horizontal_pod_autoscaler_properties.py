# SPDX-License-Identifier: Apache-2.0
"""Property tests of autoscalers: sizes stay within bounds, and converge to the metrics.

While no answer is lost and nobody crashes, the rates and the window that an autoscaler was given hold too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.apps_v1 import Deployment
from kubeloop.api.generated.autoscaling_v2 import HorizontalPodAutoscaler
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.requests import Call
from kubeloop.api.scalars.times import format_time
from kubeloop.client import Client
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.horizontal_pod_autoscaler import wire
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.testing import Cluster, deployment, pod
from tests.controllers.faults import ControllerProcess, Step
from tests.controllers.metrics_apis import Metrics
from tests.controllers.replicas import NS, make_ready

TARGET = 100  # thousandths, a pod
TOLERANCE = 0.1
WINDOW = timedelta(seconds=90)
UP, DOWN = (2, timedelta(seconds=30)), (1, timedelta(seconds=60))  # pods a period
BEHAVIOR = {
    "scaleUp": {"policies": [{"type": "Pods", "value": UP[0], "periodSeconds": 30}]},
    "scaleDown": {
        "stabilizationWindowSeconds": 90,
        "policies": [{"type": "Pods", "value": DOWN[0], "periodSeconds": 60}],
    },
}
PERCHANCE = (*["load"] * 5, *["wait"] * 5, "resize", "bounds", "kill", "unready", "outage", "settle")
NETWORK = ("drop watches", "expire watches", "late watch", "conflict", "refuse")
LOSSES = ("lose answer", "crash")
SOURCES: dict[str, dict[str, Any]] = {
    "External": {"external": {"metric": {"name": "load"}, "target": {"type": "AverageValue", "averageValue": "100m"}}},
    "Resource": {"resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "100m"}}},
}


class Rescale(NamedTuple):
    """Change of a target's size by the controller."""

    before: int
    after: int
    when: datetime


class HorizontalPodAutoscalerHarness:
    """Deployment with its pods and node, a load shared by the pods, and the autoscaler."""

    def __init__(self, cluster: Cluster, kind: str) -> None:
        self.cluster = cluster
        self.kind = kind
        self.load = 200
        self.bounds = [(1, 6)]  # those the controller may have seen: its cache can be older than the last change
        self.resized: list[Rescale] = []
        self.wrong: list[str] = []  # violations; raised in the controller they would be retried
        self.looks: list[tuple[datetime, int]] = []  # when the loop read the load, and the load it was given
        self.is_strict = True  # until an event that the controller cannot know
        self._metrics = Metrics(cluster)
        self._set_load(200)
        cluster.add(deployment("app", replicas=2))
        self._follow()
        cluster.advance(minutes=10)
        self._process = ControllerProcess(cluster, self._wire)
        cluster.client.create(self._autoscaler())

    def _autoscaler(self) -> dict[str, Any]:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"}
        metric = {"type": self.kind, **SOURCES[self.kind]}
        spec = {"scaleTargetRef": reference, "minReplicas": 1, "maxReplicas": 6, "metrics": [metric]}
        metadata = {"name": "h", "namespace": NS}
        kind = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
        return {**kind, "metadata": metadata, "spec": {**spec, "behavior": BEHAVIOR}}

    def _wire(self, context: ControllerContext) -> Controller[ObjectKey]:
        metered = self._metrics.before(context)
        inner: Any = metered.client._caller._transport
        return wire(replace(metered, client=Client(_RecordingProxy(inner, self))))

    # Steps

    def take(self, step: Step) -> None:
        name, number = step
        if name in LOSSES:
            self.is_strict = False
        happenings: dict[str, Callable[[], Any]] = {
            "load": lambda: self._set_load(number * 150),
            "resize": lambda: self._resize(number),
            "bounds": lambda: self._bound(1 + number % 3, 3 + number),
            "kill": lambda: self._disturb_pod(number, kill=True),
            "unready": lambda: self._disturb_pod(number, kill=False),
            "outage": self._metrics_fail,
            "wait": lambda: self.cluster.advance(number * 8),
            "settle": self.cluster.settle,
            "conflict": lambda: self.cluster.faults.conflict("update", times=number + 1),
            "refuse": lambda: self.cluster.faults.fail("update", times=number + 1),
            "lose answer": lambda: self.cluster.faults.lose_answers("update", times=number + 1),
        }
        happening = happenings.get(name, lambda: self._process.disturb(name, number))
        happening()
        assert not self.wrong
        if name in ("wait", "settle"):  # no reconcile is under way that began with an older autoscaler
            self._forget_old_bounds()
        self._follow()

    def _forget_old_bounds(self) -> None:
        known = self._process.cached(HorizontalPodAutoscaler, "h", NS)
        current = self.cluster.client.get(HorizontalPodAutoscaler, "h", NS)
        if known is not None and known.metadata.generation == current.metadata.generation:
            self.bounds = self.bounds[-1:]

    def _set_load(self, load: int) -> None:
        self.load = load
        self._metrics.external = {"load": [f"{load}m"]}
        self._metrics.use = {"cpu": f"{load // max(1, len(self._pods()))}m"}

    def _metrics_fail(self) -> None:
        self._metrics.external = self._metrics.use = None

    def _resize(self, replicas: int) -> None:
        self._scale_by_hand(replicas)
        if replicas == 0:  # scaled to zero, which no autoscaler reverts; it is soon scaled up again
            self.cluster.advance(20)
            self._scale_by_hand(1)

    def _scale_by_hand(self, replicas: int) -> None:
        self.cluster.client.patch(Deployment, "app", {"spec": {"replicas": replicas}}, NS)

    def _bound(self, least: int, most: int) -> None:
        self.bounds.append((least, most))
        change = {"spec": {"minReplicas": least, "maxReplicas": most}}
        self.cluster.client.patch(HorizontalPodAutoscaler, "h", change, NS)

    def _disturb_pod(self, number: int, *, kill: bool) -> None:
        pods = self._pods()
        if pods:
            chosen = pods[number % len(pods)]
            with suppress(NotFound):
                if kill:
                    self.cluster.client.delete(Pod, chosen.metadata.name, NS, grace_seconds=0)
                else:
                    make_ready(self.cluster, chosen, ready=False)

    def _follow(self) -> None:
        """Run node and deployment: create the desired pods, and share the load."""
        client, pods, wanted = self.cluster.client, self._pods(), self._size()
        for one in pods[wanted:]:
            client.delete(Pod, one.metadata.name, NS, grace_seconds=0)
        names = {one.metadata.name for one in pods}
        missing = [name for number in range(12) if (name := f"app-{number}") not in names][: max(0, wanted - len(pods))]
        now = format_time(self.cluster.clock.now())
        for name in missing:
            made = self.cluster.add(pod(name, labels={"app": "app"}))
            make_ready(self.cluster, made)
            client.patch(Pod, name, {"status": {"startTime": now}}, NS, subresource="status")
        status = {"status": {"replicas": wanted, "observedGeneration": 1}}
        client.patch(Deployment, "app", status, NS, subresource="status")
        if self._metrics.use is not None:
            self._metrics.use = {"cpu": f"{self.load // max(1, wanted)}m"}

    def _pods(self) -> list[Pod]:
        return list(self.cluster.client.list(Pod, NS).items)

    def _size(self) -> int:
        found: Deployment = self.cluster.client.get(Deployment, "app", NS)
        return found.spec.replicas or 0

    # Invariants

    def note_resize(self, before: int, after: int) -> None:
        """The loop has written a size."""
        if not any(least <= after <= most for least, most in self.bounds):
            self.wrong.append(f"{after} is out of bounds")
        is_correction = not all(least <= before <= most for least, most in self.bounds)
        self.resized.append(Rescale(before, after, self.cluster.clock.now()))
        if self.is_strict and not is_correction:
            self._check_rate(self.resized[-1])
            if after < before and self.kind == "External":
                self._check_window(after)

    def _check_rate(self, last: Rescale) -> None:
        """Return the controller's own change of the size within a policy's period, including this one."""
        value, period = UP if last.after > last.before else DOWN
        since = self.cluster.clock.now() - period
        change = sum(one.after - one.before for one in self.resized if one.when > since)
        if abs(change) > value and (change > 0) == (last.after > last.before):
            self.wrong.append(f"{last} makes it {change} in {period}")

    def _check_window(self, after: int) -> None:
        """Check that the size is never below the minimum recommendation of the window."""
        now = self.cluster.clock.now()
        asked = max(load for when, load in self.looks if when > now - WINDOW)
        least = math.ceil(asked / (TARGET * (1 + TOLERANCE)) - 1e-9)
        if after < min(least, *(most for _, most in self.bounds)):
            self.wrong.append(f"{after} where {least} were asked for just now")

    def check_end(self) -> None:
        """Check the final state without faults."""
        self.cluster.faults.clear()
        self._set_load(self.load)
        for one in self._pods():
            make_ready(self.cluster, one)
        for _ in range(16):
            self.cluster.advance(60)
            self._follow()
        assert not self.wrong
        size, (least, most) = self._size(), self.bounds[-1]
        assert size == min(max(self._wish(size), least), most)
        said = self.cluster.client.get(HorizontalPodAutoscaler, "h", NS)
        assert (said.status.current_replicas, said.status.desired_replicas) == (size, size)
        assert said.status.observed_generation == said.metadata.generation
        conditions = {one.type: one.status for one in said.status.conditions}
        assert (conditions["AbleToScale"], conditions["ScalingActive"]) == ("True", "True")

    def _wish(self, size: int) -> int:
        """Return the size required by the metrics."""
        used = self.load // size if self.kind == "Resource" else self.load / size
        if 1 - TOLERANCE <= used / TARGET <= 1 + TOLERANCE:
            return size
        return math.ceil(used / TARGET * size)


class _RecordingProxy:
    """Reports reads and writes of the controller to a harness."""

    def __init__(self, inner: Any, harness: HorizontalPodAutoscalerHarness) -> None:
        self._inner = inner
        self._env = harness
        self._size = 0  # that was read last

    async def call(self, call: Call) -> Any:
        is_scale = call.subresource == "scale"
        answer = await self._inner.call(call)
        if is_scale and call.verb == "update":
            self._env.note_resize(self._size, call.body.spec.replicas)
        elif is_scale:
            self._size = answer.spec.replicas
        return answer

    async def document(self, path: str) -> Any:
        answer = await self._inner.document(path)
        # A query that fails is not a recommendation: upstream's reconcileAutoscaler returns the error of
        # computeReplicasForMetrics before it stabilizes, which is where recommendations are recorded.
        if "external" in path:
            self._env.looks.append((self._env.cluster.clock.now(), self._env.load))
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def play(taken: list[Step], kind: str, seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = HorizontalPodAutoscalerHarness(cluster, kind)
        for step in taken:
            harness.take(step)
        harness.check_end()


def steps(*names: str) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 7)), min_size=12, max_size=30)


QUIET = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
KINDS = st.sampled_from(sorted(SOURCES))

# The metrics API fails for longer than the window, and then the load ends: the controller never read the load of 150.
UNREAD_LOAD: list[Step] = [("load", 0), ("load", 1), ("outage", 0), ("wait", 4), ("wait", 6), ("load", 0), ("wait", 2)]
# The bounds change twice while the watch is broken: the loop still has those from before both changes.
UNSEEN_BOUNDS: list[Step] = [
    ("expire watches", 0),
    ("wait", 3),
    ("wait", 1),
    ("load", 5),
    ("resize", 3),
    ("late watch", 1),
    ("bounds", 0),
    ("bounds", 1),
    ("wait", 1),
]


@QUIET
@example(taken=UNREAD_LOAD, kind="External", seed=0)
@example(taken=UNSEEN_BOUNDS, kind="External", seed=0)
@given(steps(*PERCHANCE, *NETWORK), KINDS, st.integers(0, 2**16))
def test_bounds_rates_and_windows_hold_and_metrics_decide_the_result(taken: list[Step], kind: str, seed: int) -> None:
    play(taken, kind, seed)


@QUIET
@given(steps(*PERCHANCE, *NETWORK, *LOSSES), KINDS, st.integers(0, 2**16))
def test_lost_responses_and_crashes_converge_to_the_metrics(taken: list[Step], kind: str, seed: int) -> None:
    play(taken, kind, seed)
