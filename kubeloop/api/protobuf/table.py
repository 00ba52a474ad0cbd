# SPDX-License-Identifier: Apache-2.0
"""Messages of all types, built from the table on first use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from kubeloop.api.protobuf.messages import (
    InlineField,
    ListCodec,
    MapField,
    Message,
    MessageField,
    OmitEmptyField,
    Plain,
    RepeatedField,
)
from kubeloop.api.protobuf.values import TEXT, VALUES, ValueCodec
from kubeloop.protobuf_wire import length_delimited


class SchemaOrArrayCodec(ValueCodec):
    """JSONSchemaPropsOrArray, a message of both shapes that JSON has: `items` is one schema, or one for each index."""

    def __init__(self, schema: ValueCodec) -> None:
        self._message = Message(
            "JSONSchemaPropsOrArray", [MessageField("schema", 1, schema), RepeatedField("many", 2, schema)]
        )

    def decode(self, content: bytes) -> Any:
        """Decode the schema or the list of schemas."""
        found = self._message.decode(content, {})
        return found.get("many") or found.get("schema")

    def encode(self, plain: Any) -> bytes:
        """Encode the schema or the list of schemas."""
        return length_delimited(self._message.encode({"many": plain} if isinstance(plain, list) else {"schema": plain}))


class SchemaOrBoolCodec(ValueCodec):
    """JSONSchemaPropsOrBool: `additionalProperties` is a schema, or True if any are allowed."""

    def __init__(self, schema: ValueCodec) -> None:
        self._message = Message(
            "JSONSchemaPropsOrBool", [MessageField("allows", 1, VALUES["boolean"]), MessageField("schema", 2, schema)]
        )

    def decode(self, content: bytes) -> Any:
        """Decode the schema or the flag."""
        found = self._message.decode(content, {"allows": False})
        return found.get("schema", found["allows"])

    def encode(self, plain: Plain | bool) -> bytes:
        """Encode the schema or the flag."""
        both = {"allows": plain} if isinstance(plain, bool) else {"allows": True, "schema": plain}
        return length_delimited(self._message.encode(both))


class SchemaOrStringsCodec(ValueCodec):
    """JSONSchemaPropsOrStringArray: `dependencies` is a schema, or names of properties."""

    def __init__(self, schema: ValueCodec) -> None:
        self._message = Message(
            "JSONSchemaPropsOrStringArray", [MessageField("schema", 1, schema), RepeatedField("names", 2, TEXT)]
        )

    def decode(self, content: bytes) -> Any:
        """Decode the schema or the names."""
        found = self._message.decode(content, {})
        return found.get("names") or found.get("schema")

    def encode(self, plain: Any) -> bytes:
        """Encode the schema or the names."""
        return length_delimited(
            self._message.encode({"names": plain} if isinstance(plain, list) else {"schema": plain})
        )


class MessageCodec(ValueCodec):
    """Value that is a message; resolved lazily, because types may contain themselves."""

    def __init__(self, definition: str) -> None:
        self._definition = definition

    def decode(self, content: bytes) -> Plain:
        """Decode the message."""
        return message_of(self._definition).decode(content, {})

    def merge(self, previous: Any, content: bytes) -> Plain:
        """Decode the message into the previous value."""
        return message_of(self._definition).decode(content, previous or {})

    def encode(self, plain: Mapping[str, Any]) -> bytes:
        """Encode the message."""
        return length_delimited(message_of(self._definition).encode(plain))


_SCHEMA: Final = MessageCodec("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
_VALUES: Final[Mapping[str, ValueCodec]] = {
    **VALUES,
    "schema-or-array": SchemaOrArrayCodec(_SCHEMA),
    "schema-or-bool": SchemaOrBoolCodec(_SCHEMA),
    "schema-or-strings": SchemaOrStringsCodec(_SCHEMA),
}


class _Table(dict[str, dict[str, list[Any]]]):
    """Types that are served by default; those of optional resources are read on the first lookup of one."""

    def __missing__(self, name: str) -> dict[str, list[Any]]:
        return _read("protobuf_offered.json")[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in _read("protobuf_offered.json")


@cache
def table() -> Mapping[str, Mapping[str, list[Any]]]:
    """Return the layout of each type, by its name in the schema data."""
    return _Table(_read("protobuf.json"))


@cache
def _read(name: str) -> dict[str, dict[str, list[Any]]]:
    text = resources.files("kubeloop.api.generated").joinpath(name).read_bytes()
    loaded: dict[str, dict[str, list[Any]]] = json.loads(text)
    return loaded


@cache
def message_of(definition: str) -> Message:
    """Return the message of a type, such as `io.k8s.api.core.v1.Pod`."""
    return _message(definition.rpartition(".")[2], table()[definition])


def _message(name: str, facts: Mapping[str, list[Any]]) -> Message:
    return Message(name, (_field(field, *fact) for field, fact in facts.items()))


def _field(name: str, number: int, words: str, inlined: Mapping[str, list[Any]] | None = None) -> MessageField:
    shape, _, rest = words.partition(" ")
    if shape == "inline":
        return InlineField(name, number, _message(name, inlined or {}))
    if shape == "omitempty":
        return OmitEmptyField(name, number, _value(rest))
    if shape == "repeated":
        return RepeatedField(name, number, _value(rest))
    if shape == "map":
        return MapField(name, number, _value(rest))
    return MessageField(name, number, _value(words))


def _value(words: str) -> ValueCodec:
    if words.startswith("list "):
        return ListCodec(_value(words.removeprefix("list ")))
    return _VALUES.get(words) or MessageCodec(words)
