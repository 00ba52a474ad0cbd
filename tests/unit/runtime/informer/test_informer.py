# SPDX-License-Identifier: Apache-2.0
"""Shared informers on a server in process, and on one that follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import ConfigMap, Secret
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.requests import WatchEvent
from kubeloop.api.unstructured import PartialObjectMetadata
from kubeloop.clock import SystemClock
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.informer.event_handlers import DeletedFinalStateUnknown, ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.informer.informer_metrics import InformerMetrics
from kubeloop.runtime.informer.list_watch import ResourceSelection
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from tests.unit.runtime.in_process_server import Server, play, resource
from tests.unit.runtime.scripted_server import ScriptedSource, bookmark, config, event, page

CONFIGS = resource("configmaps")


def fresh(name: str, namespace: str = "default", **labels: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels), data={"k": "v"})


class RecordingHandler:
    """Handler that records its events."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def on_add(self, obj: Any) -> None:
        self.entries.append(f"+{obj.metadata.name}")

    def on_update(self, old: Any, new: Any) -> None:
        self.entries.append(f"={new.metadata.name}" if old is new else f"~{new.metadata.name}")

    def on_delete(self, obj: Any) -> None:
        self.entries.append(f"-{obj.metadata.name}")

    def take(self) -> list[str]:
        taken, self.entries = self.entries, []
        return taken


class TombstoneRecordingHandler(RecordingHandler):
    """Handler that also records missed deletions."""

    def on_missed_delete(self, deleted: DeletedFinalStateUnknown) -> None:
        self.entries.append(f"?{deleted.key}@{deleted.last_known.metadata.resource_version}")


def idle_informer() -> Informer:
    """Informer that is fed by the test."""
    return Informer(ScriptedSource(), ResourceSelection(CONFIGS), SystemClock())


# The cache follows the server


def test_cache_has_the_servers_objects() -> None:
    async def scenario(server: Server) -> None:
        await server.create(CONFIGS, fresh("a"))
        informers = SharedInformerFactory(server.client, server.clock)
        configs = informers.for_resource(CONFIGS)
        assert not configs.has_synced
        informers.start()
        await informers.wait_synced()
        assert configs.has_synced
        first = configs.get("default", "a")
        assert first is not None
        with pytest.raises(AttributeError):
            first.data = {}
        changed = await server.patch(CONFIGS, "default", "a", {"data": {"k": "w"}})
        await server.loop.settle()
        assert configs.get("default", "a").data == {"k": "w"}
        assert configs.version == changed.metadata.resource_version
        await server.delete(CONFIGS, "default", "a")
        await server.loop.settle()
        assert configs.get("default", "a") is None
        await informers.stop()

    play(scenario)


def test_cache_stays_consistent_over_many_watches() -> None:
    async def scenario(server: Server) -> None:
        informers = SharedInformerFactory(server.client, server.clock)
        configs = informers.for_resource(CONFIGS)
        informers.start()
        for hour in range(24):
            await server.loop.advance(3600)
            await server.create(CONFIGS, fresh(f"h{hour}"))
        await server.loop.settle()
        assert len(configs) == 24

    play(scenario)


def test_equal_selections_share_a_cache() -> None:
    async def scenario(server: Server) -> None:
        for one in (fresh("a", color="red"), fresh("b", color="blue"), fresh("c", "other", color="red")):
            await server.create(CONFIGS, one)
        informers = SharedInformerFactory(server.client, server.clock)
        informers.start()
        red, here = (
            informers.for_resource(CONFIGS, labels="color=red"),
            informers.for_resource(CONFIGS, namespace="default"),
        )
        named = informers.for_resource(CONFIGS, fields="metadata.name=b")
        assert informers.for_resource(CONFIGS, labels="color=red") is red
        assert len({id(one) for one in informers}) == 3
        await informers.wait_synced()
        await server.patch(CONFIGS, "default", "a", {"metadata": {"labels": {"color": "blue"}}})
        await server.loop.settle()
        assert [[one.metadata.name for one in informer.list()] for informer in (red, here, named)] == [
            ["c"],
            ["a", "b"],
            ["b"],
        ]

    play(scenario)


def test_unused_cache_is_dropped() -> None:
    async def scenario(server: Server) -> None:
        informers = SharedInformerFactory(server.client, server.clock)
        read, unread = informers.for_resource(CONFIGS), informers.for_resource(CONFIGS, labels="color=red")
        read.add_reader()
        for one in (read, unread):
            one.remove_handler(one.add_handler(ResourceEventHandlerFuncs()))
            informers.release(one)
        assert list(informers) == [read]

    play(scenario)


