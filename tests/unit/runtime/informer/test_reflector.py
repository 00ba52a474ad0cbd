# SPDX-License-Identifier: Apache-2.0
"""The reflector against a server and a network that fail in every way we could think of."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import errors
from kubeloop.api.requests import WatchEvent
from kubeloop.client.errors import ConnectError
from kubeloop.runtime.informer.reflector import Reflector
from kubeloop.runtime.informer.reflector_states import (
    BackoffState,
    InitialState,
    ListState,
    StreamingListState,
    WatchState,
)
from kubeloop.runtime.queue.backoff import Backoff
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.runtime.scripted_server import SILENCE, ScriptedSource, Step, bookmark, config, event, page


class StateSink:
    """A sink that is nothing but the state."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}
        self.version = ""
        self.replaced = 0
        self.failing = 0

    def replace(self, items: Sequence[Any], resource_version: str) -> None:
        self.replaced += 1
        self.objects = {one.metadata.name: one.metadata.resource_version for one in items}
        self.version = resource_version

    def apply(self, events: Sequence[WatchEvent]) -> None:
        if self.failing:
            self.failing -= 1
            raise RuntimeError("the sink is ill")
        for one in events:
            if one.type == "DELETED":
                self.objects.pop(one.object.metadata.name, None)
            elif one.type != "BOOKMARK":
                self.objects[one.object.metadata.name] = one.object.metadata.resource_version
            self.version = one.resource_version


class ReflectorHarness:
    """A reflector that runs, in virtual time."""

    def __init__(self, loop: VirtualLoop, source: ScriptedSource, streaming: bool) -> None:
        self.loop = loop
        self.source = source
        self.copy = StateSink()
        self.reflector = Reflector(source, self.copy, clock=VirtualClock(loop), streaming=streaming)


Scenario = Callable[[ReflectorHarness], Awaitable[None]]


def play(source: ScriptedSource, scenario: Scenario, *, streaming: bool = False) -> ReflectorHarness:
    loop = VirtualLoop()

    async def main() -> ReflectorHarness:
        harness = ReflectorHarness(loop, source, streaming)
        task = asyncio.create_task(harness.reflector.run())
        await scenario(harness)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert source.open == 0, "a watch was left open"
        return harness

    return run_virtual(main(), loop=loop)


async def at_once(harness: ReflectorHarness) -> None:
    await harness.loop.settle()


def after(seconds: float) -> Scenario:
    return lambda harness: harness.loop.advance(seconds)


START = (page(5, config("a", 3)),)
EXPIRED = errors.too_old_resource_version(5, 9)
UNAVAILABLE = errors.service_unavailable("down")


def test_initial_state_is_empty() -> None:
    async def nothing(harness: ReflectorHarness) -> None:
        assert harness.reflector.state == InitialState()

    play(ScriptedSource(), nothing)


# Listing


def test_first_list_accepts_any_version_in_pages() -> None:
    source = ScriptedSource(START)
    play(source, at_once)
    assert source.calls("list") == [{"resource_version": "0", "limit": 500}]


def test_paged_list_is_delivered_completely() -> None:
    source = ScriptedSource([page(5, config("a", 1), more="next"), page(5, config("b", 2), more="z"), page(5)])
    harness = play(source, at_once)
    assert harness.copy.objects == {"a": "1", "b": "2"}
    assert source.calls("list")[1:] == [{"limit": 500, "continue_token": "next"}, {"limit": 500, "continue_token": "z"}]
    assert harness.reflector.state == WatchState("5")


def test_list_failing_midway_delivers_nothing() -> None:
    source = ScriptedSource([page(5, config("a", 1), more="next"), UNAVAILABLE])
    harness = play(source, at_once)
    assert harness.copy.replaced == 0
    assert isinstance(harness.reflector.state, BackoffState)
    assert harness.reflector.last_error is UNAVAILABLE


def test_list_expired_between_pages_is_restarted() -> None:
    source = ScriptedSource([page(5, config("a", 1), more="next"), errors.expired(), page(9, config("b", 7))])
    harness = play(source, at_once)
    assert harness.copy.objects == {"b": "7"}
    assert source.calls("list")[2] == {"resource_version": "0"}


def test_hanging_list_is_retried() -> None:
    harness = play(ScriptedSource([SILENCE, *START]), after(70))
    assert harness.copy.objects == {"a": "3"}


# Watching


def test_watch_starts_at_the_list_version_with_a_timeout() -> None:
    source = ScriptedSource(START)
    play(source, at_once)
    (options,) = source.calls("watch")
    assert options["resource_version"] == "5"
    assert 300 <= int(options["timeout_seconds"]) <= 600


