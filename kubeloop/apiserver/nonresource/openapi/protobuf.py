# SPDX-License-Identifier: Apache-2.0
"""OpenAPI v2 in protobuf: gnostic's `openapi.v2.Document`, which kubectl requests.

Only what kubectl reads is written: paths with their parameters and extensions, and definitions. Literal numbers are
the message's field numbers; each function writes the message that its name says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubeloop.protobuf_wire import bytes_field, integer_field

Tree = Mapping[str, Any]
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
_QUERY, _PATH = 3, 4


def encode(tree: Tree) -> bytes:
    """Encode a v2 document."""
    info = _text(1, tree["info"]["title"]) + _text(2, tree["info"]["version"])
    paths = b"".join(bytes_field(2, _named(path, _path_item(item))) for path, item in tree["paths"].items())
    return (
        _text(1, tree["swagger"])
        + bytes_field(2, info)
        + bytes_field(8, paths)
        + bytes_field(9, _named_schemas(tree["definitions"]))
    )


def _path_item(item: Tree) -> bytes:
    methods = (bytes_field(number, _operation(item[method])) for method, number in _METHODS.items() if method in item)
    return b"".join(methods) + _parameters(9, item)


def _operation(operation: Tree) -> bytes:
    responses = b"".join(bytes_field(1, _named(code, _response(one))) for code, one in operation["responses"].items())
    return (
        _texts(1, operation["tags"])
        + _text(5, operation["operationId"])
        + _texts(6, operation["produces"])
        + _texts(7, operation.get("consumes", ()))
        + _parameters(8, operation)
        + bytes_field(9, responses)
        + _extensions(13, operation)
    )


def _response(response: Tree) -> bytes:
    schema = bytes_field(2, bytes_field(1, _schema(response["schema"]))) if "schema" in response else b""
    return bytes_field(1, _text(1, response["description"]) + schema)


def _parameters(number: int, owner: Tree) -> bytes:
    return b"".join(bytes_field(number, bytes_field(1, _parameter(one))) for one in owner.get("parameters", ()))


def _parameter(parameter: Tree) -> bytes:
    name, place, required = parameter["name"], parameter["in"], parameter.get("required", False)
    if place == "body":
        body = _text(2, name) + _text(3, place) + _flag(4, required) + bytes_field(5, _schema(parameter["schema"]))
        return bytes_field(1, body)
    kind, type_number = (_PATH, 5) if place == "path" else (_QUERY, 6)
    rest = _flag(1, required) + _text(2, place) + _text(4, name) + _text(type_number, parameter["type"])
    return bytes_field(2, bytes_field(kind, rest))


def _schema(schema: Tree) -> bytes:
    written = [_text(1, schema.get("$ref", "")), _text(2, schema.get("format", ""))]
    written.append(_text(4, schema.get("description", "")))
    written.append(_texts(19, schema.get("required", ())))
    if "additionalProperties" in schema:
        written.append(bytes_field(21, _additional_properties(schema["additionalProperties"])))
    if "type" in schema:
        written.append(bytes_field(22, _text(1, schema["type"])))
    if "items" in schema:
        written.append(bytes_field(23, bytes_field(1, _schema(schema["items"]))))
    if "properties" in schema:
        written.append(bytes_field(25, _named_schemas(schema["properties"])))
    written.append(_extensions(31, schema))
    return b"".join(written)


def _additional_properties(inner: Tree | bool) -> bytes:
    return _flag(2, inner) if isinstance(inner, bool) else bytes_field(1, _schema(inner))


def _named_schemas(schemas: Tree) -> bytes:
    return b"".join(bytes_field(1, _named(name, _schema(schema))) for name, schema in schemas.items())


def _extensions(number: int, owner: Tree) -> bytes:
    """Encode extensions, each as YAML text, of which JSON is a subset."""
    return b"".join(
        bytes_field(number, _named(key, bytes_field(2, msgspec.json.encode(value))))
        for key, value in owner.items()
        if key.startswith("x-")
    )


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + bytes_field(2, value)


def _text(number: int, text: str) -> bytes:
    """Encode a string field; nothing for an empty text, which is the default."""
    return bytes_field(number, text.encode()) if text else b""


def _texts(number: int, texts: Iterable[str]) -> bytes:
    return b"".join(bytes_field(number, text.encode()) for text in texts)


def _flag(number: int, value: bool) -> bytes:
    return integer_field(number, 1) if value else b""
