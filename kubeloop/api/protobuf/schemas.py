"""JSON schema values that have one of two shapes in JSON, and are a message of both in protobuf."""

from __future__ import annotations

from typing import Any

from kubeloop.api.protobuf.messages import Field, Message, Plain, Repeated
from kubeloop.api.protobuf.values import TEXT, VALUES, Value
from kubeloop.api.protobuf.wire import delimited


class SchemaOrArray(Value):
    """JSONSchemaPropsOrArray: `items` is one schema, or one for each index."""

    def __init__(self, schema: Value) -> None:
        self._message = Message("JSONSchemaPropsOrArray", [Field("schema", 1, schema), Repeated("many", 2, schema)])

    def read(self, content: bytes) -> Any:
        """Decode the schema or the list of schemas."""
        found = self._message.read(content, {})
        return found.get("many") or found.get("schema")

    def write(self, plain: Any) -> bytes:
        """Encode the schema or the list of schemas."""
        return delimited(self._message.write({"many": plain} if isinstance(plain, list) else {"schema": plain}))


class SchemaOrBool(Value):
    """JSONSchemaPropsOrBool: `additionalProperties` is a schema, or True if any are allowed."""

    def __init__(self, schema: Value) -> None:
        self._message = Message(
            "JSONSchemaPropsOrBool", [Field("allows", 1, VALUES["boolean"]), Field("schema", 2, schema)]
        )

    def read(self, content: bytes) -> Any:
        """Decode the schema or the flag."""
        found = self._message.read(content, {"allows": False})
        return found.get("schema", found["allows"])

    def write(self, plain: Plain | bool) -> bytes:
        """Encode the schema or the flag."""
        both = {"allows": plain} if isinstance(plain, bool) else {"allows": True, "schema": plain}
        return delimited(self._message.write(both))


class SchemaOrStrings(Value):
    """JSONSchemaPropsOrStringArray: `dependencies` is a schema, or names of properties."""

    def __init__(self, schema: Value) -> None:
        self._message = Message(
            "JSONSchemaPropsOrStringArray", [Field("schema", 1, schema), Repeated("names", 2, TEXT)]
        )

    def read(self, content: bytes) -> Any:
        """Decode the schema or the names."""
        found = self._message.read(content, {})
        return found.get("names") or found.get("schema")

    def write(self, plain: Any) -> bytes:
        """Encode the schema or the names."""
        return delimited(self._message.write({"names": plain} if isinstance(plain, list) else {"schema": plain}))
