# SPDX-License-Identifier: Apache-2.0
"""Events for people: which are written, which are counted, which are dropped, and what happens when that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kubeloop.api import errors
from kubeloop.api.generated import core_v1, events_v1
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.unstructured import Unstructured
from kubeloop.runtime.events.recorder import EventRecorder, reference_to
from tests.unit.runtime.in_process_server import Server, play

THING = ConfigMap(metadata=ObjectMeta(name="thing", namespace="default", uid="1-2-3"))


class FlakyClient:
    """Client that fails some calls, then reaches the server."""

    def __init__(self, client: Any, *failures: Exception) -> None:
        self._client = client
        self._failures = list(failures)
        self.times: list[float] = []

    def _fail(self) -> None:
        self.times.append(asyncio.get_running_loop().time())
        if self._failures:
            raise self._failures.pop(0)

    async def create(self, obj: Any, namespace: str = "") -> Any:
        self._fail()
        return await self._client.create(obj, namespace)

    async def patch(self, what: Any, name: str, patch: Any, namespace: str = "", *, type: str) -> Any:
        self._fail()
        return await self._client.patch(what, name, patch, namespace, type=type)


class RecorderHarness:
    def __init__(self, server: Server, series: bool, failures: tuple[Exception, ...]) -> None:
        self.server = server
        self.loop = server.loop
        self.client = FlakyClient(server.client, *failures)
        self.recorder = EventRecorder(self.client, "looper", server.clock, host="node-1", series=series)

    def say(self, message: str, reason: str = "Done", type: str = "Normal", about: Any = THING) -> None:
        self.recorder.event(about, type, reason, message)

    async def written(self, kind: Any = core_v1.Event) -> list[Any]:
        await self.loop.settle()
        return list((await self.server.client.list(kind)).items)


def record(scenario: Callable[[RecorderHarness], Awaitable[None]], *failures: Exception, series: bool = False) -> None:
    async def main(server: Server) -> None:
        harness = RecorderHarness(server, series, failures)
        task = asyncio.create_task(harness.recorder.run())
        await scenario(harness)
        task.cancel()

    play(main)


# One event


def test_event_has_reason_object_and_source() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        harness.say("it is done")
        (event,) = await harness.written()
        assert event.metadata.name == "thing.18867251edfa0000"
        assert event.metadata.namespace == "default"
        assert (event.type, event.reason, event.message, event.count) == ("Normal", "Done", "it is done", 1)
        assert event.involved_object == reference_to(THING)
        assert (event.involved_object.kind, event.involved_object.api_version) == ("ConfigMap", "v1")
        assert (event.source.component, event.source.host) == ("looper", "node-1")
        assert (event.reporting_component, event.reporting_instance) == ("looper", "node-1")
        assert event.first_timestamp == event.last_timestamp == "2026-01-01T00:00:00Z"

    record(scenario)


def test_simultaneous_events_have_distinct_names() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        for number in range(5):
            harness.say(f"message {number}", reason=f"Reason{number}")
        assert len({one.metadata.name for one in await harness.written()}) == 5

    record(scenario)


def test_invalid_event_name_gets_a_uuid() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        odd = core_v1.ObjectReference(kind="ClusterRole", name="system:thing", api_version="rbac/v1")
        harness.say("hello", about=odd)
        (event,) = await harness.written()
        assert len(event.metadata.name) == 36
        assert event.metadata.namespace == "default"

    record(scenario)


def test_custom_resources_are_referenced_by_their_kind() -> None:
    custom = Unstructured(
        {"kind": "Widget", "apiVersion": "x.org/v1", "metadata": {"name": "w", "namespace": "n", "uid": "u"}}
    )
    reference = reference_to(custom)
    assert (reference.kind, reference.api_version, reference.name) == ("Widget", "x.org/v1", "w")
    assert (reference.namespace, reference.uid) == ("n", "u")


def test_invalid_type_is_not_written() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        harness.say("hello", type="Bad")
        assert await harness.written() == []

    record(scenario)


# Many events


def test_repeated_event_increases_the_count() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        for _ in range(3):
            harness.say("again")
            await harness.loop.advance(60)
        (event,) = await harness.written()
        assert event.count == 3
        assert event.first_timestamp == "2026-01-01T00:00:00Z"
        assert event.last_timestamp == "2026-01-01T00:02:00Z"

    record(scenario)


def test_expired_event_is_recreated_with_its_count() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        harness.say("again")
        (event,) = await harness.written()
        await harness.server.client.delete(core_v1.Event, event.metadata.name, "default")
        harness.say("again")
        (event,) = await harness.written()
        assert event.count == 2

    record(scenario)


def test_ten_similar_events_are_aggregated() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        for number in range(12):
            harness.say(f"number {number}")
        events = await harness.written()
        assert len(events) == 10
        (combined,) = [one for one in events if one.message.startswith("(combined from similar events): ")]
        assert combined.message == "(combined from similar events): number 11"
        assert combined.count == 3

    record(scenario)


def test_aggregation_ends_after_ten_minutes() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        for number in range(9):
            harness.say(f"number {number}")
        await harness.loop.advance(601)
        harness.say("another")
        assert not any("combined" in one.message for one in await harness.written())

    record(scenario)


def test_spam_filter_limits_events_per_object() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        for _ in range(40):
            harness.say("again")
        assert [one.count for one in await harness.written()] == [25]
        await harness.loop.advance(301)
        for _ in range(5):
            harness.say("again")
        assert [one.count for one in await harness.written()] == [41], "what was not written was counted"
        other = ConfigMap(metadata=ObjectMeta(name="other", namespace="default"))
        harness.say("again", about=other)
        assert len(await harness.written()) == 2

    record(scenario)


# Trouble


def test_failed_event_is_retried() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        harness.say("at last")
        await harness.loop.advance(60)
        assert [one.message for one in await harness.written()] == ["at last"]
        first, second, third, fourth = harness.client.times
        assert first == 0
        assert second <= 10
        assert (third - second, fourth - third) == (10, 10)

    record(scenario, ConnectionRefusedError(), TimeoutError(), ConnectionResetError())


def test_event_is_retried_twelve_times() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        harness.say("never")
        await harness.loop.advance(1000)
        assert len(harness.client.times) == 12
        assert harness.recorder.dropped == 1
        harness.say("the next one is written")
        assert len(await harness.written()) == 1

    record(scenario, *[ConnectionRefusedError() for _ in range(12)])


def test_rejected_event_is_not_retried() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        harness.say("no")
        await harness.loop.advance(100)
        assert len(harness.client.times) == 1
        assert harness.recorder.dropped == 1

    record(scenario, errors.forbidden("", "events", "", "the namespace is being terminated"))


def test_full_queue_drops_the_newest_events_without_blocking() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        for number in range(1005):
            harness.say(f"number {number}")
        assert harness.recorder.dropped == 5

    record(scenario)


def test_flood_of_one_component_does_not_affect_another() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        for number in range(1005):
            harness.say(f"number {number}")
        harness.recorder.with_component("another").event(THING, "Normal", "Done", "heard all the same")
        assert harness.recorder.dropped == 5

    record(scenario)


def test_recorded_events_can_be_awaited() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        harness.say("one")
        assert await harness.recorder.flush()
        assert len(await harness.written()) == 1

    record(scenario)


def test_waiting_for_unwritable_events_ends() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        harness.say("one")
        assert not await harness.recorder.flush(within=0)

    record(scenario, ConnectionRefusedError())


# Series


def test_events_v1_has_a_series_from_the_second_event() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        harness.say("first")
        (event,) = await harness.written(events_v1.Event)
        assert (event.note, event.action, event.series) == ("first", "Done", None)
        assert event.event_time == "2026-01-01T00:00:00.000000Z"
        assert (event.reporting_controller, event.reporting_instance) == ("looper", "looper-node-1")
        await harness.loop.advance(1)
        harness.say("second")
        (event,) = await harness.written(events_v1.Event)
        assert (event.series.count, event.series.last_observed_time) == (2, "2026-01-01T00:00:01.000000Z")
        for _ in range(3):
            harness.say("more")
        (event,) = await harness.written(events_v1.Event)
        assert event.series.count == 2, "told with the next refresh or at the end"

    record(scenario, series=True)


def test_finished_series_is_written_once_more() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        for _ in range(5):
            harness.say("same")
        await harness.loop.advance(721)
        (event,) = await harness.written(events_v1.Event)
        assert event.series.count == 5
        harness.say("same")
        assert len(await harness.written(events_v1.Event)) == 2

    record(scenario, series=True)


def test_running_series_is_written_every_half_hour() -> None:
    async def scenario(harness: RecorderHarness) -> None:
        for _ in range(31):
            harness.say("same")
            await harness.loop.advance(60)
        (event,) = await harness.written(events_v1.Event)
        assert event.series.count >= 30

    record(scenario, series=True)
