# SPDX-License-Identifier: Apache-2.0
"""Tests of the protobuf form of OpenAPI version 2, with an independent decoder."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.nonresource.openapi import OpenAPI, protobuf

Fields = dict[int, list[Any]]


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> Fields:
    """A message's fields by number: integers, or the bytes of texts and messages."""
    found: Fields = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 0:
            found[key >> 3].append(value)
        else:
            assert key & 7 == 2
            assert at + value <= len(data)
            found[key >> 3].append(data[at : at + value])
            at += value
    return found


def named(entries: list[bytes]) -> dict[str, bytes]:
    """Repeated messages of a name and a value."""
    pairs = [fields(entry) for entry in entries]
    return {pair[1][0].decode() if pair[1] else "": pair[2][0] for pair in pairs}


def extensions(entries: list[bytes]) -> dict[str, Any]:
    return {name: json.loads(fields(value)[2][0]) for name, value in named(entries).items()}


def schema(data: bytes) -> dict[str, Any]:
    message = fields(data)
    found: dict[str, Any] = extensions(message[31])
    for number, key in [(1, "$ref"), (2, "format"), (4, "description")]:
        if message[number]:
            found[key] = message[number][0].decode()
    if message[19]:
        found["required"] = [name.decode() for name in message[19]]
    if message[21]:
        (inner,) = message[21]
        found["additionalProperties"] = schema(fields(inner)[1][0]) if fields(inner)[1] else True
    if message[22]:
        found["type"] = fields(message[22][0])[1][0].decode()
    if message[23]:
        found["items"] = schema(fields(message[23][0])[1][0])
    if message[25]:
        entries = fields(message[25][0])[1]
        found["properties"] = {name: schema(value) for name, value in named(entries).items()}
    return found


@pytest.fixture(scope="module")
def served() -> OpenAPI:
    return OpenAPI(RESOURCES)


@pytest.fixture(scope="module")
def document(served: OpenAPI) -> Fields:
    return fields(served.v2_protobuf())


@pytest.fixture(scope="module")
def paths(document: Fields) -> dict[str, Fields]:
    return {path: fields(item) for path, item in named(fields(document[8][0])[2]).items()}


def query_parameters(items: list[bytes]) -> set[str]:
    """Through the item, the parameter, its not being a body, and its being in the query."""
    found = set()
    for item in items:
        for other in fields(fields(item)[1][0])[2]:
            found |= {fields(query)[4][0].decode() for query in fields(other)[3]}
    return found


def test_document_has_its_version(document: Fields) -> None:
    assert document[1] == [b"2.0"]
    assert fields(document[2][0])[1] == [b"kubeloop"]


def test_definitions_match_the_json_form(served: OpenAPI, document: Fields) -> None:
    decoded = {name: schema(value) for name, value in named(fields(document[9][0])[1]).items()}
    assert decoded == json.loads(served.v2_json())["definitions"]


def test_paths_match_the_json_form(served: OpenAPI, paths: dict[str, Fields]) -> None:
    numbers = {2: "get", 3: "put", 4: "post", 5: "delete", 8: "patch"}
    told = {
        (path, method): fields(item[number][0])[5][0].decode()
        for path, item in paths.items()
        for number, method in numbers.items()
        if item[number]
    }
    assert told == {
        (path, method): operation["operationId"]
        for path, item in json.loads(served.v2_json())["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }


def test_patches_have_kind_and_dry_run(paths: dict[str, Fields]) -> None:
    patch = fields(paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"][8][0])
    assert extensions(patch[13]) == {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
    }
    assert query_parameters(patch[8]) == {"dryRun", "fieldManager", "fieldValidation", "force"}


def test_body_and_response_reference_their_types(paths: dict[str, Fields]) -> None:
    post = fields(paths["/api/v1/namespaces/{namespace}/pods"][4][0])
    bodies = [body for item in post[8] for body in fields(fields(item)[1][0])[1]]
    (body,) = map(fields, bodies)
    assert (body[2], body[3], body[4]) == ([b"body"], [b"body"], [1])
    pod = {"$ref": "#/definitions/io.k8s.api.core.v1.Pod"}
    assert schema(body[5][0]) == pod
    answers = {code: fields(fields(value)[1][0]) for code, value in named(fields(post[9][0])[1]).items()}
    assert answers.keys() == {"200", "201", "202", "401"}
    assert schema(fields(answers["201"][2][0])[1][0]) == pod
    assert answers["401"][1] == [b"Unauthorized"]


def test_parameters_of_a_path_are_required(paths: dict[str, Fields]) -> None:
    (name, *_) = paths["/api/v1/nodes/{name}"][9]
    (parameter,) = fields(fields(fields(name)[1][0])[2][0])[4]
    assert fields(parameter) == {1: [1], 2: [b"path"], 4: [b"name"], 5: [b"string"]}


words = st.text(min_size=1, max_size=200)
extension_values = st.recursive(words | st.booleans() | st.integers(0, 9), lambda inner: st.lists(inner, max_size=2))
leaves = st.fixed_dictionaries(
    {},
    optional={
        "type": words,
        "format": words,
        "$ref": words,
        "required": st.lists(words, min_size=1, max_size=3),
        "x-thing": extension_values,
    },
)
schemas = st.recursive(
    leaves,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "items": inner,
            "additionalProperties": inner | st.just(True),
            "properties": st.dictionaries(words, inner, min_size=1, max_size=3),
            "x-other": extension_values,
        },
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(schemas)
def test_any_schema_round_trips(original: dict[str, Any]) -> None:
    tree = {
        "swagger": "2.0",
        "info": {"title": "t", "version": "v"},
        "paths": {},
        "definitions": {"one": original},
    }
    definitions = named(fields(fields(protobuf.encode(tree))[9][0])[1])
    assert schema(definitions["one"]) == original
