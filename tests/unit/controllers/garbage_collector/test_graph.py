# SPDX-License-Identifier: Apache-2.0
"""Tests of the graph of owners: enqueued objects, and the cache of absent owners."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.garbage_collector.graph import AbsentOwnerCache, GraphNode, OwnershipGraph
from kubeloop.controllers.garbage_collector.identity import ObjectIdentity, alternative_identity
from kubeloop.runtime.causes.cause import Origins

NOW = Time("2026-01-01T00:00:00Z")


class RecordingQueue:
    """Records the objects enqueued by a graph."""

    def __init__(self) -> None:
        self.examined: list[str] = []
        self.later: list[str] = []
        self.orphaned: list[str] = []
        self.reported: list[tuple[str, str]] = []

    def attempt_to_delete(self, node: GraphNode, origins: Origins = ()) -> None:
        self.examined.append(node.identity.name)

    def attempt_to_delete_later(self, node: GraphNode) -> None:
        self.later.append(node.identity.kind)

    def attempt_to_orphan(self, node: GraphNode, origins: Origins = ()) -> None:
        self.orphaned.append(node.identity.name)

    def report_invalid_namespace(self, dependent: GraphNode, reference: OwnerReference) -> None:
        self.reported.append((dependent.identity.name, reference.name))

    def taken(self) -> list[str]:
        examined, self.examined = self.examined, []
        return examined


class GraphHarness:
    def __init__(self) -> None:
        self.asked = RecordingQueue()
        self.absent = AbsentOwnerCache()
        self.graph = OwnershipGraph(self.asked, self.absent)

    def put(self, name: str, *owners: OwnerReference, finalizers: tuple[str, ...] = (), going: bool = False) -> None:
        meta = ObjectMeta(
            name=name,
            namespace="ns",
            uid=name,
            owner_references=owners,
            finalizers=finalizers,
            deletion_timestamp=NOW if going else None,
        )
        self.graph.observe(thing(name), meta)

    def is_observed(self, uid: str) -> bool | None:
        node = self.graph.get(uid)
        return None if node is None else node.observed


def thing(name: str, **other: Any) -> ObjectIdentity:
    return ObjectIdentity("Thing", "v1", "ns", name, name)._replace(**other)


def to(name: str, *, block: bool = False, **other: Any) -> OwnerReference:
    fields = {"api_version": "v1", "kind": "Thing", "name": name, "uid": name, "block_owner_deletion": block, **other}
    return OwnerReference(**fields)


def test_unobserved_owner_is_looked_up() -> None:
    harness = GraphHarness()
    harness.put("child", to("owner"))
    assert harness.asked.taken() == ["owner"]
    assert harness.is_observed("owner") is False
    harness.put("owner")
    assert harness.is_observed("owner") is True
    assert harness.asked.taken() == []


def test_unreferenced_owner_is_forgotten() -> None:
    harness = GraphHarness()
    harness.put("child", to("owner"))
    harness.put("child")
    assert harness.graph.get("owner") is None


def test_deleted_owner_enqueues_dependents_and_is_cached_as_absent() -> None:
    harness = GraphHarness()
    harness.put("owner")
    harness.put("child", to("owner"))
    harness.put("other")
    harness.graph.remove(thing("owner"))
    assert harness.asked.taken() == ["child"]
    assert thing("owner") in harness.absent
    harness.graph.remove(thing("other"))
    assert thing("other") not in harness.absent


def test_waiting_owner_is_enqueued_after_its_last_blocking_dependent() -> None:
    harness = GraphHarness()
    harness.put("owner")
    for name in ("a", "b"):
        harness.put(name, to("owner", block=True))
    harness.put("free", to("owner"))
    harness.put("owner", finalizers=("foregroundDeletion",), going=True)
    assert harness.asked.taken() == ["a", "b", "free", "owner"]
    harness.graph.remove(thing("a"))
    harness.graph.remove(thing("free"))
    assert harness.asked.taken() == []
    harness.put("b", to("owner"))
    assert harness.asked.taken() == ["owner"]


def test_orphaning_takes_precedence() -> None:
    harness = GraphHarness()
    harness.put("owner", finalizers=("orphan", "foregroundDeletion"), going=True)
    assert harness.asked.orphaned == ["owner"]
    assert harness.asked.taken() == []
    harness.put("owner", finalizers=("foregroundDeletion",), going=True)
    assert harness.asked.taken() == ["owner"]


def test_finalizer_without_deletion_has_no_effect() -> None:
    harness = GraphHarness()
    harness.put("owner", finalizers=("orphan", "foregroundDeletion"))
    assert (harness.asked.orphaned, harness.asked.taken()) == ([], [])


def test_mismatched_reference_to_a_known_owner_is_verified() -> None:
    harness = GraphHarness()
    harness.put("owner")
    harness.put("good", to("owner"))
    harness.put("bad", to("owner", kind="Other"))
    assert harness.asked.taken() == ["bad"]


def test_reference_into_another_namespace_is_reported() -> None:
    harness = GraphHarness()
    harness.put("owner")
    meta = ObjectMeta(name="child", namespace="far", uid="child", owner_references=(to("owner"),))
    harness.graph.observe(thing("child", namespace="far"), meta)
    assert harness.asked.reported == [("child", "owner")]
    assert harness.asked.taken() == ["child"]


def test_observed_owner_enqueues_dependents_with_mismatched_references() -> None:
    harness = GraphHarness()
    harness.put("bad", to("owner", kind="Other"))
    harness.asked.taken()
    harness.put("owner")
    assert harness.asked.taken() == ["bad"]


def test_mismatched_reference_does_not_exclude_another() -> None:
    harness = GraphHarness()
    harness.put("one", to("owner", kind="A"))
    harness.put("two", to("owner", kind="B"))
    harness.asked.taken()
    harness.graph.handle_absent(thing("owner", kind="A"))
    assert harness.asked.taken() == ["one"]
    assert harness.asked.later == ["B"]
    harness.graph.remove(thing("one"))
    harness.graph.handle_absent(thing("owner", kind="B"))
    assert harness.asked.taken() == ["two"]
    assert harness.graph.get("owner") is None


def test_absent_mismatched_reference_does_not_remove_an_observed_owner() -> None:
    harness = GraphHarness()
    harness.put("owner")
    harness.put("bad", to("owner", kind="Other"))
    harness.asked.taken()
    harness.graph.handle_absent(thing("owner", kind="Other"))
    assert harness.graph.get("owner") is not None
    assert harness.asked.taken() == ["bad"]


def test_unwatched_kind_makes_owners_unverified() -> None:
    harness = GraphHarness()
    harness.put("owner")
    harness.put("child", to("owner"))
    harness.put("lone")
    for uid in ("owner", "lone", "unknown"):
        harness.graph.mark_unobserved(uid)
    assert harness.asked.taken() == ["owner"]
    assert harness.graph.get("lone") is None
    assert thing("owner") not in harness.absent


def test_dependent_with_a_corrected_reference_is_enqueued() -> None:
    harness = GraphHarness()
    harness.put("child", to("owner", kind="Other"))
    harness.graph.handle_absent(thing("owner", kind="Other"))
    harness.put("owner")
    harness.put("child", to("owner"))
    harness.asked.taken()
    harness.graph.remove(thing("owner"))
    assert harness.asked.taken() == ["child"]


def test_deleted_owner_is_forgotten_with_its_last_dependent() -> None:
    harness = GraphHarness()
    harness.put("child", to("owner", block=True))
    harness.graph.remove(thing("owner"))
    harness.graph.remove(thing("child"))
    harness.put("owner")
    owner = harness.graph.get("owner")
    assert owner is not None
    assert (owner.dependents, owner.blockers) == ({}, set())


def test_alternative_references_are_tried_in_rotation() -> None:
    nodes = []
    for number, kind in enumerate("ABC"):
        node = GraphNode(thing(f"child-{number}"), observed=True)
        node.owners = (to("owner", kind=kind),)
        nodes.append(node)
    tried = [thing("owner", kind="A")]
    for _ in range(3):
        found = alternative_identity(nodes, tried[-1])
        assert found is not None
        tried.append(found)
    assert [one.kind for one in tried] == ["A", "B", "C", "A"]
    assert alternative_identity(nodes[:1], tried[0]) is None


def test_cluster_scoped_owner_is_not_looked_up_in_namespaces() -> None:
    node = GraphNode(thing("child"), observed=True)
    node.owners = (to("another", uid="owner"),)
    found = alternative_identity([node], thing("owner", namespace=""))
    assert found == thing("owner", namespace="")._replace(name="another")


def test_absent_owner_cache_is_bounded() -> None:
    absent = AbsentOwnerCache(room=2)
    for name in ("a", "b"):
        absent.add(thing(name))
    assert thing("a") in absent
    absent.add(thing("c"))
    assert [thing(name) in absent for name in "abc"] == [True, False, True]


NAMES = st.sampled_from("abcdef")
REFERENCES = st.lists(st.builds(to, NAMES, block=st.booleans()), max_size=3).map(tuple)
CHANGES = st.lists(st.tuples(NAMES, st.none() | REFERENCES), max_size=30)


@settings(max_examples=150, deadline=None)
@example(changes=[("b", (to("a"),)), ("a", None), ("a", ()), ("b", (to("a", block=True),))])
@example(changes=[("b", (to("a"),)), ("a", None), ("c", (to("a"),))])
@given(CHANGES)
def test_links_match_references(changes: list[tuple[str, tuple[OwnerReference, ...] | None]]) -> None:
    harness, there = GraphHarness(), dict[str, tuple[OwnerReference, ...]]()
    for name, owners in changes:
        if owners is None:
            harness.graph.remove(thing(name))
            there.pop(name, None)
        else:
            harness.put(name, *owners)
            there[name] = owners
    for name in "abcdef":
        node = harness.graph.get(name)
        assert (node is not None and node.observed) == (name in there)
        if node is not None:
            said = {child for child, owners in there.items() if any(one.uid == name for one in owners)}
            assert node.dependents.keys() == said
            blocking = {
                child
                for child in node.dependents
                if child != name and any(one.uid == name and one.block_owner_deletion for one in there[child])
            }
            assert node.blockers == blocking
