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
from tests.unit.runtime.in_process import Server, play

THING = ConfigMap(metadata=ObjectMeta(name="thing", namespace="default", uid="1-2-3"))


class FlakyClient:
    """A client that fails as often as it is told, then reaches the server."""

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


class World:
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


def record(scenario: Callable[[World], Awaitable[None]], *failures: Exception, series: bool = False) -> None:
    async def main(server: Server) -> None:
        world = World(server, series, failures)
        task = asyncio.create_task(world.recorder.run())
        await scenario(world)
        task.cancel()

    play(main)


# One event


def test_an_event_says_what_happened_to_which_object_and_who_says_so() -> None:
    async def scenario(world: World) -> None:
        world.say("it is done")
        (event,) = await world.written()
        assert event.metadata.name == "thing.18867251edfa0000"
        assert event.metadata.namespace == "default"
        assert (event.type, event.reason, event.message, event.count) == ("Normal", "Done", "it is done", 1)
        assert event.involved_object == reference_to(THING)
        assert (event.involved_object.kind, event.involved_object.api_version) == ("ConfigMap", "v1")
        assert (event.source.component, event.source.host) == ("looper", "node-1")
        assert (event.reporting_component, event.reporting_instance) == ("looper", "node-1")
        assert event.first_timestamp == event.last_timestamp == "2026-01-01T00:00:00Z"

    record(scenario)


def test_events_of_one_moment_have_names_of_their_own() -> None:
    async def scenario(world: World) -> None:
        for number in range(5):
            world.say(f"message {number}", reason=f"Reason{number}")
        assert len({one.metadata.name for one in await world.written()}) == 5

    record(scenario)


def test_an_object_whose_name_makes_no_event_name_gets_a_uuid() -> None:
    async def scenario(world: World) -> None:
        odd = core_v1.ObjectReference(kind="ClusterRole", name="system:thing", api_version="rbac/v1")
        world.say("hello", about=odd)
        (event,) = await world.written()
        assert len(event.metadata.name) == 36
        assert event.metadata.namespace == "default"

    record(scenario)


def test_custom_resources_are_referred_to_by_their_own_kind() -> None:
    custom = Unstructured(
        {"kind": "Widget", "apiVersion": "x.org/v1", "metadata": {"name": "w", "namespace": "n", "uid": "u"}}
    )
    reference = reference_to(custom)
    assert (reference.kind, reference.api_version, reference.name) == ("Widget", "x.org/v1", "w")
    assert (reference.namespace, reference.uid) == ("n", "u")


def test_a_type_that_there_isnt_is_not_written() -> None:
    async def scenario(world: World) -> None:
        world.say("hello", type="Bad")
        assert await world.written() == []

    record(scenario)


# Many events


def test_the_same_event_again_raises_the_count() -> None:
    async def scenario(world: World) -> None:
        for _ in range(3):
            world.say("again")
            await world.loop.advance(60)
        (event,) = await world.written()
        assert event.count == 3
        assert event.first_timestamp == "2026-01-01T00:00:00Z"
        assert event.last_timestamp == "2026-01-01T00:02:00Z"

    record(scenario)


def test_an_event_that_has_expired_on_the_server_is_made_again_with_its_count() -> None:
    async def scenario(world: World) -> None:
        world.say("again")
        (event,) = await world.written()
        await world.server.client.delete(core_v1.Event, event.metadata.name, "default")
        world.say("again")
        (event,) = await world.written()
        assert event.count == 2

    record(scenario)


def test_from_the_tenth_message_for_one_reason_on_they_are_combined() -> None:
    async def scenario(world: World) -> None:
        for number in range(12):
            world.say(f"number {number}")
        events = await world.written()
        assert len(events) == 10
        (combined,) = [one for one in events if one.message.startswith("(combined from similar events): ")]
        assert combined.message == "(combined from similar events): number 11"
        assert combined.count == 3

    record(scenario)


def test_after_ten_quiet_minutes_messages_are_told_apart_again() -> None:
    async def scenario(world: World) -> None:
        for number in range(9):
            world.say(f"number {number}")
        await world.loop.advance(601)
        world.say("another")
        assert not any("combined" in one.message for one in await world.written())

    record(scenario)


