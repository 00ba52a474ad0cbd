# SPDX-License-Identifier: Apache-2.0
"""The newer of the informer's object and the one that a write returned counts."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.clock import SystemClock
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.list_watch import ResourceSelection
from kubeloop.runtime.objects.keys import ObjectKey
from tests.unit.runtime.in_process_server import resource
from tests.unit.runtime.scripted_server import ScriptedSource, bookmark, event

COLOR = "color"


def color_of(obj: Any) -> tuple[str, ...]:
    return (obj.metadata.labels.get(COLOR, "none"),)


def at(version: int | str, name: str = "a", color: str = "red") -> ConfigMap:
    return ConfigMap(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=name, resource_version=str(version), labels={COLOR: color}
        )
    )


def informer_with(*objects: ConfigMap, version: str = "5") -> Informer:
    informer = Informer(ScriptedSource(), ResourceSelection(resource("configmaps")), SystemClock())
    informer.add_indexer(COLOR, color_of)
    informer.replace(objects, version)
    return informer


def test_assumed_object_is_used_until_the_informer_catches_up() -> None:
    informer = informer_with(at(5))
    cache = AssumeCache(informer)
    assert cache.get("default", "a") == at(5)
    assert cache.assume(at(7)) == at(7)
    assert cache.get("default", "a") == at(7)
    assert cache.get("default", "b") is None
    informer.replace([at(8, color="blue")], "9")
    assert cache.get("default", "a") == at(8, color="blue")


def test_created_object_exists_until_the_informer_catches_up() -> None:
    informer = informer_with()
    cache = AssumeCache(informer)
    cache.assume(at(7))
    assert cache.get("default", "a") == at(7)
    informer.apply([bookmark(8)])  # it was deleted meanwhile
    assert cache.get("default", "a") is None


def test_older_response_is_not_assumed() -> None:
    cache = AssumeCache(informer_with(at(3)))
    assert cache.assume(at(4, color="old")) == at(4, color="old")
    assert cache.get("default", "a") == at(3)
    cache.assume(at(9))
    cache.assume(at(8, color="late"))
    assert cache.get("default", "a") == at(9)


def test_restore_reverts_to_the_informers_object() -> None:
    cache = AssumeCache(informer_with(at(5)))
    cache.assume(at(7))
    cache.restore(ObjectKey("default", "a"))
    assert cache.get("default", "a") == at(5)


def test_index_includes_assumed_objects() -> None:
    informer = informer_with(at(1), at(2, "b"), at(3, "c", "blue"))
    cache = AssumeCache(informer)
    assert cache.by_index(COLOR, "red") == [at(1), at(2, "b")]
    cache.assume(at(6, "a", "green"))  # listed where the informer shows it, and by its newest value
    cache.assume(at(7, "new"))
    cache.assume(at(8, "c", "red"))
    assert cache.by_index(COLOR, "red") == [at(6, "a", "green"), at(2, "b"), at(7, "new"), at(8, "c", "red")]
    assert cache.by_index(COLOR, "green") == [at(6, "a", "green")]
    informer.apply([bookmark(9)])
    assert cache.by_index(COLOR, "red") == [at(1), at(2, "b")]


def test_non_numeric_versions_are_not_compared() -> None:
    cache = AssumeCache(informer_with(at("x"), version="abc"))
    cache.assume(at("y"))
    assert cache.get("default", "a") == at("x")


def test_handler_reports_writes_and_events_without_deleted_objects() -> None:
    informer = informer_with()
    seen: list[tuple[str, bool]] = []
    cache = AssumeCache(informer, lambda key: seen.append((key.name, cache.get(*key) is not None)))
    informer.add_handler(cache)
    cache.assume(at(7))
    informer.apply([event("ADDED", "a", 7), event("DELETED", "a", 8)])
    informer.apply([event("ADDED", "b", 9), event("MODIFIED", "b", 10)])
    assert seen == [("a", True), ("a", True), ("a", False), ("b", True), ("b", True)]