def test_cache_can_have_metadata_only() -> None:
    async def scenario(server: Server) -> None:
        await server.create(CONFIGS, fresh("a", color="red"))
        informers = SharedInformerFactory(server.client, server.clock)
        informers.start()
        thin, whole = informers.for_resource(CONFIGS, metadata_only=True), informers.for_resource(CONFIGS)
        await informers.wait_synced()
        await server.create(CONFIGS, fresh("b"))
        await server.loop.settle()
        assert thin is not whole
        assert [type(one) for one in thin.list()] == [PartialObjectMetadata, PartialObjectMetadata]
        assert thin.get("default", "a").metadata == whole.get("default", "a").metadata

    play(scenario)


def test_unsynced_informers_are_named_with_the_reason() -> None:
    class BrokenTransport:
        def is_in_process(self, resource: Any) -> bool:
            return False

        async def list(self, *what: Any, **options: Any) -> Any:
            raise errors.service_unavailable("down for lunch")

        async def watch(self, *what: Any, **options: Any) -> Any:
            raise errors.service_unavailable("down for lunch")
            yield  # makes it a generator

    async def scenario(server: Server) -> None:
        informers = SharedInformerFactory(BrokenTransport(), server.clock)
        informers.for_resource(CONFIGS, namespace="x")
        informers.start()
        with pytest.raises(TimeoutError, match=r"not synced: configmaps, in x \(down for lunch\)"):
            await informers.wait_synced(10)
        await informers.stop()

    play(scenario)


# Handlers


def test_handlers_receive_every_change_in_order() -> None:
    async def scenario(server: Server) -> None:
        await server.create(CONFIGS, fresh("a"))
        informers = SharedInformerFactory(server.client, server.clock)
        diary = RecordingHandler()
        registration = informers.for_resource(CONFIGS).add_handler(diary)
        assert not registration.has_synced
        informers.start()
        await registration.wait_synced()
        assert diary.take() == ["+a"]
        await server.patch(CONFIGS, "default", "a", {"data": {"k": "w"}})
        await server.create(CONFIGS, fresh("b"))
        await server.delete(CONFIGS, "default", "a")
        await server.loop.settle()
        assert diary.take() == ["~a", "+b", "-a"]

    play(scenario)


def test_late_handler_gets_the_current_state() -> None:
    informer, diary = idle_informer(), RecordingHandler()
    informer.replace([config("a", 1), config("b", 2)], "5")
    registration = informer.add_handler(diary)
    assert diary.take() == ["+a", "+b"]
    assert registration.has_synced


def test_handlers_of_the_initial_list_see_the_complete_cache() -> None:
    informer = idle_informer()
    sizes: list[int] = []
    informer.add_handler(ResourceEventHandlerFuncs(on_add=lambda _: sizes.append(len(informer))))
    informer.replace([config("a", 1), config("b", 2)], "5")
    assert sizes == [2, 2]


def test_removed_handler_receives_nothing() -> None:
    informer, diary = idle_informer(), RecordingHandler()
    informer.remove_handler(informer.add_handler(diary))
    informer.apply([event("ADDED", "a", 1)])
    assert diary.take() == []


def test_handler_added_by_another_handler_gets_each_object_once() -> None:
    informer, diary = idle_informer(), RecordingHandler()
    informer.add_handler(ResourceEventHandlerFuncs(on_add=lambda _: informer.add_handler(diary)))
    informer.apply([event("ADDED", "a", 1)])
    assert diary.take() == ["+a"]


def test_failing_handler_is_counted_and_isolated() -> None:
    def fail(obj: Any) -> None:
        raise RuntimeError(f"no {obj.metadata.name} please")

    informer, diary = idle_informer(), RecordingHandler()
    registration = informer.add_handler(ResourceEventHandlerFuncs(on_add=fail))
    informer.add_handler(diary)
    informer.apply([event("ADDED", "a", 1), event("ADDED", "b", 2)])
    assert diary.take() == ["+a", "+b"]
    assert registration.errors == 2
    assert str(registration.last_error) == "no b please"


def test_repeated_add_is_an_update_and_unknown_modified_is_an_add() -> None:
    informer, diary = idle_informer(), RecordingHandler()
    informer.add_handler(diary)
    informer.apply([event("MODIFIED", "a", 1), event("ADDED", "a", 2), event("DELETED", "never seen", 3)])
    assert diary.take() == ["+a", "~a"]


def test_deletion_has_the_final_state() -> None:
    informer = idle_informer()
    gone: list[Any] = []
    informer.add_handler(ResourceEventHandlerFuncs(on_delete=gone.append))
    informer.apply([event("ADDED", "a", 1), event("DELETED", "a", 9)])
    assert [one.metadata.resource_version for one in gone] == ["9"]


