# SPDX-License-Identifier: Apache-2.0
"""Revisions as data: what they hold, how they are called and counted, and which of them are kept."""

from __future__ import annotations

import pytest
from msgspec import Raw

from kubeloop.api.generated.apps_v1 import ControllerRevision
from kubeloop.api.generated.core_v1 import PodTemplateSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.shared.ownership.controller_revisions import (
    RevisionTemplateCache,
    UnreadableRevision,
    next_number,
    revision_data,
    revision_hash,
    revision_name,
    revisions_to_truncate,
    sort_revisions,
    template_of_revision,
)
from kubeloop.controllers.shared.ownership.template_hash import safe_text
from kubeloop.testing import container, stateful_set


def template(image: str = "x", **fields: object) -> PodTemplateSpec:
    return stateful_set(image=image, **fields).spec.template  # type: ignore[arg-type]


def revision(
    name: str, number: int = 1, *, data: bytes = b"{}", age: str = "2026-01-01T00:00:00Z"
) -> ControllerRevision:
    meta = ObjectMeta(name=name, uid=name, resource_version="1", creation_timestamp=Time(age))
    return ControllerRevision(metadata=meta, data=Raw(data), revision=number)


def test_data_is_a_patch_that_replaces_the_template_with_sorted_keys() -> None:
    expected = (
        b'{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"app"}},'
        b'"spec":{"containers":[{"image":"x","name":"app","resources":{}}]}}}}'
    )
    assert revision_data(template()) == expected


def test_data_is_escaped_like_go() -> None:
    dangerous = stateful_set().spec.template
    with_arguments = container(args=("<&>\u2028",))
    spec = type(dangerous.spec)(containers=(with_arguments,))
    data = revision_data(PodTemplateSpec(metadata=dangerous.metadata, spec=spec))
    assert b'"args":["\\u003c\\u0026\\u003e\\u2028"]' in data


@pytest.mark.parametrize(("data", "number"), [(b"", 0x811C9DC5), (b"a", 0x050C5D7E), (b"foobar", 0x31F0B262)])
def test_hash_is_fnv_1_of_32_bits(data: bytes, number: int) -> None:
    assert revision_hash(data) == safe_text(number)


def test_collision_count_changes_the_hash() -> None:
    assert len({revision_hash(b"x"), revision_hash(b"x", 0), revision_hash(b"x", 1)}) == 3
    assert revision_hash(b"x", 12) == revision_hash(b"x12")


def test_name_is_truncated_for_the_hash() -> None:
    assert revision_name("web", "abc") == "web-abc"
    assert len(revision_name("w" * 253, "0123456789")) == 234


def test_template_round_trips_with_server_defaults() -> None:
    found = template_of_revision(revision("a", data=revision_data(template())))
    assert found.spec.restart_policy == "Always"
    assert found.metadata.labels == {"app": "app"}


@pytest.mark.parametrize("data", [b"null", b"{}", b'{"spec":{"template":5}}', b'{"spec":{"template":{"spec":[]}}}'])
def test_invalid_data_is_reported_and_equals_nothing(data: bytes) -> None:
    with pytest.raises(UnreadableRevision, match="a contains no pod template"):
        template_of_revision(revision("a", data=data))
    assert not RevisionTemplateCache().is_equal(revision("a", data=data), revision_data(template()))


def test_revisions_are_equal_if_their_templates_are() -> None:
    complete = revision_data(template_of_revision(revision("a", data=revision_data(template()))))
    assert RevisionTemplateCache().is_equal(revision("a", data=revision_data(template())), complete)
    assert not RevisionTemplateCache().is_equal(revision("b", data=revision_data(template("y"))), complete)


def test_revisions_are_sorted_by_number_age_and_name() -> None:
    early, late = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    given = [revision("d", 2), revision("c", 1, age=late), revision("b", 1, age=early), revision("a", 1, age=late)]
    assert [one.metadata.name for one in sort_revisions(given)] == ["b", "a", "c", "d"]


def test_next_number_follows_the_highest() -> None:
    assert next_number([]) == 1
    assert next_number([revision("a", 3), revision("b", 7)]) == 8


@pytest.mark.parametrize(
    ("limit", "live", "gone"),
    [
        (2, [], ["r1", "r2"]),
        (2, ["r1"], ["r2"]),
        (0, ["r4"], ["r1", "r2", "r3"]),
        (10, [], []),
        (None, [], []),
        (-1, [], []),
    ],
)
def test_oldest_unused_revisions_beyond_the_limit_are_deleted(
    limit: int | None, live: list[str], gone: list[str]
) -> None:
    given = [revision(f"r{number}", number) for number in range(1, 5)]
    assert [one.metadata.name for one in revisions_to_truncate(given, live, limit)] == gone
