"""The values of JSON schemas that JSON writes in one of two shapes, and protocol buffers as a message of both."""

from __future__ import annotations

from typing import Any

from kubeloop.api.protobuf.messages import Field, Message, Plain, Repeated
from kubeloop.api.protobuf.values import TEXT, VALUES, Value
from kubeloop.api.protobuf.wire import delimited


class SchemaOrArray(Value):
    """`items`: one schema, or one for each place."""

    def __init__(self, schema: Value) -> None:
        self._message = Message("JSONSchemaPropsOrArray", [Field("schema", 1, schema), Repeated("many", 2, schema)])

    def read(self, content: bytes) -> Any:
        found = self._message.read(content, {})
        return found.get("many") or found.get("schema")

    def write(self, plain: Any) -> bytes:
        return delimited(self._message.write({"many": plain} if isinstance(plain, list) else {"schema": plain}))


class SchemaOrBool(Value):
    """`additionalProperties`: a schema, or whether there may be any."""

    def __init__(self, schema: Value) -> None:
        self._message = Message(
            "JSONSchemaPropsOrBool", [Field("allows", 1, VALUES["boolean"]), Field("schema", 2, schema)]
        )

    def read(self, content: bytes) -> Any:
        found = self._message.read(content, {"allows": False})
        return found.get("schema", found["allows"])

    def write(self, plain: Plain | bool) -> bytes:
        both = {"allows": plain} if isinstance(plain, bool) else {"allows": True, "schema": plain}
        return delimited(self._message.write(both))


class SchemaOrStrings(Value):
    """`dependencies`: a schema, or names of properties."""

    def __init__(self, schema: Value) -> None:
        self._message = Message(
            "JSONSchemaPropsOrStringArray", [Field("schema", 1, schema), Repeated("names", 2, TEXT)]
        )

    def read(self, content: bytes) -> Any:
        found = self._message.read(content, {})
        return found.get("names") or found.get("schema")

    def write(self, plain: Any) -> bytes:
        return delimited(self._message.write({"names": plain} if isinstance(plain, list) else {"schema": plain}))
