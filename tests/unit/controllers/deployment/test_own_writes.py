"""A loop reads its own writes."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.controllers.deployment.own_writes import WriteOverlay


class FakeCache:
    def __init__(self, version: str) -> None:
        self.version = version


def at(version: int, name: str = "a") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="n", resource_version=str(version)))


def test_own_write_stands_for_the_cached_object_until_the_cache_has_it() -> None:
    cache = FakeCache("5")
    own: WriteOverlay[str] = WriteOverlay(cache)
    own.note("g", at(7))
    assert own.over("g", [at(5)]) == [at(7)]
    assert own.over("other", [at(5)]) == [at(5)]
    cache.version = "7"
    assert own.over("g", [at(7)]) == [at(7)]
    cache.version = "9"
    assert own.over("g", [at(8)]) == [at(8)]


def test_what_the_cache_does_not_show_yet_is_there_and_gone_once_it_could() -> None:
    cache = FakeCache("5")
    own: WriteOverlay[str] = WriteOverlay(cache)
    own.note("g", at(7, "new"))
    assert own.over("g", [at(3)]) == [at(3), at(7, "new")]
    cache.version = "8"  # it was seen, and deleted since
    assert own.over("g", [at(3)]) == [at(3)]


def test_old_answers_and_forgotten_groups_leave_nothing() -> None:
    own: WriteOverlay[str] = WriteOverlay(FakeCache("5"))
    own.note("g", at(4))
    assert own.over("g", []) == []
    own.note("g", at(9))
    own.forget("g")
    assert own.over("g", []) == []


def test_versions_that_are_no_numbers_are_not_compared() -> None:
    own: WriteOverlay[str] = WriteOverlay(FakeCache("abc"))
    own.note("g", at(9))
    assert own.over("g", [at(3)]) == [at(3)]
