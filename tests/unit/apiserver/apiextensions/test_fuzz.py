# SPDX-License-Identifier: Apache-2.0
"""Property tests: any schema and object is rejected or accepted, and the server continues."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.apiserver.apiextensions.conftest import DEFINITIONS, THINGS, definition, fields, thing, version
from tests.unit.apiserver.conftest import Api, ManualClock

NAMES = st.sampled_from(["a", "b", "kind", "metadata", "status", "spec"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)
RULES = [
    "true",
    "self == oldSelf",
    "self.a == 1",
    "has(self.b)",
    "self.all(x, x)",
    "size(self) > 1",
    "self > 1",
    "(",
    "",
]
LIMITS = {
    "nullable": st.booleans(),
    "default": VALUES,
    "enum": st.lists(VALUES, max_size=2),
    "pattern": st.sampled_from(["^a", "[", "(?i)b", r"\d+", "a{2,1}", "(?P<n>x)"]),
    "format": st.sampled_from(["int32", "date-time", "ipv4", "byte", "odd"]),
    "minimum": st.integers(-1, 3),
    "multipleOf": st.integers(0, 3),
    "maxLength": st.integers(0, 2),
    "maxItems": st.integers(0, 2),
    "x-kubernetes-preserve-unknown-fields": st.just(True),
    "x-kubernetes-int-or-string": st.booleans(),
    "x-kubernetes-embedded-resource": st.booleans(),
    "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic", "odd"]),
    "x-kubernetes-list-map-keys": st.lists(NAMES, max_size=2),
    "x-kubernetes-map-type": st.sampled_from(["atomic", "granular"]),
    "required": st.lists(NAMES, max_size=2),
    "x-kubernetes-validations": st.lists(
        st.fixed_dictionaries(
            {"rule": st.sampled_from(RULES)},
            optional={
                "message": st.text(max_size=2),
                "messageExpression": st.sampled_from(["'a'", "string(self)", "1", "("]),
                "reason": st.sampled_from(["FieldValueForbidden", "Odd"]),
                "fieldPath": st.sampled_from([".a", "['a']", ".", "a"]),
                "optionalOldSelf": st.booleans(),
            },
        ),
        max_size=2,
    ),
}
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "odd"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional={"type": TYPES, **LIMITS}),
    lambda inner: st.fixed_dictionaries(
        {"type": TYPES},
        optional={
            **LIMITS,
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "additionalProperties": inner | st.booleans(),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "not": inner,
        },
    ),
    max_leaves=6,
)
LENIENT = st.recursive(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "boolean"])}),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)}),
        st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": inner}),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"type": st.just("object"), "x-kubernetes-preserve-unknown-fields": st.just(True)}),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(SCHEMAS | LENIENT, st.lists(VALUES, min_size=1, max_size=3))
def test_arbitrary_input_causes_no_server_error(schema: dict[str, Any], specs: list[Any]) -> None:
    with asyncio.Runner() as runner:
        api = Api(runner, ManualClock())
        made = api.post(DEFINITIONS, definition(version(schema={"properties": {"spec": schema}})))
        assert made.status in (201, 400, 422), made.body
        if made.status != 201:
            return
        for index, spec in enumerate(specs):
            answer = api.post(THINGS, thing(f"t{index}", spec=spec))
            assert answer.status in (201, 400, 422), answer.body
            if answer.status == 201:
                assert api.get(f"{THINGS}/t{index}").body == answer.body
                applied = api.patch(
                    "apply", f"{THINGS}/t{index}?fieldManager=m&force=true", thing(f"t{index}", spec=spec)
                )
                assert applied.status != 404
        assert api.get(THINGS).status == 200


@pytest.mark.parametrize("times", [151, 500, 5000])
def test_too_deep_object_is_rejected(api, install, times) -> None:
    install()
    deep = b'{"a":' * times + b"1" + b"}" * times
    head = b'{"apiVersion":"example.org/v1","kind":"Thing","metadata":{"name":"t"},"spec":'
    answer = api.post(THINGS, head + deep + b"}")
    assert answer.status == 400
    assert "exceeded max depth" in answer.body["message"]


@pytest.mark.parametrize("times", [101, 400, 1000])
def test_too_deep_schema_is_rejected(api, times) -> None:
    deep = '{"type":"object","properties":{"a":' * times + '{"type":"string"}' + "}}" * times
    body = json.dumps(definition(version(schema={"properties": {"spec": "HERE"}}))).replace('"HERE"', deep)
    assert api.post(DEFINITIONS, body.encode()).status in (400, 422)


def test_large_object_is_accepted(api, install) -> None:
    install(version(schema=fields(l={"type": "array", "items": {"type": "string"}})))
    made = api.post(THINGS, thing("t", spec={"l": ["x" * 100] * 10_000}))
    assert made.status == 201
    assert len(made.body["spec"]["l"]) == 10_000


def test_expensive_rules_do_not_block_other_requests(api, install) -> None:
    numbers = {"type": "array", "maxItems": 300, "items": {"type": "integer"}}
    rules = [{"rule": "self.all(x, self.all(y, x + y >= 0))"}]
    install(version(schema=fields(l={**numbers, "x-kubernetes-validations": rules})))
    api.server.worker_thread.start()

    async def both() -> tuple[Any, Any, bool]:
        dear = asyncio.ensure_future(api._answer("POST", THINGS, thing("t", spec={"l": list(range(300))}), {}))
        await asyncio.sleep(0)
        read = await api._answer("GET", THINGS, None, {})
        came_first = not dear.done()
        return read, await dear, came_first

    read, made, came_first = api._runner.run(both())
    api.server.worker_thread.close()
    assert (read.status, made.status, came_first) == (200, 201, True)


def test_large_invalid_object_is_rejected_with_the_first_errors(api, install) -> None:
    row = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}
    install(version(schema=fields(l={"type": "array", "items": row})))
    api.server.worker_thread.start()
    refused = api.post(THINGS, thing("t", spec={"l": [{"a": 1}] * 20_000}))
    api.server.worker_thread.close()
    assert refused.status == 422
    assert 1000 <= len(refused.body["details"]["causes"]) <= 1002


def test_unknown_field_warnings_are_limited(api, install) -> None:
    install(version(schema=fields(l={"type": "array", "items": {"type": "object"}})))
    body = thing("t", spec={"l": [{"a": 1}] * 5000})
    made = api.post(f"{THINGS}?fieldValidation=Warn", body)
    assert made.status == 201
    assert made.body["spec"]["l"] == [{}] * 5000


def test_unservable_definition_does_not_affect_others(api, install) -> None:
    key = "/registry/apiextensions.k8s.io/customresourcedefinitions/odd.example.org"
    head = b'{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1"'
    odd = head + b',"metadata":{"name":"odd.example.org"},"spec":{"group":"example.org","versions":[]}}'

    async def write() -> None:
        await api.store.write(key, odd, 0)

    api._runner.run(write())
    install()
    assert api.post(THINGS, thing("t")).status == 201