# Relists


def test_relist_reports_differences_only() -> None:
    informer, diary = idle_informer(), TombstoneRecordingHandler()
    informer.add_handler(diary)
    informer.replace([config("a", 1), config("b", 2), config("c", 3)], "5")
    assert diary.take() == ["+a", "+b", "+c"]
    informer.replace([config("a", 1), config("b", 7), config("d", 8)], "9")
    assert diary.take() == ["?default/c@3", "~b", "+d"]


def test_missed_deletion_reaches_plain_handlers() -> None:
    informer, diary = idle_informer(), RecordingHandler()
    informer.add_handler(diary)
    informer.replace([config("a", 1)], "5")
    informer.replace([], "6")
    assert diary.take() == ["+a", "-a"]


def test_recreated_object_is_deleted_and_added() -> None:
    informer, diary = idle_informer(), TombstoneRecordingHandler()
    informer.add_handler(diary)
    informer.replace([config("a", 1, uid="first")], "5")
    informer.replace([config("a", 9, uid="second")], "9")
    assert diary.take() == ["+a", "?default/a@1", "+a"]
    assert informer.get("default", "a").metadata.uid == "second"


def test_deletion_during_an_outage_is_a_tombstone() -> None:
    async def scenario(server: Server) -> list[str]:
        gone = errors.too_old_resource_version(5, 8)
        source = ScriptedSource(
            [page(5, config("a", 1), config("b", 2)), page(9, config("b", 2))],
            [[errors.bad_request("no streaming")], [gone]],
        )
        informer, diary = Informer(source, ResourceSelection(CONFIGS), server.clock), TombstoneRecordingHandler()
        informer.add_handler(diary)
        task = asyncio.create_task(informer.run())
        await server.loop.advance(2)
        task.cancel()
        return diary.take()

    assert play(scenario) == ["+a", "+b", "?default/a@1"]


# Resync


def test_each_handler_has_its_own_resync_period() -> None:
    async def scenario(server: Server) -> None:
        await server.create(CONFIGS, fresh("a"))
        informers = SharedInformerFactory(server.client, server.clock)
        often, seldom, never = RecordingHandler(), RecordingHandler(), RecordingHandler()
        configs = informers.for_resource(CONFIGS)
        configs.add_handler(often, resync=10)
        configs.add_handler(never)
        informers.start()
        await informers.wait_synced()
        late = configs.add_handler(seldom, resync=25)
        await server.loop.advance(31)
        assert (often.take(), seldom.take(), never.take()) == (["+a", "=a", "=a", "=a"], ["+a", "=a"], ["+a"])
        configs.remove_handler(late)
        await informers.stop()
        await server.loop.advance(100)
        assert (often.take(), seldom.take()) == ([], [])

    play(scenario)


# Transforms


def test_transform_can_reduce_stored_objects() -> None:
    informer, gone = idle_informer(), list[Any]()
    informer.set_transform(lambda obj: msgspec.structs.replace(obj, data={}))
    informer.add_handler(ResourceEventHandlerFuncs(on_delete=gone.append))
    informer.replace([config("a", 1, value="x")], "1")
    informer.apply([event("ADDED", "b", 2, value="x"), event("DELETED", "a", 3, value="x")])
    assert [one.data for one in (*informer.list(), *gone)] == [{}, {}]


def test_transform_cannot_be_set_after_start() -> None:
    informer = idle_informer()
    informer.replace([], "1")
    with pytest.raises(RuntimeError, match="has been started"):
        informer.set_transform(lambda obj: obj)


# Reading one's own writes


def test_write_is_awaited_until_cached() -> None:
    async def scenario(server: Server) -> None:
        informers = SharedInformerFactory(server.client, server.clock)
        configs = informers.for_resource(CONFIGS)
        informers.start()
        await informers.wait_synced()
        made = await server.create(CONFIGS, fresh("a"))
        await configs.wait_for_version(made.metadata.resource_version)
        assert configs.get("default", "a").metadata.uid == made.metadata.uid
        await configs.wait_for_version(made.metadata.resource_version)  # again: it is there already

    play(scenario)


@pytest.mark.parametrize("news", [[event("ADDED", "z", 12)], [bookmark(10)]])
def test_later_events_and_bookmarks_satisfy_the_wait(news: Sequence[WatchEvent]) -> None:
    async def scenario(server: Server) -> None:
        informer = idle_informer()
        waits = [asyncio.create_task(informer.wait_for_version(version)) for version in ("10", "3", "10", "99")]
        await server.loop.settle()
        informer.apply(news)
        await server.loop.settle()
        assert [one.done() for one in waits] == [True, True, True, False]
        await server.loop.advance(31)
        assert isinstance(waits[3].exception(), TimeoutError)

    play(scenario)


