"""Who owns what of a new object is worked out once for all that look alike, and comes out the same as without that."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.apiserver.registry.field_manager import _CreateFieldsCache, _has_fixed_field_names
from kubeloop.apiserver.request.context import RequestContext, User
from kubeloop.apiserver.request.negotiation import PLAIN
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import Target
from kubeloop.http import Request

KINDS = {(one.group, one.plural): one for one in RESOURCES if one.version == "v1"}
EVENTS = KINDS["", "events"]


def context(resource: Resource, body: bytes = b"", typed: bool = False) -> RequestContext:
    request = Request("POST", "", "", {"user-agent": "tester/1"})
    request.body = body
    now = datetime(2030, 1, 1, tzinfo=UTC)
    ctx = RequestContext(request, Target(resource, "create", "default", "", ""), Query(""), User("u"), PLAIN, now)
    ctx.has_typed_body = typed
    return ctx


def owned(fresh: _CreateFieldsCache, resource: Resource, plain: dict[str, Any], typed: bool = False) -> list[bytes]:
    obj = codec.from_plain(plain, resource.type)
    fresh.track(obj, resource, context(resource, codec.encode(plain), typed), None)
    return [bytes(entry.fields_v1) for entry in obj.metadata.managed_fields]


REMEMBERING = _CreateFieldsCache(remembered=1000)

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
def test_events_that_set_the_same_fields_are_owned_alike(plain: dict[str, Any]) -> None:
    assert owned(REMEMBERING, EVENTS, plain) == owned(_CreateFieldsCache(remembered=1), EVENTS, plain)


def test_what_a_loop_makes_from_one_template_is_owned_as_anything_else() -> None:
    pod = {
        "metadata": {"generateName": "web-", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    fresh = _CreateFieldsCache(remembered=10)
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
def test_only_kinds_without_lists_and_maps_are_known_by_their_outline(group: str, plural: str, plain: bool) -> None:
    assert _has_fixed_field_names(KINDS[group, plural]) is plain
