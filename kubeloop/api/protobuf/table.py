"""Messages of all types, built from the table on first use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from kubeloop.api.protobuf.messages import InlineField, ListCodec, MapField, Message, MessageField, Plain, RepeatedField
from kubeloop.api.protobuf.schemas import SchemaOrArrayCodec, SchemaOrBoolCodec, SchemaOrStringsCodec
from kubeloop.api.protobuf.values import VALUES, ValueCodec
from kubeloop.api.protobuf.wire import length_delimited


class MessageCodec(ValueCodec):
    """Value that is a message; resolved lazily, because types may contain themselves."""

    def __init__(self, definition: str) -> None:
        self._definition = definition

    def read(self, content: bytes) -> Plain:
        """Decode the message."""
        return message_of(self._definition).read(content, {})

    def merge(self, previous: Any, content: bytes) -> Plain:
        """Decode the message into the previous value."""
        return message_of(self._definition).read(content, previous or {})

    def write(self, plain: Mapping[str, Any]) -> bytes:
        """Encode the message."""
        return length_delimited(message_of(self._definition).write(plain))


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
    if shape == "repeated":
        return RepeatedField(name, number, _value(rest))
    if shape == "map":
        return MapField(name, number, _value(rest))
    return MessageField(name, number, _value(words))


def _value(words: str) -> ValueCodec:
    if words.startswith("list "):
        return ListCodec(_value(words.removeprefix("list ")))
    return _VALUES.get(words) or MessageCodec(words)
