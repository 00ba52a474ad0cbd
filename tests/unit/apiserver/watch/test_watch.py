# SPDX-License-Identifier: Apache-2.0
"""Watches: what happened since, what happens now, and how they end; in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.admission import AdmissionChain
from kubeloop.apiserver.app import ApiServer, ApiServerDependencies
from kubeloop.apiserver.authentication import Authenticator
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.context import User
from kubeloop.http import Request, StreamResponse
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from kubeloop.store.memory import MemoryStore

CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"


class MemoryStream:
    """A stream that keeps what it is sent."""

    def __init__(self) -> None:
        self.closed = False
        self.events: list[dict] = []
        self._callbacks: list[Callable[[], None]] = []

    def write(self, data: bytes) -> None:
        while data:
            size, _, rest = data.partition(b"\r\n")
            length = int(size, 16)
            self.events.append(json.loads(rest[:length]))
            data = rest[length + 2 :]

    async def wait_drained(self) -> None:
        return None

    def on_close(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            for callback in self._callbacks:
                callback()

    @property
    def seen(self) -> list[tuple[str, str]]:
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in self.events]


class WatchHarness:
    """A server in virtual time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.store = MemoryStore()
        clock = VirtualClock(loop)
        self.server = ApiServer(
            ApiServerDependencies(
                StorageRegistry(self.store, RESOURCES),
                clock,
                Authenticator({"t": User("admin", ("system:masters",))}),
                AdmissionChain(),
                InFlightLimiter(10, 10),
                HealthChecks({}, {}),
                lambda: "",
            )
        )
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, method: str, path: str, body: object = None, accept: str = ""):
        path, _, query = path.partition("?")
        request = Request(method, path, query, {"authorization": "Bearer t", "accept": accept})
        if method == "PATCH":
            request.headers["content-type"] = "application/merge-patch+json"
        request.body = b"" if body is None else json.dumps(body).encode()
        return await self.server.handle(request)

    async def make(self, name: str, **labels: str) -> str:
        response = await self.ask("POST", CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}})
        assert response.status == 201
        return json.loads(response.body)["metadata"]["resourceVersion"]

    async def watch(self, query: str, accept: str = "") -> MemoryStream:
        response = await self.ask("GET", f"{CONFIG_MAPS}?watch=1&{query}", accept=accept)
        assert isinstance(response, StreamResponse), response.body
        sink = MemoryStream()
        self.tasks.append(asyncio.create_task(response.run(sink)))
        await self.loop.settle()
        return sink


def in_test_environment(story) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        harness = WatchHarness(loop)
        await harness.store.start()
        await story(harness)
        for task in harness.tasks:
            task.cancel()
        await asyncio.gather(*harness.tasks, return_exceptions=True)
        await harness.store.close()

    run_virtual(main(), loop=loop)


def test_watch_delivers_history_then_new_events():
    async def story(harness: WatchHarness) -> None:
        version = await harness.make("a")
        await harness.make("b")
        sink = await harness.watch(f"resourceVersion={version}")
        assert sink.seen == [("ADDED", "b")]
        await harness.ask("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
        await harness.ask("DELETE", f"{CONFIG_MAPS}/b")
        await harness.loop.settle()
        assert sink.seen[1:] == [("MODIFIED", "a"), ("DELETED", "b")]
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in sink.events]
        assert versions == sorted(versions)

    in_test_environment(story)


def test_watch_without_a_version_starts_with_existing_objects():
    async def story(harness: WatchHarness) -> None:
        await harness.make("a")
        assert (await harness.watch("")).seen == [("ADDED", "a")]
        assert (await harness.watch("resourceVersion=0")).seen == [("ADDED", "a")]

    in_test_environment(story)


@pytest.mark.parametrize("version", ["", "&resourceVersion=0"])
def test_watch_that_declines_initial_events_starts_now(version: str):
    """Also if the history has been compacted: there is no version to start from."""

    async def story(harness: WatchHarness) -> None:
        await harness.make("a")
        harness.store.compact(harness.store.revision)
        sink = await harness.watch(f"sendInitialEvents=false&resourceVersionMatch=NotOlderThan{version}")
        assert sink.seen == []
        await harness.make("b")
        await harness.loop.settle()
        assert sink.seen == [("ADDED", "b")]

    in_test_environment(story)