def test_stop_releases_waiters() -> None:
    async def scenario(server: Server) -> None:
        informers = SharedInformerFactory(server.client, server.clock)
        configs = informers.for_resource(CONFIGS)
        informers.start()
        wait = asyncio.create_task(configs.wait_for_version("999"))
        await server.loop.settle()
        await informers.stop()
        await server.loop.settle()
        assert wait.cancelled()

    play(scenario)


def test_tombstone_has_the_object_key() -> None:
    assert str(DeletedFinalStateUnknown(ObjectKey("x", "y"), None).key) == "x/y"


# A real history


class StateHandler:
    """Handler that rebuilds the state from its events only."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, Any] = {}

    def on_add(self, obj: Any) -> None:
        assert key_of(obj) not in self.objects, "added twice"
        self.objects[key_of(obj)] = obj

    def on_update(self, old: Any, new: Any) -> None:
        assert self.objects[key_of(old)] is old, "not the state that was told before"
        self.objects[key_of(new)] = new

    def on_delete(self, obj: Any) -> None:
        del self.objects[key_of(obj)]


def test_compacted_history_causes_a_relist_only() -> None:
    async def scenario(server: Server) -> None:
        await server.create(CONFIGS, fresh("a"))
        informers = SharedInformerFactory(server.client, server.clock)
        configs, diary = informers.for_resource(CONFIGS), RecordingHandler()
        configs.add_handler(diary)
        informers.start()
        await informers.wait_synced()
        for number in range(5):
            await server.client.create(Secret(metadata=ObjectMeta(name=f"s{number}", namespace="default")))
        server.store.compact(server.store.revision)
        server.drop_watches(CONFIGS)  # what was last seen of config maps is too old to resume from
        await server.loop.advance(3)
        assert configs.version == str(server.store.revision)
        await server.create(CONFIGS, fresh("b"))
        await server.loop.settle()
        assert diary.take() == ["+a", "+b"]

    play(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_handlers_and_cache_survive_dropped_watches_and_compaction(seed: int) -> None:
    async def scenario(server: Server) -> None:
        chance = server.clock.random()
        informers = SharedInformerFactory(server.client, server.clock)
        configs, mirror = informers.for_resource(CONFIGS), StateHandler()
        registration = configs.add_handler(mirror)
        informers.start()
        for _ in range(150):
            name = f"c{chance.randrange(6)}"
            match chance.randrange(8):
                case 0 | 1 | 2:
                    with suppress(errors.AlreadyExists):
                        await server.create(CONFIGS, fresh(name))
                case 3 | 4:
                    with suppress(errors.NotFound):
                        await server.patch(CONFIGS, "default", name, {"data": {"k": str(chance.random())}})
                case 5:
                    with suppress(errors.NotFound):
                        await server.delete(CONFIGS, "default", name)
                case 6:
                    server.drop_watches(CONFIGS)
                    if chance.random() < 0.5:
                        server.store.compact(server.store.revision)
                case 7:
                    await server.loop.advance(chance.random() * 3)
        await server.loop.advance(100)
        truth = {key_of(one): one for one in (await server.client.list(CONFIGS)).items}
        assert {key_of(one): one for one in configs.list()} == truth
        assert mirror.objects == truth
        assert registration.errors == 0

    play(scenario, seed)


def test_metrics_have_the_version_of_a_cache_and_the_time_of_its_events() -> None:
    async def scenario(server: Server) -> None:
        registry = MetricRegistry()
        informers = SharedInformerFactory(
            server.client, server.clock, metrics=InformerMetrics(registry, "some-component")
        )
        informer = informers.for_resource(CONFIGS)
        labels = 'group="",name="some-component",resource="configmaps",version="v1"'
        assert "informer_store_resource_version" not in registry.render()
        informers.start()
        await informers.wait_synced()
        for name in ("a", "b"):
            made = await server.client.create(fresh(name))
        await informer.wait_for_version(made.metadata.resource_version)
        lines = registry.render().splitlines()
        assert f"informer_store_resource_version{{{labels}}} {made.metadata.resource_version}" in lines
        counted = next(one for one in lines if one.startswith("informer_processing_latency_seconds_count"))
        assert counted == f"informer_processing_latency_seconds_count{{{labels}}} {len(informer)}"
        informers.release(informer)
        assert "informer_store_resource_version" not in registry.render()
        await informers.stop()

    play(scenario)