def test_events_are_delivered_in_order() -> None:
    changes = [event("ADDED", "b", 6), event("MODIFIED", "a", 7), event("DELETED", "b", 8)]
    harness = play(ScriptedSource(START, [[changes, SILENCE]]), at_once)
    assert harness.copy.objects == {"a": "7"}
    assert harness.reflector.state == WatchState("8")


def test_ended_watch_is_resumed_at_the_last_version() -> None:
    source = ScriptedSource(START, [[[event("ADDED", "b", 6)], 60.0, [bookmark(20)], 60.0]])
    play(source, after(121))
    assert [one["resource_version"] for one in source.calls("watch")] == ["5", "20"]
    assert source.times("watch") == [0.0, 120.0]
    assert len(source.calls("list")) == 1


def test_a_dropped_connection_is_resumed_after_a_pause() -> None:
    source = ScriptedSource(START, [[[event("ADDED", "b", 6)], ConnectionResetError("dropped")]])
    harness = play(source, after(2))
    assert [one["resource_version"] for one in source.calls("watch")] == ["5", "6"]
    assert 0.8 <= source.times("watch")[1] <= 1.6
    assert harness.copy.replaced == 1


def test_watch_that_ends_immediately_is_backed_off() -> None:
    source = ScriptedSource(START, [[]] * 1000)
    play(source, after(60))
    assert 4 <= len(source.calls("watch")) <= 8


@pytest.mark.parametrize("error", [EXPIRED, errors.gone("gone"), errors.too_large_resource_version(5, 1)])
def test_expired_version_causes_a_relist_not_older_than_known(error: errors.ApiError) -> None:
    source = ScriptedSource([*START, page(30, config("z", 30))], [[error]])
    harness = play(source, after(2))
    assert source.calls("list")[1] == {"resource_version": "5"}
    assert harness.copy.objects == {"z": "30"}
    assert harness.reflector.state == WatchState("30")


@pytest.mark.parametrize("error", [errors.expired(), errors.too_large_resource_version(5, 1)])
def test_relist_falls_back_to_the_latest_version(error: errors.ApiError) -> None:
    source = ScriptedSource([*START, error, page(30)], [[EXPIRED]])
    harness = play(source, after(2))
    assert source.calls("list")[2] == {"limit": 500}
    assert harness.copy.version == "30"


def test_rejected_watch_causes_a_relist() -> None:
    source = ScriptedSource([*START, page(40)], [[errors.forbidden("", "pods", "", "no")]])
    harness = play(source, after(2))
    assert source.calls("list")[1] == {"limit": 500}
    assert harness.copy.version == "40"


def test_decreasing_versions_cause_a_relist() -> None:
    changes = [event("MODIFIED", "a", 8), event("ADDED", "b", 7)]
    source = ScriptedSource([*START, page(30, config("a", 8), config("b", 7))], [[changes, SILENCE]])
    harness = play(source, after(2))
    assert len(source.calls("list")) == 2
    assert harness.copy.objects == {"a": "8", "b": "7"}


def test_non_numeric_versions_are_accepted_in_order() -> None:
    odd = WatchEvent("ADDED", config("b", 1), "zz-1")
    odder = WatchEvent("ADDED", config("c", 1), "aa-0")
    harness = play(ScriptedSource(START, [[[odd], [odder], SILENCE]]), at_once)
    assert harness.reflector.state == WatchState("aa-0")


def test_failing_sink_gets_the_events_again() -> None:
    source = ScriptedSource(START, [[[event("ADDED", "b", 6)], SILENCE], [[event("ADDED", "b", 6)], SILENCE]])

    async def scenario(harness: ReflectorHarness) -> None:
        harness.copy.failing = 1
        await harness.loop.advance(2)

    harness = play(source, scenario)
    assert harness.copy.objects == {"a": "3", "b": "6"}


# Silence


def test_watch_exceeding_its_timeout_is_renewed() -> None:
    source = ScriptedSource(START)
    harness = play(source, after(700))
    first = source.calls("watch")[0]
    assert source.times("watch")[1] == int(first["timeout_seconds"]) + 30
    assert source.calls("watch")[1]["resource_version"] == "5"
    assert harness.copy.replaced == 1


def test_watch_without_bookmarks_is_renewed_soon() -> None:
    source = ScriptedSource(START, [[60.0, [bookmark(9)], SILENCE]])
    play(source, after(220))
    assert source.times("watch") == [0.0, 210.0]
    assert source.calls("watch")[1]["resource_version"] == "9"


def test_idle_watch_with_bookmarks_is_kept() -> None:
    steps: list[Step] = [step for n in range(5) for step in (60.0, [bookmark(10 + n)])]
    source = ScriptedSource(START, [steps])
    play(source, after(299))
    assert len(source.calls("watch")) == 1


