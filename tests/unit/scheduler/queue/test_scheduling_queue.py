# SPDX-License-Identifier: Apache-2.0
"""Tests of the queue: order, waiting pods, and requeueing."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import PodInfo, SignatureCache
from kubeloop.scheduler.framework.plugin import ClusterEventWithHint, Plugin, unresolvable_status
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.queue.cluster_event import NODE, TARGET_POD, ActionType, ClusterEvent
from kubeloop.scheduler.queue.queueing_hints import QueueProfile
from kubeloop.scheduler.queue.scheduling_queue import QueueCallbacks, QueueTimeouts, SchedulingQueue


class Clock:
    """Time that a test sets."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def random(self) -> random.Random:
        return random.Random(0)


class Gate(Plugin):
    """Gate plugin with scripted decisions."""

    name = "Gate"

    def __init__(self) -> None:
        self.held: set[str] = set()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return unresolvable_status(self.name, "held") if pod.key.name in self.held else None


class QueueHarness:
    def __init__(self) -> None:
        self.clock, self.gate, self.templates = Clock(), Gate(), SignatureCache()
        self.helpful = True
        fit = ClusterEventWithHint(NODE, ActionType.ADD, lambda *_: self.helpful)
        gate = ClusterEventWithHint(TARGET_POD, ActionType.POD_SCHEDULING_GATES_ELIMINATED)
        interests = {NODE: [("Fit", fit)], TARGET_POD: [("Gate", gate)]}
        rules = QueueProfile(lambda one: (-one.info.priority, one.timestamp), lambda: [self.gate], lambda: interests)
        self.queue = SchedulingQueue(self.clock, QueueTimeouts(), QueueCallbacks(lambda: None))
        self.queue.add_profile("s", rules)

    def info(self, name: str, priority: int = 0) -> PodInfo:
        meta = ObjectMeta(name=name, namespace="default", uid=name)
        return self.templates.pod_info(Pod(metadata=meta, spec=PodSpec(scheduler_name="s", priority=priority)))

    def add(self, name: str, priority: int = 0) -> None:
        self.queue.add(self.info(name, priority))

    def pop(self) -> str:
        found = self.queue.pop()
        return "" if found is None else found.key.name

    def refuse(self, name: str, *plugins: str) -> None:
        """Try a pod and have it refused."""
        found = self.queue.pop()
        assert found is not None
        assert found.key.name == name
        found.unschedulable_plugins = frozenset(plugins)
        self.queue.add_unschedulable_pod_if_not_present(found)

    def node_comes(self) -> None:
        self.queue.move_all_to_active_or_backoff(ClusterEvent(NODE, ActionType.ADD), None, object())


@pytest.fixture
def it() -> QueueHarness:
    return QueueHarness()


def test_priority_then_waiting_time_order_the_queue(it: QueueHarness) -> None:
    for second, (name, priority) in enumerate((("early", 1), ("late", 1), ("important", 9))):
        it.clock.seconds = float(second)
        it.add(name, priority)
    assert [it.pop() for _ in range(4)] == ["important", "early", "late", ""]


def test_rejected_pod_waits_for_a_relevant_event(it: QueueHarness) -> None:
    it.add("web")
    it.refuse("web", "Fit")
    assert it.pop() == ""
    it.queue.move_all_to_active_or_backoff(ClusterEvent(NODE, ActionType.DELETE), object(), None)
    assert it.pop() == ""
    it.helpful = False
    it.node_comes()
    assert it.pop() == ""
    it.helpful = True
    it.node_comes()
    assert it.pop() == "web"


def test_irrelevant_event_does_not_requeue(it: QueueHarness) -> None:
    it.add("web")
    it.refuse("web", "Other")
    it.node_comes()
    assert it.pop() == ""


def test_event_during_an_attempt_is_not_lost(it: QueueHarness) -> None:
    it.add("web")
    found = it.queue.pop()
    assert found is not None
    it.node_comes()
    found.unschedulable_plugins = frozenset(("Fit",))
    it.queue.add_unschedulable_pod_if_not_present(found)
    assert it.queue.sizes()["backoff"] == 1


def test_backoff_grows_and_is_skipped_when_idle(it: QueueHarness) -> None:
    it.add("web")
    it.refuse("web", "Fit")
    it.node_comes()
    assert it.queue.sizes() == {"active": 0, "backoff": 1, "unschedulable": 0, "gated": 0}
    assert it.pop() == "web"


def test_failed_pod_always_waits_for_its_backoff(it: QueueHarness) -> None:
    it.add("web")
    waited = []
    for _ in range(6):
        found = it.queue.pop()
        assert found is not None
        began = it.clock.seconds
        it.queue.add_unschedulable_pod_if_not_present(found, error=True)
        assert it.queue.pop() is None
        deadline = it.queue.next_deadline()
        assert deadline is not None
        waited.append(deadline - began)
        it.clock.seconds = deadline
        it.queue.flush_backoff_completed()
    assert waited == [2.0, 3.0, 5.0, 9.0, 11.0, 11.0]  # twice as long each time up to ten, then to the next full second


def test_gated_pod_is_requeued_by_events_of_its_gate_only(it: QueueHarness) -> None:
    it.gate.held.add("web")
    it.add("web")
    assert it.pop() == ""
    assert it.queue.sizes()["gated"] == 1
    it.node_comes()
    assert it.pop() == ""
    it.gate.held.clear()
    info = it.info("web")
    it.queue.update(info.pod, info, [ClusterEvent(TARGET_POD, ActionType.POD_SCHEDULING_GATES_ELIMINATED)])
    assert it.pop() == "web"


def test_deleted_pod_is_not_scheduled(it: QueueHarness) -> None:
    it.add("web")
    it.queue.delete(ObjectKey("default", "web"))
    assert it.pop() == ""
    it.add("web")
    it.refuse("web", "Fit")
    it.queue.delete(ObjectKey("default", "web"))
    it.node_comes()
    assert it.pop() == ""
    assert len(it.queue) == 0


def test_unschedulable_pod_is_flushed_after_five_minutes(it: QueueHarness) -> None:
    it.add("web")
    it.refuse("web", "Fit")
    it.clock.seconds = 299.0
    it.queue.flush_unschedulable_leftover()
    assert it.pop() == ""
    it.clock.seconds = 301.0
    it.queue.flush_unschedulable_leftover()
    assert it.pop() == "web"


def test_pod_pending_on_a_plugin_skips_the_backoff(it: QueueHarness) -> None:
    it.add("web")
    found: Any = it.queue.pop()
    found.pending_plugins = frozenset(("Fit",))
    it.queue.add_unschedulable_pod_if_not_present(found)
    it.node_comes()
    assert it.queue.sizes()["active"] == 1
