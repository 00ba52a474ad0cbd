# SPDX-License-Identifier: Apache-2.0
"""Tests of events during attempts, gates and backoff, and of the retry order."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.framework.plugin import ClusterEventWithHint
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, NODE, TARGET_POD, ActionType, ClusterEvent
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.queueing_hints import QueueProfile
from kubeloop.scheduler.queue.scheduling_queue import QueueCallbacks, QueueTimeouts, SchedulingQueue
from tests.unit.scheduler.queue.test_scheduling_queue import Clock, Gate, QueueHarness

NODE_CAME = ClusterEvent(NODE, ActionType.ADD)
POD_ENDED = ClusterEvent(ASSIGNED_POD, ActionType.DELETE)
RELABELLED = ClusterEvent(TARGET_POD, ActionType.POD_LABEL)


class InFlightHarness(QueueHarness):
    """Register Fit for nodes, Spread for deleted pods and the pod's labels, Gate for nodes; hints are recorded."""

    def __init__(self, patience: QueueTimeouts = QueueTimeouts()) -> None:  # noqa: B008  # it is frozen
        super().__init__()
        self.clock, self.gate = Clock(), Gate()
        self.came: list[tuple[str, str]] = []
        self.asked: list[tuple[str, str, str]] = []
        interests = {
            NODE: [
                ("Fit", ClusterEventWithHint(NODE, ActionType.ADD, self._hint)),
                ("Gate", ClusterEventWithHint(NODE, ActionType.ADD)),
            ],
            ASSIGNED_POD: [("Spread", ClusterEventWithHint(ASSIGNED_POD, ActionType.DELETE))],
            TARGET_POD: [("Spread", ClusterEventWithHint(TARGET_POD, ActionType.POD_LABEL))],
        }
        rules = QueueProfile(lambda one: (-one.info.priority, one.timestamp), lambda: [self.gate], lambda: interests)
        told = QueueCallbacks(
            lambda: None, lambda _, *came: self.came.append(came), lambda *asked: self.asked.append(asked[:3])
        )
        self.queue = SchedulingQueue(self.clock, patience, told)
        self.queue.add_profile("s", rules)

    def _hint(self, *_: Any) -> bool:
        if self.helpful is None:
            raise ValueError("it can't be told")
        return self.helpful

    def take(self) -> QueuedPodInfo:
        found = self.queue.pop()
        assert found is not None
        return found

    def put_back(self, queued: QueuedPodInfo, *plugins: str, pending: str = "") -> None:
        queued.unschedulable_plugins, queued.pending_plugins = (
            frozenset(plugins),
            frozenset((pending,) if pending else ()),
        )
        self.queue.add_unschedulable_pod_if_not_present(queued)

    def part_of(self, name: str) -> str:
        found = self.queue.get(ObjectKey("default", name))
        return "" if found is None else found.queue_name

    def happens(self, about: ClusterEvent) -> None:
        self.queue.move_all_to_active_or_backoff(about, object(), object())

    def relabelled(self, name: str, uid: str = "") -> None:
        old = self.info(name).pod
        new = structs.replace(old, metadata=structs.replace(old.metadata, labels={"a": "b"}, uid=uid or name))
        self.queue.update(old, self.templates.pod_info(new), [RELABELLED])


@pytest.fixture
def it() -> InFlightHarness:
    return InFlightHarness()


# While it is tried.


def test_only_events_of_rejecting_plugins_count(it: InFlightHarness) -> None:
    it.add("web")
    queued = it.take()
    it.happens(POD_ENDED)
    it.put_back(queued, "Fit")
    assert it.part_of("web") == "unschedulable"


def test_update_of_a_pod_counts_for_itself_only(it: InFlightHarness) -> None:
    for name in ("web", "db"):
        it.add(name)
    web, db = it.take(), it.take()
    it.relabelled("web")
    it.put_back(web, "Spread")
    it.put_back(db, "Spread")
    assert (it.part_of("web"), it.part_of("db")) == ("backoff", "unschedulable")


