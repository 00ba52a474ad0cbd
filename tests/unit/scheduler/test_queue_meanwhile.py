"""What happens while a pod is tried, held back or backing off; and in what order it is tried again."""

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
from tests.unit.scheduler.test_queue import Clock, Gate, Setting

NODE_CAME = ClusterEvent(NODE, ActionType.ADD)
POD_ENDED = ClusterEvent(ASSIGNED_POD, ActionType.DELETE)
RELABELLED = ClusterEvent(TARGET_POD, ActionType.POD_LABEL)


class Scene(Setting):
    """Fit hears of nodes, Spread of pods that end and of the pod's own labels, Gate of nodes too; all are told why."""

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
        rules = QueueProfile(lambda one: (-one.info.priority, one.added_at), lambda: [self.gate], lambda: interests)
        told = QueueCallbacks(
            lambda: None, lambda *came: self.came.append(came), lambda *asked: self.asked.append(asked[:3])
        )
        self.queue = SchedulingQueue({"s": rules}, self.clock, patience, told)

    def _hint(self, *_: Any) -> bool:
        if self.helpful is None:
            raise ValueError("it can't be told")
        return self.helpful

    def take(self) -> QueuedPodInfo:
        found = self.queue.pop()
        assert found is not None
        return found

    def put_back(self, queued: QueuedPodInfo, *plugins: str, pending: str = "") -> None:
        queued.plugins, queued.pending = frozenset(plugins), frozenset((pending,) if pending else ())
        self.queue.put_back(queued)

    def part_of(self, name: str) -> str:
        found = self.queue.get(ObjectKey("default", name))
        return "" if found is None else found.place

    def happens(self, about: ClusterEvent) -> None:
        self.queue.move(about, object(), object())

    def relabelled(self, name: str, uid: str = "") -> None:
        old = self.info(name).pod
        new = structs.replace(old, metadata=structs.replace(old.metadata, labels={"a": "b"}, uid=uid or name))
        self.queue.update(old, self.templates.info(new), [RELABELLED])


@pytest.fixture
def it() -> Scene:
    return Scene()


# While it is tried.


def test_only_what_the_plugins_that_refuse_it_care_for_counts(it: Scene) -> None:
    it.add("web")
    queued = it.take()
    it.happens(POD_ENDED)
    it.put_back(queued, "Fit")
    assert it.part_of("web") == "unschedulable"


def test_a_change_of_the_pod_itself_counts_for_it_and_for_no_other(it: Scene) -> None:
    for name in ("web", "db"):
        it.add(name)
    web, db = it.take(), it.take()
    it.relabelled("web")
    it.put_back(web, "Spread")
    it.put_back(db, "Spread")
    assert (it.part_of("web"), it.part_of("db")) == ("backoff", "unschedulable")


def test_what_happened_before_it_was_taken_does_not_count(it: Scene) -> None:
    it.add("early")
    early = it.take()
    it.happens(NODE_CAME)
    it.add("late")
    late = it.take()
    it.put_back(late, "Fit")
    it.put_back(early, "Fit")
    assert (it.part_of("early"), it.part_of("late")) == ("backoff", "unschedulable")


def test_nothing_is_kept_longer_than_somebody_may_ask_for_it(it: Scene) -> None:
    for name in ("a", "b"):
        it.add(name)
    a = it.take()
    it.happens(NODE_CAME)
    b = it.take()
    it.happens(POD_ENDED)
    assert it.queue.in_flight() == {("NodeAdd",): 1, ("AssignedPodDelete",): 1, ("PodPopped",): 2}
    it.queue.done(a.info.uid)
    assert it.queue.in_flight() == {("AssignedPodDelete",): 1, ("PodPopped",): 1}
    it.queue.done(b.info.uid)
    assert it.queue.in_flight() == {("PodPopped",): 0}
    it.happens(NODE_CAME)
    assert it.queue.in_flight() == {("PodPopped",): 0}


def test_however_much_happens_the_last_of_it_counts_too(it: Scene) -> None:
    it.add("web")
    queued = it.take()
    for _ in range(10_000):
        it.happens(POD_ENDED)
    it.happens(NODE_CAME)
    it.put_back(queued, "Fit")
    assert it.part_of("web") == "backoff"


def test_who_is_refused_when_nobody_listens_any_more_is_tried_again_in_any_case(it: Scene) -> None:
    it.add("web")
    queued = it.take()
    it.queue.done(queued.info.uid)  # as before a pod is bound
    it.put_back(queued, "Fit")
    assert it.part_of("web") == "backoff"


def test_one_whom_somebody_wants_tried_at_once_is_tried_again_after_its_backoff(it: Scene) -> None:
    it.add("web")
    queued = it.take()
    it.queue.activate([queued.key])
    it.put_back(queued, "Fit")
    assert it.part_of("web") == "backoff"


def test_a_pod_that_is_made_anew_under_its_name_is_another(it: Scene) -> None:
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


# Who wakes it, and how soon.


