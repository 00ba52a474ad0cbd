"""Tests of cached managedFields: equal to those computed without the cache."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.apiserver.registry.field_manager import _CreateFieldsCache, _has_fixed_schema
from kubeloop.apiserver.request.context import InProcessRequest, User
from kubeloop.apiserver.request.negotiation import PLAIN
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import Target
from kubeloop.http import Request

KINDS = {(one.group, one.plural): one for one in RESOURCES if one.version == "v1"}
EVENTS = KINDS["", "events"]


def context(resource: Resource, body: bytes = b"", typed: bool = False) -> InProcessRequest:
    request = Request("POST", "", "", {"user-agent": "tester/1"})
    request.body = body
    now = datetime(2030, 1, 1, tzinfo=UTC)
    target = Target(resource, "create", "default", "", "")
    return InProcessRequest(request, target, Query(""), User("u"), PLAIN, lambda: now, has_typed_body=typed)


def owned(fresh: _CreateFieldsCache, resource: Resource, plain: dict[str, Any], typed: bool = False) -> list[bytes]:
    obj = codec.from_plain(plain, resource.type)
    fresh.set_managed_fields(obj, resource, context(resource, codec.encode(plain), typed), None)
    return [bytes(entry.fields_v1) for entry in obj.metadata.managed_fields]


REMEMBERING = _CreateFieldsCache(max_entries=1000)

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
    assert owned(REMEMBERING, EVENTS, plain) == owned(_CreateFieldsCache(max_entries=1), EVENTS, plain)


def test_objects_of_one_template_have_correct_managed_fields() -> None:
    pod = {
        "metadata": {"generateName": "web-", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    fresh = _CreateFieldsCache(max_entries=10)
    first = owned(fresh, KINDS["", "pods"], pod, typed=True)
    assert (
        first
        == owned(fresh, KINDS["", "pods"], pod, typed=True)
        == owned(_CreateFieldsCache(1), KINDS["", "pods"], pod)
    )
    other = {**pod, "metadata": {"generateName": "web-"}}
    assert owned(fresh, KINDS["", "pods"], other, typed=True) != first


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