def test_earlier_events_do_not_count(it: InFlightHarness) -> None:
    it.add("early")
    early = it.take()
    it.happens(NODE_CAME)
    it.add("late")
    late = it.take()
    it.put_back(late, "Fit")
    it.put_back(early, "Fit")
    assert (it.part_of("early"), it.part_of("late")) == ("backoff", "unschedulable")


def test_in_flight_events_are_dropped_when_unused(it: InFlightHarness) -> None:
    for name in ("a", "b"):
        it.add(name)
    a = it.take()
    it.happens(NODE_CAME)
    b = it.take()
    it.happens(POD_ENDED)
    assert it.queue.in_flight_event_counts() == {("NodeAdd",): 1, ("AssignedPodDelete",): 1, ("PodPopped",): 2}
    it.queue.done(a.info.uid)
    assert it.queue.in_flight_event_counts() == {("AssignedPodDelete",): 1, ("PodPopped",): 1}
    it.queue.done(b.info.uid)
    assert it.queue.in_flight_event_counts() == {("PodPopped",): 0}
    it.happens(NODE_CAME)
    assert it.queue.in_flight_event_counts() == {("PodPopped",): 0}


def test_latest_event_of_many_counts(it: InFlightHarness) -> None:
    it.add("web")
    queued = it.take()
    for _ in range(10_000):
        it.happens(POD_ENDED)
    it.happens(NODE_CAME)
    it.put_back(queued, "Fit")
    assert it.part_of("web") == "backoff"


def test_pod_rejected_after_done_is_requeued(it: InFlightHarness) -> None:
    it.add("web")
    queued = it.take()
    it.queue.done(queued.info.uid)  # as before a pod is bound
    it.put_back(queued, "Fit")
    assert it.part_of("web") == "backoff"


def test_explicitly_activated_pod_is_retried_after_its_backoff(it: InFlightHarness) -> None:
    it.add("web")
    queued = it.take()
    it.queue.activate([queued.key])
    it.put_back(queued, "Fit")
    assert it.part_of("web") == "backoff"


def test_recreated_pod_is_independent(it: InFlightHarness) -> None:
    it.add("web")
    old = it.take()
    it.queue.add(it.info("web"))  # the same again, while it is being tried
    assert it.queue.pop() is None
    it.relabelled("web", uid="another")
    new = it.take()
    it.queue.done(old.info.uid)
    it.happens(NODE_CAME)
    it.put_back(new, "Fit")
    assert it.part_of("web") == "backoff"


# Requeueing and backoff.


def test_only_the_pending_plugin_skips_the_backoff(it: InFlightHarness) -> None:
    it.add("web")
    it.put_back(it.take(), "Spread", pending="Fit")
    it.happens(POD_ENDED)
    assert it.part_of("web") == "backoff"
    it.put_back(it.take(), "Spread", pending="Fit")
    it.happens(NODE_CAME)
    assert it.part_of("web") == "active"


def test_only_the_pending_plugin_skips_the_backoff_in_flight(it: InFlightHarness) -> None:
    it.add("web")
    for about, part in ((POD_ENDED, "backoff"), (NODE_CAME, "active")):
        queued = it.take()
        it.happens(POD_ENDED)
        it.happens(about)
        it.put_back(queued, "Spread", pending="Fit")
        assert it.part_of("web") == part


def test_failing_hint_requeues_the_pod(it: InFlightHarness, caplog: pytest.LogCaptureFixture) -> None:
    it.add("web")
    it.put_back(it.take(), "Fit")
    it.helpful = None  # type: ignore[assignment]  # here: it raises
    it.happens(NODE_CAME)
    assert it.part_of("web") == "backoff"
    assert it.asked == [("Fit", "NodeAdd", "Error")]
    assert "queueing hint of Fit failed for event NodeAdd and pod default/web" in caplog.text


def test_pod_that_waited_longer_than_its_backoff_is_retried_immediately(it: InFlightHarness) -> None:
    it.add("web")
    it.put_back(it.take(), "Fit")
    it.clock.seconds = 2.0
    it.happens(NODE_CAME)
    assert it.part_of("web") == "active"


