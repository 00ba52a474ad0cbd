# SPDX-License-Identifier: Apache-2.0
"""Property tests of apply and ownership."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.apply.change import ManagedWrite
from kubeloop.api.apply.field_trees import tree_of_new
from kubeloop.api.apply.fields import fieldset
from kubeloop.api.apply.fields.compare import compare
from kubeloop.api.apply.fields.field_owners import NEVER_OWNED, update_field_owners
from kubeloop.api.apply.fields.managed_fields_entries import ManagedFieldsEntry
from kubeloop.api.apply.merge import applied_fields
from kubeloop.api.apply.server_side import apply
from kubeloop.api.apply.shape import shape_of
from kubeloop.api.apply.validate import iter_schema_errors
from kubeloop.api.schema import SchemaNode

Json = dict[str, Any]

ITEM: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "value": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
NODE = SchemaNode(
    {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "plain": {"type": "array", "items": {"type": "integer"}},
                    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "items": {
                        "type": "array",
                        "items": ITEM,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    },
                    "whole": {**ITEM, "x-kubernetes-map-type": "atomic"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
        },
    },
    {},
)
SHAPE = shape_of(NODE)
few = settings(max_examples=80, deadline=None)

names = st.sampled_from("abc")
small = st.integers(0, 2)
labels = st.dictionaries(names, names, min_size=1, max_size=2)
extras = st.fixed_dictionaries({}, optional={"value": small, "labels": labels})
items = st.dictionaries(names, extras, min_size=1, max_size=3).map(
    lambda found: [{"name": name, **rest} for name, rest in found.items()]
)
scalars = st.one_of(small, st.booleans(), names)
free = st.recursive(scalars, lambda inner: st.dictionaries(names, inner, min_size=1, max_size=2), max_leaves=4)
specs = st.fixed_dictionaries(
    {},
    optional={
        "size": small,
        "plain": st.lists(small, min_size=1, max_size=2),
        "set": st.lists(names, min_size=1, max_size=3, unique=True),
        "items": items,
        "whole": st.builds(lambda name, rest: {"name": name, **rest}, names, extras),
        "free": st.dictionaries(names, free, min_size=1, max_size=2),
    },
)


def thing(spec: Json) -> Json:
    return {"apiVersion": "e.org/v1", "kind": "Thing", "metadata": {"name": "t"}, **({"spec": spec} if spec else {})}


def write_by(manager: str) -> ManagedWrite:
    return ManagedWrite("Thing", "e.org/v1", NODE, manager, "T")


def applied(
    live: Json | None, spec: Json, manager: str, entries: list[ManagedFieldsEntry]
) -> tuple[Json, list[ManagedFieldsEntry]]:
    return apply(live, thing(spec), write_by(manager), entries, force=True)


def updated(
    old: Json | None, new: Json, entries: list[ManagedFieldsEntry], manager: str = "u"
) -> list[ManagedFieldsEntry]:
    return update_field_owners(old, new, write_by(manager), entries)


def owned(entries: list[ManagedFieldsEntry]) -> fieldset.FieldTree:
    found: fieldset.FieldTree = {}
    for entry in entries:
        found = fieldset.union(found, entry["fieldsV1"])
    return found


@few
@given(specs)
def test_generated_configurations_are_valid(spec: Json) -> None:
    assert list(iter_schema_errors(thing(spec), SHAPE)) == []


@few
@given(specs, specs)
def test_apply_is_idempotent(stored: Json, config: Json) -> None:
    live, entries = applied(thing(stored), config, "m", updated(None, thing(stored), []))
    again = applied(live, config, "m", entries)
    assert again[0] is live
    assert again[1] == entries


@few
@given(specs, specs)
def test_apply_results_in_the_applied_configuration(stored: Json, config: Json) -> None:
    live, entries = applied(thing(stored), config, "m", updated(None, thing(stored), []))
    assert compare(thing(config), live, SHAPE).removed == {}
    claimed = fieldset.difference(applied_fields(thing(config), SHAPE), NEVER_OWNED)
    assert next((entry["fieldsV1"] for entry in entries if entry["manager"] == "m"), {}) == claimed


@few
@given(specs, specs)
def test_empty_apply_removes_only_own_fields(stored: Json, config: Json) -> None:
    before = thing(stored)
    live, entries = applied(before, config, "m", updated(None, before, []))
    others = owned([entry for entry in entries if entry["manager"] != "m"])
    left, after = applied(live, {}, "m", entries)
    removed = compare(live, left, SHAPE).removed
    assert all(entry["manager"] != "m" for entry in after)
    assert fieldset.intersection(fieldset.leaves(removed), others) == {}
    assert compare(live, left, SHAPE).changed == {}


@few
@given(specs, specs)
def test_last_forced_applier_wins(first: Json, second: Json) -> None:
    live, entries = applied(None, first, "one", [])
    live, entries = applied(live, second, "two", entries)
    assert compare(thing(second), live, SHAPE).removed == {}


@few
@given(specs)
def test_a_creator_owns_all_leaves(spec: Json) -> None:
    made = thing(spec)
    leaves = fieldset.leaves(fieldset.difference(applied_fields(made, SHAPE), NEVER_OWNED))
    assert fieldset.difference(leaves, owned(updated(None, made, []))) == {}
    assert fieldset.leaves(owned(updated(None, made, []))) == leaves


@few
@given(specs, specs, specs)
def test_exactly_the_leaves_are_owned(a: Json, b: Json, c: Json) -> None:
    entries = updated(None, thing(a), [], "one")
    if not entries:
        return
    for number, (old, new) in enumerate([(a, b), (b, c)]):
        entries = updated(thing(old), thing(new), entries, f"m{number}")
        if not entries:
            return
    leaves = fieldset.leaves(fieldset.difference(applied_fields(thing(c), SHAPE), NEVER_OWNED))
    assert fieldset.difference(leaves, owned(entries)) == {}
    everything = compare(thing({}), thing(c), SHAPE).changed
    assert fieldset.difference(owned(entries), everything) == {}


@few
@given(specs, specs)
def test_nothing_is_mutated_in_place(stored: Json, config: Json) -> None:
    live, wanted = thing(stored), thing(config)
    entries = updated(None, live, [])
    before = deepcopy((live, wanted, entries))
    apply(live, wanted, write_by("m"), entries, force=True)
    updated(live, wanted, entries)
    assert (live, wanted, entries) == before


@few
@given(specs)
def test_create_equals_comparison_with_the_empty_object(spec: Json) -> None:
    assert tree_of_new(thing(spec), SHAPE) == compare({}, thing(spec), SHAPE).changed


@few
@given(specs, specs)
def test_comparison_of_shared_and_copied_values_is_equal(old: Json, new: Json) -> None:
    mixed = {**old, **new}
    assert compare(thing(old), thing(mixed), SHAPE) == compare(deepcopy(thing(old)), deepcopy(thing(mixed)), SHAPE)
