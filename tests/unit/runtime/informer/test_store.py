# SPDX-License-Identifier: Apache-2.0
"""Objects by key and by index."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.unstructured import Unstructured
from kubeloop.runtime.informer.equivalence_groups import GroupKey
from kubeloop.runtime.informer.store import (
    CONTROLLER,
    NODE,
    OWNER,
    Indexer,
    controller_uid_of,
    depends_on,
    node_name_of,
    owner_uids_of,
)
from kubeloop.runtime.objects.keys import ObjectKey


def pod(name: str, namespace: str = "default", node: str = "", owners: tuple[OwnerReference, ...] = ()) -> Pod:
    meta = ObjectMeta(name=name, namespace=namespace, owner_references=owners)
    return Pod(metadata=meta, spec=PodSpec(node_name=node))


def by_namespace_and_node(one: Pod) -> GroupKey | None:
    return GroupKey(one.metadata.namespace, one.spec.node_name) if one.spec.node_name else None


def names(objects: Any) -> list[str]:
    return sorted(one.metadata.name for one in objects)


def test_an_object_is_found_by_namespace_and_name() -> None:
    cache = Indexer()
    one = pod("a")
    assert cache.put(one) is None
    assert cache.get(("default", "a")) is one
    assert cache.get(("other", "a")) is None
    assert len(cache) == 1


def test_newer_object_replaces_the_older_one() -> None:
    cache = Indexer()
    old, new = pod("a"), pod("a", node="n")
    cache.put(old)
    assert cache.put(new) is old
    assert cache.list() == (new,)


def test_removed_object_is_not_found() -> None:
    cache = Indexer()
    cache.put(pod("a"))
    assert cache.remove(ObjectKey("default", "a")) is not None
    assert cache.remove(ObjectKey("default", "a")) is None
    assert cache.list() == cache.list("default") == ()
    assert cache.index_values("namespace") == ()


def test_a_namespace_can_be_listed() -> None:
    cache = Indexer()
    for one in (pod("a"), pod("b", "other"), pod("c")):
        cache.put(one)
    assert names(cache.list("default")) == ["a", "c"]
    assert names(cache.list()) == ["a", "b", "c"]


def test_an_index_follows_changes() -> None:
    cache = Indexer()
    cache.add_indexer(NODE, node_name_of)
    cache.put(pod("a", node="one"))
    cache.put(pod("a", node="two"))
    assert cache.by_index(NODE, "one") == ()
    assert names(cache.by_index(NODE, "two")) == ["a"]


def test_index_added_later_has_existing_objects() -> None:
    cache = Indexer()
    cache.put(pod("a", node="one"))
    cache.add_indexer(NODE, node_name_of)
    assert names(cache.by_index(NODE, "one")) == ["a"]


def test_index_is_reevaluated_only_if_its_part_changes() -> None:
    asked: list[str] = []

    @depends_on(lambda one: one.spec)
    def node_of(one: Pod) -> tuple[str, ...]:
        asked.append(one.spec.node_name)
        return (one.spec.node_name,)

    cache = Indexer()
    cache.add_indexer(NODE, node_of)
    first = pod("a", node="one")
    newer = replace(first, metadata=replace(first.metadata, resource_version="2"))
    cache.put(first)
    cache.put(newer)
    assert asked == ["one"]
    assert cache.by_index(NODE, "one") == (newer,)
    cache.put(pod("a", node="two"))
    assert cache.index_values(NODE) == ("two",)


def test_the_part_of_several_indexes_is_read_once_for_each_state() -> None:
    read: list[str] = []

    def node_part(one: Pod) -> str:
        read.append(one.spec.node_name)
        return one.spec.node_name

    cache = Indexer()
    for name in ("one", "another"):
        cache.add_indexer(name, depends_on(node_part)(lambda one: (one.spec.node_name,)))
    cache.put(pod("a", node="m"))
    cache.put(pod("a", node="n"))
    assert read == ["m", "n"]
    assert cache.index_values("one") == cache.index_values("another") == ("n",)


def test_objects_are_found_by_their_owners_and_by_their_controller() -> None:
    cache = Indexer()
    cache.add_indexer(OWNER, owner_uids_of)
    cache.add_indexer(CONTROLLER, controller_uid_of)
    cache.put(pod("a", owners=(OwnerReference(uid="1"), OwnerReference(uid="2", controller=True))))
    assert names(cache.by_index(OWNER, "1")) == names(cache.by_index(OWNER, "2")) == ["a"]
    assert cache.by_index(CONTROLLER, "1") == ()
    assert names(cache.by_index(CONTROLLER, "2")) == ["a"]


def test_the_same_index_may_be_added_twice_but_not_another_of_its_name() -> None:
    cache = Indexer()
    cache.add_indexer(NODE, node_name_of)
    cache.add_indexer(NODE, node_name_of)
    with pytest.raises(ValueError, match="the index node exists"):
        cache.add_indexer(NODE, owner_uids_of)


def test_an_unknown_index_is_an_error() -> None:
    with pytest.raises(KeyError):
        Indexer().by_index("nope", "x")


def test_failing_index_function_changes_nothing() -> None:
    cache = Indexer()
    cache.add_indexer(NODE, node_name_of)
    first = pod("a", node="one")
    cache.put(first)
    broken = Unstructured({"metadata": {"name": "a", "namespace": "default"}})
    with pytest.raises(AttributeError):
        cache.put(broken)
    assert cache.list() == cache.by_index(NODE, "one") == (first,)


def test_equivalent_objects_are_grouped() -> None:
    cache = Indexer()
    cache.put(pod("a", node="one"))
    cache.add_group_index("nodes", by_namespace_and_node)
    cache.put(pod("b", node="one"))
    cache.put(pod("c", node="two"))
    found = cache.by_group("nodes", "default")
    assert {look: names(alike.values()) for look, alike in found.items()} == {"one": ["a", "b"], "two": ["c"]}
    assert cache.by_group("nodes", "other") == {}


def test_the_same_grouping_may_be_added_twice_but_not_another_of_its_name() -> None:
    cache = Indexer()
    cache.add_group_index("nodes", by_namespace_and_node)
    cache.add_group_index("nodes", by_namespace_and_node)
    with pytest.raises(ValueError, match="the grouping nodes exists"):
        cache.add_group_index("nodes", lambda _: None)


class CacheIsItsModel(RuleBasedStateMachine):
    """Whatever is done, an index gives what a scan of all objects gives."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Indexer()
        self.cache.add_indexer(NODE, node_name_of)
        self.cache.add_indexer("undeclared", lambda one: (one.spec.node_name,))
        self.cache.add_group_index("nodes", by_namespace_and_node)
        self.model: dict[tuple[str, str], Pod] = {}

    @rule(name=st.sampled_from("abc"), namespace=st.sampled_from("xy"), node=st.sampled_from(["", "m", "n"]))
    def put(self, name: str, namespace: str, node: str) -> None:
        one = pod(name, namespace, node)
        assert self.cache.put(one) is self.model.get((namespace, name))
        self.model[namespace, name] = one

    @rule(name=st.sampled_from("abc"), namespace=st.sampled_from("xy"))
    def remove(self, name: str, namespace: str) -> None:
        assert self.cache.remove(ObjectKey(namespace, name)) is self.model.pop((namespace, name), None)

    @invariant()
    def indexes_are_scans(self) -> None:
        assert {id(one) for one in self.cache} == {id(one) for one in self.model.values()}
        for node in ("", "m", "n"):
            expected = {id(one) for one in self.model.values() if node and one.spec.node_name == node}
            assert {id(one) for one in self.cache.by_index(NODE, node)} == expected
            if node:
                assert {id(one) for one in self.cache.by_index("undeclared", node)} == expected
        assert set(self.cache.index_values("namespace")) == {namespace for namespace, _ in self.model}

    @invariant()
    def groupings_are_scans(self) -> None:
        for namespace in ("x", "y"):
            expected: dict[str, set[int]] = {}
            for one in self.model.values():
                if one.metadata.namespace == namespace and one.spec.node_name:
                    expected.setdefault(one.spec.node_name, set()).add(id(one))
            found = self.cache.by_group("nodes", namespace)
            assert {look: set(map(id, alike.values())) for look, alike in found.items()} == expected


TestCacheIsItsModel = CacheIsItsModel.TestCase
TestCacheIsItsModel.settings = settings(max_examples=30, deadline=None)