def test_idle_in_process_watch_is_kept() -> None:
    source = ScriptedSource((), [[[bookmark(9, end=True)], SILENCE]])
    source.is_in_process = True
    play(source, after(7 * 24 * 3600), streaming=True)
    (asked,) = source.calls("watch")
    assert "timeout_seconds" not in asked


def test_broken_in_process_watch_is_reopened() -> None:
    source = ScriptedSource((), [[[bookmark(9, end=True)], 100.0, ConnectionResetError()], [[bookmark(10)], SILENCE]])
    source.is_in_process = True
    harness = play(source, after(110), streaming=True)
    assert [one["resource_version"] for one in source.calls("watch")[1:]] == ["9"]
    assert harness.reflector.state == WatchState("10")


# Backing off


def test_backoff_grows_from_a_second_to_thirty_with_jitter() -> None:
    source = ScriptedSource([UNAVAILABLE] * 12)
    play(source, after(400))
    times = source.times("list")
    pauses = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert len(pauses) >= 8
    for base, pause in zip([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30], pauses[:8], strict=True):
        assert base <= pause <= 2 * base


def test_retry_after_is_honored() -> None:
    source = ScriptedSource([errors.too_many_requests("busy", 17), *START])
    play(source, after(30))
    assert source.times("list") == [0.0, 17.0]


def test_throttled_watch_is_resumed_without_relist() -> None:
    source = ScriptedSource(START, [[errors.too_many_requests("busy", 5)]])
    play(source, after(30))
    assert source.times("watch")[1] == 5.0
    assert len(source.calls("list")) == 1


def test_backoff_resets_after_two_healthy_minutes() -> None:
    loop = VirtualLoop()

    async def main() -> list[float]:
        backoff = Backoff(VirtualClock(loop))
        for _ in range(9):
            backoff.delay()
        await loop.advance(119)
        long = backoff.delay()
        await loop.advance(121)
        return [long, backoff.delay()]

    long, short = run_virtual(main(), loop=loop)
    assert long >= 30
    assert short <= 1.6


# Streaming lists


def test_watch_list_streams_the_state_and_continues_as_watch() -> None:
    first = [event("ADDED", "b", 4), event("ADDED", "a", 3)]
    source = ScriptedSource((), [[first, [bookmark(9, end=True), event("ADDED", "c", 10)], SILENCE]])
    harness = play(source, at_once, streaming=True)
    assert harness.copy.objects == {"b": "4", "a": "3", "c": "10"}
    assert harness.copy.replaced == 1
    assert harness.reflector.state == WatchState("10")
    (options,) = source.calls("watch")
    assert options["initial_events"] is True
    assert "resource_version" not in options
    assert not source.calls("list")


def test_changes_during_streaming_are_applied() -> None:
    first = [event("ADDED", "a", 3), event("ADDED", "b", 4), event("MODIFIED", "a", 11), event("DELETED", "b", 12)]
    harness = play(ScriptedSource((), [[[*first, bookmark(12, end=True)], SILENCE]]), at_once, streaming=True)
    assert harness.copy.objects == {"a": "11"}


def test_server_without_watch_list_falls_back_permanently() -> None:
    refusal = errors.ApiError("sendInitialEvents is forbidden", code=422)
    source = ScriptedSource([*START, page(30)], [[refusal], [EXPIRED]])
    harness = play(source, after(3), streaming=True)
    assert [one.get("resource_version") for one in source.calls("list")] == ["0", "5"]
    assert [("initial_events" in one) for one in source.calls("watch")] == [True, False, False]
    assert harness.copy.version == "30"


