# SPDX-License-Identifier: Apache-2.0
"""Whatever a client sends, decoding answers or refuses; it never breaks and never misses a stray field."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import codec, errors
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.apiserver.decoding import DecodedObject, decode_document, decode_object
from kubeloop.apiserver.decoding.go_shapes import GoShape, shape_of

STORED = [resource for resource in RESOURCES if resource.is_stored]
BY_KIND: dict[str, Resource] = {resource.kind: resource for resource in reversed(RESOURCES)}
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | FLOATS | st.text(max_size=5)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PLAIN_VALUES: dict[str, Any] = {
    "string": "s",
    "bytes": "AAAA",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "int-or-string": 5,
    "quantity": "1Gi",
    "time": "2026-01-31T09:30:00Z",
    "micro-time": "2026-01-31T09:30:00.000001Z",
    "any": {"free": {"form": [1, None]}},
}


def fitting(shape: GoShape, data: st.DataObject, depth: int = 6) -> Any:
    """A random value that fits a shape."""
    if shape.category == "struct":
        names = sorted(set(shape.fields) - {"kind", "apiVersion"})
        chosen = data.draw(st.lists(st.sampled_from(names), max_size=4, unique=True)) if names and depth else []
        return {name: fitting(shape.fields[name], data, depth - 1) for name in chosen}
    if shape.category == "map":
        return {
            key: fitting(shape.item, data, depth - 1) for key in data.draw(st.sampled_from([[], ["a"], ["a", "b"]]))
        }
    if shape.category == "list":
        return [fitting(shape.item, data, depth - 1) for _ in range(data.draw(st.integers(0, 2)))] if depth > 0 else []
    return PLAIN_VALUES[shape.category]


def document_of(resource: Resource, data: st.DataObject) -> dict[str, Any]:
    made: dict[str, Any] = fitting(shape_of(resource.definition), data)
    return {"apiVersion": resource.group_version, "kind": resource.kind, **made}


def places(value: Any, shape: GoShape, path: str = "") -> list[tuple[str, dict[str, Any], GoShape]]:
    """Yield every object of a document that a strict decoder checks, with its path."""
    if shape.category == "struct" and isinstance(value, dict):
        found = [(path, value, shape)]
        for key, inner in value.items():
            found += places(inner, shape.fields[key], f"{path}.{key}" if path else key)
        return found
    if shape.category == "map" and isinstance(value, dict):
        found = [(path, value, shape)]
        for key, inner in value.items():
            found += places(inner, shape.item, f"{path}.{key}")
        return found
    if shape.category == "list":
        return [one for index, inner in enumerate(value) for one in places(inner, shape.item, f"{path}[{index}]")]
    return []


def attempt(body: bytes, media: str, resource: Resource, mode: str) -> DecodedObject | None:
    try:
        return decode_object(body, media, resource, mode)
    except (errors.BadRequest, errors.UnsupportedMediaType):
        return None


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_valid_body_is_decoded_without_warnings(data: st.DataObject) -> None:
    resource = data.draw(st.sampled_from(STORED))
    document = document_of(resource, data)
    separators = data.draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")]))
    assert decode_object(json.dumps(document, separators=separators).encode(), "", resource, "Strict").warnings == []
    assert decode_document(document, resource, "Strict").warnings == []


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_unknown_field_is_always_detected(data: st.DataObject) -> None:
    resource = data.draw(st.sampled_from(STORED))
    document = document_of(resource, data)
    structs = [place for place in places(document, shape_of(resource.definition)) if place[2].category == "struct"]
    path, place, _ = data.draw(st.sampled_from(structs))
    place["strayField"] = data.draw(ANYTHING)
    expected = [f'unknown field "{path}.strayField"' if path else 'unknown field "strayField"']
    assert decode_object(json.dumps(document).encode(), "", resource, "Warn").warnings == expected
    assert decode_document(document, resource, "Warn").warnings == expected


class DuplicateKeyObject(dict[str, Any]):
    """An object that is written with its first key twice."""


def written(value: Any, spaces: str) -> str:
    if isinstance(value, dict):
        pairs = [(key, written(inner, spaces)) for key, inner in value.items()]
        if isinstance(value, DuplicateKeyObject):
            pairs.append(pairs[0])
        return "{" + ",".join(f"{json.dumps(key)}{spaces}:{inner}" for key, inner in pairs) + "}"
    return "[" + ",".join(written(one, spaces) for one in value) + "]" if isinstance(value, list) else json.dumps(value)


def doubled(value: Any, target: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        made = {key: doubled(inner, target) for key, inner in value.items()}
        return DuplicateKeyObject(made) if value is target else made
    return [doubled(one, target) for one in value] if isinstance(value, list) else value


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_duplicate_field_is_always_detected(data: st.DataObject) -> None:
    resource = data.draw(st.sampled_from(STORED))
    document = document_of(resource, data)
    filled = [place for place in places(document, shape_of(resource.definition)) if place[1]]
    path, place, _ = data.draw(st.sampled_from(filled))
    body = written(doubled(document, place), data.draw(st.sampled_from(["", " ", "\n"])))
    key = next(iter(place))
    expected = f'duplicate field "{path}.{key}"' if path else f'duplicate field "{key}"'
    assert expected in decode_object(body.encode(), "", resource, "Warn").warnings


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_any_value_is_accepted_or_rejected(data: st.DataObject) -> None:
    resource = data.draw(st.sampled_from(STORED))
    document = document_of(resource, data)
    _, place, shape = data.draw(st.sampled_from(places(document, shape_of(resource.definition))))
    names = sorted(shape.fields) if shape.category == "struct" else ["a"]
    if names:
        place[data.draw(st.sampled_from(names))] = data.draw(ANYTHING)
    mode = data.draw(st.sampled_from(["Strict", "Warn", "Ignore"]))
    attempt(json.dumps(document).encode(), "", resource, mode)
    attempt(yaml.safe_dump(document).encode(), "application/yaml", resource, mode)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(["", "application/yaml", "text/plain"]))
def test_noise_is_rejected(noise: bytes, media: str) -> None:
    attempt(noise, media, BY_KIND["Pod"], "Strict")


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(["", "application/yaml"]))
def test_corrupt_body_is_accepted_or_rejected(data: st.DataObject, media: str) -> None:
    body = json.dumps(document_of(BY_KIND["Deployment"], data)).encode()
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, min(len(body), start + 5)))
    attempt(body[:start] + data.draw(st.binary(max_size=4)) + body[end:], media, BY_KIND["Deployment"], "Warn")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_yaml_equals_json(data: st.DataObject) -> None:
    resource = data.draw(st.sampled_from(STORED))
    document = document_of(resource, data)
    by_json = decode_object(json.dumps(document).encode(), "", resource, "Strict")
    by_yaml = decode_object(yaml.safe_dump(document).encode(), "application/yaml", resource, "Strict")
    assert codec.to_plain(by_yaml.obj) == codec.to_plain(by_json.obj)