def test_backoff_grows_with_rejections_and_restarts_after_errors(it: InFlightHarness) -> None:
    it.add("web")
    ends = []
    for error in (False, False, False, True, False):
        queued = it.take()
        queued.unschedulable_plugins = frozenset() if error else frozenset(("Fit",))
        it.queue.add_unschedulable_pod_if_not_present(queued, error=error)
        it.happens(NODE_CAME)
        deadline = it.queue.next_deadline()
        assert deadline is not None
        ends.append(deadline - it.clock.seconds)
        it.clock.seconds = deadline
    assert ends == [2.0, 3.0, 5.0, 2.0, 9.0]  # and as much as is left of the second


def test_zero_maximum_backoff_disables_it() -> None:
    it = InFlightHarness(QueueTimeouts(pod_initial_backoff=0.0, pod_max_backoff=0.0))
    it.add("web")
    it.put_back(it.take(), "Fit")
    it.happens(NODE_CAME)
    assert it.part_of("web") == "active"


def test_backoff_is_skipped_only_if_the_queue_is_empty(it: InFlightHarness) -> None:
    for name in ("web", "db"):
        it.add(name)
    web = it.take()
    it.happens(NODE_CAME)
    it.put_back(web, "Fit")
    assert [it.pop(), it.pop()] == ["db", "web"]
    assert it.came[-1] == ("active", "PopFromBackoffQ")


# Gated pods.


def test_gated_pod_ignores_other_events(it: InFlightHarness) -> None:
    it.add("web")
    it.put_back(it.take(), "Spread")
    it.gate.held.add("web")
    it.happens(POD_ENDED)
    assert it.queue.sizes() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    it.gate.held.clear()
    it.happens(POD_ENDED)
    assert it.queue.sizes()["gated"] == 1
    it.happens(NODE_CAME)
    assert it.part_of("web") == "backoff"


def test_gated_time_does_not_count_as_scheduling_time(it: InFlightHarness) -> None:
    it.gate.held.add("web")
    it.add("web")
    it.clock.seconds = 100.0
    it.gate.held.clear()
    it.happens(NODE_CAME)
    assert it.take().initial_attempt_timestamp == 100.0


def test_pod_leaving_backoff_is_not_gated_again(it: InFlightHarness) -> None:
    it.add("web")
    it.put_back(it.take(), "Fit")
    it.happens(NODE_CAME)
    it.gate.held.add("web")
    it.clock.seconds = 3.0
    assert it.pop() == "web"


def test_gate_is_checked_once_after_five_minutes(it: InFlightHarness) -> None:
    it.gate.held.add("web")
    it.add("web")
    for seconds in (301.0, 331.0, 631.0):
        it.clock.seconds = seconds
        it.queue.flush_unschedulable_leftover()
    assert [why for _, why in it.came] == ["UnscheduledPodAdd", "UnschedulableTimeout", "UnschedulableTimeout"]


def test_flushed_pod_is_marked(it: InFlightHarness) -> None:
    it.add("web")
    it.put_back(it.take(), "Fit")
    it.clock.seconds = 301.0
    it.queue.flush_unschedulable_leftover()
    queued = it.take()
    assert queued.was_flushed_from_unschedulable
    it.put_back(queued, "Fit")
    assert not queued.was_flushed_from_unschedulable


# Counts.


def test_pods_are_counted_per_rejecting_plugin_until_retried(it: InFlightHarness) -> None:
    for name in ("web", "db"):
        it.add(name)
    it.put_back(it.take(), "Fit", "Spread")
    it.put_back(it.take(), "Fit")
    assert it.queue.unschedulable_counts() == {("Fit", "s"): 2, ("Spread", "s"): 1}
    it.happens(POD_ENDED)
    assert it.queue.unschedulable_counts() == {("Fit", "s"): 2, ("Spread", "s"): 1}
    it.take()
    assert it.queue.unschedulable_counts() == {("Fit", "s"): 1}