def test_missing_initial_events_end_falls_back_to_list() -> None:
    source = ScriptedSource(START, [[[event("ADDED", "a", 3)], SILENCE]])
    harness = play(source, after(61), streaming=True)
    assert harness.copy.objects == {"a": "3"}
    assert harness.reflector.state == WatchState("5")


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionResetError(),
        errors.internal_error("the required storage feature RequestWatchProgress is disabled"),
        errors.service_unavailable("bad day"),
        errors.ApiError("sendInitialEvents is forbidden", code=422),
    ],
    ids=["reset", "500", "503", "422"],
)
def test_a_list_takes_the_place_of_a_stream_that_fails_at_once_and_silently(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    source = ScriptedSource(START, [[[event("ADDED", "x", 3)], failure]])
    with caplog.at_level(logging.INFO):
        harness = play(source, at_once, streaming=True)
    assert harness.copy.objects == {"a": "3"}
    assert harness.reflector.state == WatchState("5")
    assert not caplog.records


def test_a_list_that_fails_as_the_stream_did_backs_off() -> None:
    source = ScriptedSource([errors.internal_error("bad day")], [[errors.internal_error("bad day")]])
    harness = play(source, at_once, streaming=True)
    assert isinstance(harness.reflector.state, BackoffState)
    assert harness.reflector.state.then == ListState("0")


def test_a_server_that_cannot_be_reached_is_asked_to_stream_again() -> None:
    source = ScriptedSource((), [[ConnectError("refused")], [[bookmark(4, end=True)], SILENCE]])
    harness = play(source, after(4), streaming=True)
    assert harness.reflector.state == WatchState("4")


def test_busy_server_is_streamed_again() -> None:
    source = ScriptedSource((), [[errors.too_many_requests("busy", 3)], [[bookmark(4, end=True)], SILENCE]])
    harness = play(source, after(4), streaming=True)
    assert harness.reflector.state == WatchState("4")


def test_relist_streams_not_older_than_known() -> None:
    source = ScriptedSource(
        (), [[[bookmark(9, end=True)], EXPIRED], [errors.expired()], [[bookmark(20, end=True)], "s"]]
    )
    harness = play(source, after(2), streaming=True)
    assert [one.get("resource_version") for one in source.calls("watch")] == [None, "9", None]
    assert harness.reflector.state == WatchState("20")


def test_single_step() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        harness = ReflectorHarness(loop, ScriptedSource((), [[[bookmark(9, end=True)], SILENCE]]), True)
        assert await harness.reflector.step(InitialState()) == StreamingListState("0")
        assert await harness.reflector.step(StreamingListState("0")) == WatchState("9")

    run_virtual(main(), loop=loop)


# Anything at all

FAULTS: list[Step] = [
    ConnectionResetError("dropped"),
    EXPIRED,
    errors.too_many_requests("busy", 1),
    errors.internal_error("oops"),
    TimeoutError("the transport's own"),
    SILENCE,
    40.0,
]


class HistoryServer(ScriptedSource):
    """Server with a history; the script injects faults into its watches."""

    def __init__(self, faults: Sequence[Step], rng: Any) -> None:
        super().__init__()
        self.faults = list(faults)
        self.rng = rng
        self.history: list[WatchEvent] = []
        self.arrived = asyncio.Event()

    def _fault(self) -> Step | None:
        return self.faults.pop() if self.faults and self.rng.random() < 0.5 else None

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for one in self.history:
            if one.type == "DELETED":
                state.pop(one.object.metadata.name, None)
            else:
                state[one.object.metadata.name] = one.object
        return state

    def happen(self, kind: Any, name: str) -> None:
        self.history.append(event(kind, name, len(self.history) + 1))
        self.arrived.set()
        self.arrived = asyncio.Event()

    async def list(self, **options: Any) -> Any:
        await self._suffer()
        return page(len(self.history), *self._state().values())

    async def _suffer(self) -> None:
        match self._fault():
            case Exception() as error:
                raise error
            case float(seconds):
                await asyncio.sleep(seconds)
            case str():
                await asyncio.get_running_loop().create_future()

    async def watch(self, **options: Any) -> Any:
        end = asyncio.get_running_loop().time() + int(options["timeout_seconds"])
        position = int(options["resource_version"] or 0)
        if options["initial_events"]:
            await self._suffer()
            yield [WatchEvent("ADDED", one, one.metadata.resource_version) for one in self._state().values()]
            position = len(self.history)
            yield [bookmark(position, end=True)]
        while asyncio.get_running_loop().time() < end:
            await self._suffer()
            if position < len(self.history):
                batch = self.history[position : position + 2]
                position += len(batch)
                yield batch
            else:
                arrived = self.arrived
                try:
                    async with asyncio.timeout(GIVE_UP_SECONDS):
                        await arrived.wait()
                except TimeoutError:
                    yield [bookmark(position)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(range(len(FAULTS))), max_size=12),
    st.lists(st.tuples(st.sampled_from(["ab", "c", "d"]), st.booleans(), st.floats(0, 50)), max_size=25),
    st.booleans(),
    st.integers(0, 5),
)
def test_store_converges_under_faults(
    faults: list[int], happenings: list[tuple[str, bool, float]], streaming: bool, seed: int
) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        clock = VirtualClock(loop, seed=seed)
        server, copy = HistoryServer([FAULTS[one] for one in faults], clock.random()), StateSink()
        task = asyncio.create_task(Reflector(server, copy, clock=clock, streaming=streaming).run())
        for name, deletes, pause in happenings:
            exists = name in server._state()
            server.happen("DELETED" if deletes and exists else "MODIFIED" if exists else "ADDED", name)
            await loop.advance(pause)
        server.faults.clear()
        await loop.advance(1500)
        expected = {name: one.metadata.resource_version for name, one in server._state().items()}
        assert copy.objects == expected
        task.cancel()

    run_virtual(main(), loop=loop)