def test_a_source_that_says_too_much_of_one_object_is_heard_once_in_five_minutes() -> None:
    async def scenario(world: World) -> None:
        for _ in range(40):
            world.say("again")
        assert [one.count for one in await world.written()] == [25]
        await world.loop.advance(301)
        for _ in range(5):
            world.say("again")
        assert [one.count for one in await world.written()] == [41], "what was not written was counted"
        other = ConfigMap(metadata=ObjectMeta(name="other", namespace="default"))
        world.say("again", about=other)
        assert len(await world.written()) == 2

    record(scenario)


# Trouble


def test_an_event_that_cannot_be_sent_is_tried_again() -> None:
    async def scenario(world: World) -> None:
        world.say("at last")
        await world.loop.advance(60)
        assert [one.message for one in await world.written()] == ["at last"]
        first, second, third, fourth = world.client.times
        assert first == 0
        assert second <= 10
        assert (third - second, fourth - third) == (10, 10)

    record(scenario, ConnectionRefusedError(), TimeoutError(), ConnectionResetError())


def test_it_is_tried_twelve_times() -> None:
    async def scenario(world: World) -> None:
        world.say("never")
        await world.loop.advance(1000)
        assert len(world.client.times) == 12
        assert world.recorder.dropped == 1
        world.say("the next one is written")
        assert len(await world.written()) == 1

    record(scenario, *[ConnectionRefusedError() for _ in range(12)])


def test_what_the_server_refuses_is_not_tried_again() -> None:
    async def scenario(world: World) -> None:
        world.say("no")
        await world.loop.advance(100)
        assert len(world.client.times) == 1
        assert world.recorder.dropped == 1

    record(scenario, errors.forbidden("", "events", "", "the namespace is being terminated"))


def test_when_too_many_wait_the_newest_are_dropped_and_nobody_is_held_up() -> None:
    async def scenario(world: World) -> None:
        for number in range(1005):
            world.say(f"number {number}")
        assert world.recorder.dropped == 5

    record(scenario)


def test_a_flood_of_one_component_takes_no_room_from_another() -> None:
    async def scenario(world: World) -> None:
        for number in range(1005):
            world.say(f"number {number}")
        world.recorder.of_component("another").event(THING, "Normal", "Done", "heard all the same")
        assert world.recorder.dropped == 5

    record(scenario)


def test_what_was_noted_can_be_awaited() -> None:
    async def scenario(world: World) -> None:
        world.say("one")
        assert await world.recorder.flush()
        assert len(await world.written()) == 1

    record(scenario)


def test_waiting_for_what_cannot_be_written_ends() -> None:
    async def scenario(world: World) -> None:
        world.say("one")
        assert not await world.recorder.flush(within=0)

    record(scenario, ConnectionRefusedError())


# Series


def test_in_the_newer_group_the_second_event_begins_a_series_and_the_rest_are_counted() -> None:
    async def scenario(world: World) -> None:
        world.say("first")
        (event,) = await world.written(events_v1.Event)
        assert (event.note, event.action, event.series) == ("first", "Done", None)
        assert event.event_time == "2026-01-01T00:00:00.000000Z"
        assert (event.reporting_controller, event.reporting_instance) == ("looper", "looper-node-1")
        await world.loop.advance(1)
        world.say("second")
        (event,) = await world.written(events_v1.Event)
        assert (event.series.count, event.series.last_observed_time) == (2, "2026-01-01T00:00:01.000000Z")
        for _ in range(3):
            world.say("more")
        (event,) = await world.written(events_v1.Event)
        assert event.series.count == 2, "told with the next refresh or at the end"

    record(scenario, series=True)


def test_a_series_is_told_a_last_time_when_it_is_over() -> None:
    async def scenario(world: World) -> None:
        for _ in range(5):
            world.say("same")
        await world.loop.advance(721)
        (event,) = await world.written(events_v1.Event)
        assert event.series.count == 5
        world.say("same")
        assert len(await world.written(events_v1.Event)) == 2

    record(scenario, series=True)


def test_a_series_that_goes_on_is_told_every_half_hour() -> None:
    async def scenario(world: World) -> None:
        for _ in range(31):
            world.say("same")
            await world.loop.advance(60)
        (event,) = await world.written(events_v1.Event)
        assert event.series.count >= 30

    record(scenario, series=True)
