# SPDX-License-Identifier: Apache-2.0
"""Tests of cached managedFields: equal to those computed without the cache."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.apiserver.registry.field_manager import _CreateFieldsCache, _has_fixed_schema

KINDS = {(one.group, one.plural): one for one in RESOURCES if one.version == "v1"}
EVENTS = KINDS["", "events"]


def owned(cache: _CreateFieldsCache, resource: Resource, plain: dict[str, Any]) -> list[bytes]:
    obj = codec.from_plain(plain, resource.type)
    fields = cache.owned_fields(obj, resource, "tester", None)
    return [] if fields is None else [bytes(fields)]


CACHE = _CreateFieldsCache(max_entries=1000)

few = st.sampled_from(["", "a", "b"])
references = st.fixed_dictionaries({}, optional=dict.fromkeys(("kind", "name", "namespace", "uid", "fieldPath"), few))
events = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": few}, optional={"generateName": few, "labels": st.just({"l": "1"})})},
    optional={
        "reason": few,
        "message": few,
        "type": few,
        "count": st.integers(0, 2),
        "involvedObject": references,
        "related": references,
        "source": st.fixed_dictionaries({}, optional={"component": few, "host": few}),
        "series": st.fixed_dictionaries({}, optional={"count": st.integers(0, 1)}),
        "eventTime": st.sampled_from([None, "2030-01-01T00:00:00.000000Z"]),
        "firstTimestamp": st.sampled_from([None, "2030-01-01T00:00:00Z"]),
        "reportingComponent": few,
    },
)


@given(events)
def test_cached_managed_fields_equal_computed_ones(plain: dict[str, Any]) -> None:
    assert owned(CACHE, EVENTS, plain) == owned(_CreateFieldsCache(max_entries=1), EVENTS, plain)


def test_objects_of_one_template_have_correct_managed_fields() -> None:
    pod = {
        "metadata": {"generateName": "web-", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    cache, pods = _CreateFieldsCache(max_entries=10), KINDS["", "pods"]
    first = owned(cache, pods, pod)
    assert first == owned(cache, pods, pod) == owned(_CreateFieldsCache(1), pods, pod)
    other = {**pod, "metadata": {"generateName": "web-"}}
    assert owned(cache, pods, other) != first


@pytest.mark.parametrize(
    ("group", "plural", "plain"),
    [
        ("", "events", True),
        ("events.k8s.io", "events", True),
        ("", "pods", False),
        ("", "configmaps", False),
        ("", "secrets", False),
        ("apps", "controllerrevisions", False),
    ],
)
def test_only_kinds_without_lists_and_maps_are_cached_by_outline(group: str, plural: str, plain: bool) -> None:
    assert _has_fixed_schema(KINDS[group, plural]) is plain