def test_only_the_word_of_the_plugin_that_asked_to_wait_skips_the_backoff(it: Scene) -> None:
    it.add("web")
    it.put_back(it.take(), "Spread", pending="Fit")
    it.happens(POD_ENDED)
    assert it.part_of("web") == "backoff"
    it.put_back(it.take(), "Spread", pending="Fit")
    it.happens(NODE_CAME)
    assert it.part_of("web") == "active"


def test_the_same_goes_for_what_happens_while_it_is_tried(it: Scene) -> None:
    it.add("web")
    for about, part in ((POD_ENDED, "backoff"), (NODE_CAME, "active")):
        queued = it.take()
        it.happens(POD_ENDED)
        it.happens(about)
        it.put_back(queued, "Spread", pending="Fit")
        assert it.part_of("web") == part


def test_a_hint_that_fails_leaves_no_pod_behind(it: Scene, caplog: pytest.LogCaptureFixture) -> None:
    it.add("web")
    it.put_back(it.take(), "Fit")
    it.helpful = None  # type: ignore[assignment]  # here: it raises
    it.happens(NODE_CAME)
    assert it.part_of("web") == "backoff"
    assert it.asked == [("Fit", "NodeAdd", "Error")]
    assert "Fit can't tell whether NodeAdd helps default/web" in caplog.text


def test_a_pod_that_has_waited_for_longer_than_its_backoff_is_tried_at_once(it: Scene) -> None:
    it.add("web")
    it.put_back(it.take(), "Fit")
    it.clock.seconds = 2.0
    it.happens(NODE_CAME)
    assert it.part_of("web") == "active"


def test_backoff_after_refusals_grows_and_one_after_an_error_begins_anew(it: Scene) -> None:
    it.add("web")
    ends = []
    for error in (False, False, False, True, False):
        queued = it.take()
        queued.plugins = frozenset() if error else frozenset(("Fit",))
        it.queue.put_back(queued, error=error)
        it.happens(NODE_CAME)
        deadline = it.queue.next_deadline()
        assert deadline is not None
        ends.append(deadline - it.clock.seconds)
        it.clock.seconds = deadline
    assert ends == [2.0, 3.0, 5.0, 2.0, 9.0]  # and as much as is left of the second


def test_no_longest_backoff_means_none() -> None:
    it = Scene(QueueTimeouts(first=0.0, longest=0.0))
    it.add("web")
    it.put_back(it.take(), "Fit")
    it.happens(NODE_CAME)
    assert it.part_of("web") == "active"


def test_who_backs_off_is_told_to_come_at_once_only_if_nobody_else_is_there(it: Scene) -> None:
    for name in ("web", "db"):
        it.add(name)
    web = it.take()
    it.happens(NODE_CAME)
    it.put_back(web, "Fit")
    assert [it.pop(), it.pop()] == ["db", "web"]
    assert it.came[-1] == ("active", "PopFromBackoffQ")


# Who is held back.


def test_one_that_is_held_back_hears_of_what_its_gate_cares_for_alone(it: Scene) -> None:
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


def test_time_held_back_is_not_time_that_the_scheduler_took(it: Scene) -> None:
    it.gate.held.add("web")
    it.add("web")
    it.clock.seconds = 100.0
    it.gate.held.clear()
    it.happens(NODE_CAME)
    assert it.take().first_active_at == 100.0


def test_one_that_leaves_the_backoff_is_not_held_back_again(it: Scene) -> None:
    it.add("web")
    it.put_back(it.take(), "Fit")
    it.happens(NODE_CAME)
    it.gate.held.add("web")
    it.clock.seconds = 3.0
    assert it.pop() == "web"


def test_after_five_minutes_the_gate_is_asked_again_and_not_each_time_from_then_on(it: Scene) -> None:
    it.gate.held.add("web")
    it.add("web")
    for seconds in (301.0, 331.0, 631.0):
        it.clock.seconds = seconds
        it.queue.flush_unschedulable()
    assert [why for _, why in it.came] == ["UnscheduledPodAdd", "UnschedulableTimeout", "UnschedulableTimeout"]


def test_one_that_is_tried_only_because_it_has_waited_for_so_long_says_so(it: Scene) -> None:
    it.add("web")
    it.put_back(it.take(), "Fit")
    it.clock.seconds = 301.0
    it.queue.flush_unschedulable()
    queued = it.take()
    assert queued.flushed
    it.put_back(queued, "Fit")
    assert not queued.flushed


# What is counted.


def test_pods_are_counted_for_each_plugin_that_refused_them_until_they_are_tried_again(it: Scene) -> None:
    for name in ("web", "db"):
        it.add(name)
    it.put_back(it.take(), "Fit", "Spread")
    it.put_back(it.take(), "Fit")
    assert it.queue.refused() == {("Fit", "s"): 2, ("Spread", "s"): 1}
    it.happens(POD_ENDED)
    assert it.queue.refused() == {("Fit", "s"): 2, ("Spread", "s"): 1}
    it.take()
    assert it.queue.refused() == {("Fit", "s"): 1}
