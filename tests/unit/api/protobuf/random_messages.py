# SPDX-License-Identifier: Apache-2.0
"""Random objects of any type, made from the schema data: valid in shape, not in meaning."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

import msgspec

from kubeloop.api.schema import definitions

_DEEPEST = 6
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SCHEMA = _EXTENSIONS + "JSONSchemaProps"


def sample(definition: str, random: Random) -> dict[str, Any]:
    """An object with some of its fields set; lists and maps that are there aren't empty."""
    return _struct(definition, random, 0)


def zero_object(definition: str, deepest: int = 4) -> dict[str, Any]:
    """An object whose every scalar is there and zero, as Go's encoder sends it; each list and map has one item."""
    properties = definitions()[definition].get("properties", {})
    known = "x-kubernetes-group-version-kind" in definitions()[definition]
    return {
        name: _zero(schema, deepest)
        for name, schema in properties.items()
        if not (known and name in ("kind", "apiVersion")) and (deepest or schema.get("type") in _ZEROS)
    }


def without_omitted(definition: str, plain: Mapping[str, Any]) -> dict[str, Any]:
    """The object as JSON shows it: zero scalars are left out where the type's struct leaves them out."""
    properties = definitions()[definition].get("properties", {})
    return {
        name: _without_omitted(properties.get(name, {}), held)
        for name, held in plain.items()
        if held or isinstance(held, dict | list) or name not in omitted_when_zero(definition)
    }


@cache
def omitted_when_zero(definition: str) -> frozenset[str]:
    """The scalar fields of a type that JSON leaves out when they are zero, as its struct has them."""
    group, version, name = definition.split(".")[-3:]
    module = import_module(f"kubeloop.api.generated.{group.replace('-', '_')}_{version}")
    fields = msgspec.structs.fields(getattr(module, name)) if hasattr(module, name) else ()
    return frozenset(field.encode_name for field in fields if type(field.default) in (str, bool, int, float, bytes))


def _zero(schema: Mapping[str, Any], deepest: int) -> Any:
    if "$ref" in schema:
        target = schema["$ref"].rpartition("/")[2]
        if target.startswith(_EXTENSIONS + "JSONSchemaPropsOr"):
            return zero_object(_SCHEMA, deepest - 1)
        return _ZERO_SPECIAL[target] if target in _ZERO_SPECIAL else zero_object(target, deepest - 1)
    if schema["type"] == "array":
        return [_zero(schema["items"], deepest)]
    return (
        {"": _zero(schema["additionalProperties"], deepest)} if schema["type"] == "object" else _ZEROS[schema["type"]]
    )


def _without_omitted(schema: Mapping[str, Any], held: Any) -> Any:
    target = schema.get("$ref", "").rpartition("/")[2]
    if target.startswith(_EXTENSIONS + "JSONSchemaPropsOr"):
        target = _SCHEMA if isinstance(held, dict) else ""
    if target in definitions() and target not in _SPECIAL:
        return without_omitted(target, held)
    if schema.get("type") == "array":
        return [_without_omitted(schema["items"], one) for one in held]
    if schema.get("type") == "object":
        return {key: _without_omitted(schema["additionalProperties"], one) for key, one in held.items()}
    return held


def _struct(definition: str, random: Random, depth: int) -> dict[str, Any]:
    properties = definitions()[definition].get("properties", {})
    chance = 1.0 if not depth else 0.5 if depth < _DEEPEST else 0.0
    known = "x-kubernetes-group-version-kind" in definitions()[definition]
    return {
        name: _value(schema, random, depth + 1)
        for name, schema in properties.items()
        if random.random() < chance and not (known and name in ("kind", "apiVersion"))
    }


def _value(schema: Mapping[str, Any], random: Random, depth: int) -> Any:
    if "$ref" in schema:
        target = schema["$ref"].rpartition("/")[2]
        return _SPECIAL[target](random, depth) if target in _SPECIAL else _struct(target, random, depth)
    if schema["type"] == "array":
        return [_value(schema["items"], random, depth) for _ in range(random.randint(1, 2))]
    if schema["type"] == "object":
        inner = schema["additionalProperties"]
        return {_text(random): _value(inner, random, depth) for _ in range(random.randint(1, 2))}
    return _scalar(schema, random)


def _scalar(schema: Mapping[str, Any], random: Random) -> Any:
    kind, form = schema["type"], schema.get("format")
    if kind == "string":
        return base64.b64encode(random.randbytes(random.randint(0, 5))).decode() if form == "byte" else _text(random)
    if kind == "integer":
        bits = 31 if form == "int32" else 63
        return random.choice([0, 1, -1, 300, 2**bits - 1, -(2**bits), random.getrandbits(bits)])
    return random.random() < 0.5 if kind == "boolean" else random.uniform(-1e9, 1e9)


def _text(random: Random) -> str:
    return "".join(random.choices('abÄß語𝄞 \n"\\\x00', k=random.randint(0, 4)))


def _json(random: Random, depth: int) -> Any:
    return random.choice([{"a": [1, None, "x"]}, [], 7, "text", True, {}, 1.5])


def _either(other: Callable[[Random], Any]) -> Callable[[Random, int], Any]:
    return lambda random, depth: other(random) if random.random() < 0.5 else _struct(_SCHEMA, random, depth)


_SPECIAL: dict[str, Callable[[Random, int], Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": lambda random, _: random.choice(["0", "500m", "1Gi", "-3"]),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": lambda random, _: random.choice(
        [0, 8080, -1, "http", "25%", ""]
    ),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _json,
    _META + "FieldsV1": _json,
    _META + "Time": lambda random, _: random.choice(["2026-01-31T09:30:00Z", "1969-12-31T23:59:59Z"]),
    _META + "MicroTime": lambda random, _: random.choice(
        ["2026-01-31T09:30:00.000001Z", "1960-01-01T00:00:00.999999Z"]
    ),
    _EXTENSIONS + "JSON": _json,
    _EXTENSIONS + "JSONSchemaPropsOrArray": _either(lambda random: [_struct(_SCHEMA, random, _DEEPEST)]),
    _EXTENSIONS + "JSONSchemaPropsOrBool": _either(lambda random: random.random() < 0.5),
    _EXTENSIONS + "JSONSchemaPropsOrStringArray": _either(lambda random: [_text(random)]),
}
_ZEROS: dict[str, Any] = {"string": "", "integer": 0, "boolean": False, "number": 0.0}
_ZERO_SPECIAL: dict[str, Any] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "0",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": 0,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {},
    _META + "FieldsV1": {},
    _META + "Time": "1970-01-01T00:00:00Z",
    _META + "MicroTime": "1970-01-01T00:00:00.000000Z",
    _EXTENSIONS + "JSON": {},
}