def test_initial_events_end_with_an_annotated_bookmark():
    async def story(harness: WatchHarness) -> None:
        await harness.make("a")
        query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        sink = await harness.watch(query)
        assert [kind for kind, _ in sink.seen] == ["ADDED", "BOOKMARK"]
        assert sink.events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    in_test_environment(story)


def test_selector_changes_become_added_and_deleted():
    async def story(harness: WatchHarness) -> None:
        sink = await harness.watch("labelSelector=shown%3Dyes")
        await harness.make("a", shown="no")
        await harness.ask("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"shown": "yes"}}})
        await harness.ask("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
        await harness.ask("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"shown": "no"}}})
        await harness.loop.settle()
        assert [kind for kind, _ in sink.seen] == ["ADDED", "MODIFIED", "DELETED"]
        assert sink.events[-1]["object"]["metadata"]["labels"] == {"shown": "yes"}

    in_test_environment(story)


def test_watch_ends_after_its_timeout_with_bookmarks_every_minute():
    async def story(harness: WatchHarness) -> None:
        sink = await harness.watch("timeoutSeconds=150&allowWatchBookmarks=true")
        await harness.loop.advance(147)
        assert [kind for kind, _ in sink.seen] == ["BOOKMARK", "BOOKMARK"]
        await harness.loop.advance(2)
        assert [kind for kind, _ in sink.seen] == ["BOOKMARK"] * 3
        assert not sink.closed
        await harness.loop.advance(2)
        assert sink.closed

    in_test_environment(story)


def test_compacted_version_is_a_410_error_event():
    async def story(harness: WatchHarness) -> None:
        version = await harness.make("a")
        await harness.make("b")
        await harness.make("c")
        harness.store.compact(harness.store.revision)
        sink = await harness.watch(f"resourceVersion={version}")
        assert [event["type"] for event in sink.events] == ["ERROR"]
        assert sink.events[0]["object"]["code"] == 410

    in_test_environment(story)


def test_watchers_get_the_same_events_of_their_namespace():
    async def story(harness: WatchHarness) -> None:
        sinks = [await harness.watch("resourceVersion=0") for _ in range(40)]
        for number in range(20):
            await harness.make(f"m{number}")
        await harness.ask("POST", "/api/v1/namespaces/attic/configmaps", {"metadata": {"name": "x"}})
        await harness.loop.advance(1)
        assert all(sink.seen == [("ADDED", f"m{number}") for number in range(20)] for sink in sinks)

    in_test_environment(story)


def test_bookmark_never_overtakes_a_pending_event():
    async def story(harness: WatchHarness) -> None:
        sinks = [await harness.watch("resourceVersion=0&allowWatchBookmarks=true") for _ in range(40)]
        await harness.loop.advance(59.9995)
        await harness.make("first")  # many watchers: what follows gathers for a moment
        await harness.make("second")
        await harness.loop.advance(0.0006)
        for sink in sinks:
            versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in sink.events]
            assert [kind for kind, _ in sink.seen] == ["ADDED", "ADDED", "BOOKMARK"]
            assert versions == sorted(versions)

    in_test_environment(story)


@pytest.mark.parametrize("kind", ["PartialObjectMetadata", "Table"])
def test_watch_supports_metadata_and_tables(kind):
    async def story(harness: WatchHarness) -> None:
        sink = await harness.watch("", accept=f"application/json;as={kind};v=v1;g=meta.k8s.io")
        await harness.make("a")
        await harness.make("b")
        await harness.loop.settle()
        assert [event["object"]["kind"] for event in sink.events] == [kind, kind]
        if kind == "Table":
            assert [bool(event["object"]["columnDefinitions"]) for event in sink.events] == [True, False]

    in_test_environment(story)


def test_others_are_served_while_a_watch_begins_with_many_objects() -> None:
    async def story(harness: WatchHarness) -> None:
        for number in range(450):
            await harness.make(f"m{number:03}")
        response = await harness.ask("GET", f"{CONFIG_MAPS}?watch=1")
        assert isinstance(response, StreamResponse)
        sink = MemoryStream()
        harness.tasks.append(asyncio.create_task(response.run(sink)))
        while not sink.events:  # noqa: ASYNC110  # the turn of the loop is what is tested
            await asyncio.sleep(0)
        assert len(sink.events) == 200
        await harness.make("later")  # belongs to the watch, once
        await harness.loop.settle()
        assert len(sink.events) == 451
        assert sink.seen[-1] == ("ADDED", "later")

    in_test_environment(story)
