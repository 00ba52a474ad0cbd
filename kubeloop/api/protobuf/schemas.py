"""JSON schema values that have one of two shapes in JSON, and are a message of both in protobuf."""

from __future__ import annotations

from typing import Any

from kubeloop.api.protobuf.messages import Message, MessageField, Plain, RepeatedField
from kubeloop.api.protobuf.values import TEXT, VALUES, ValueCodec
from kubeloop.api.protobuf.wire import length_delimited


class SchemaOrArrayCodec(ValueCodec):
    """JSONSchemaPropsOrArray: `items` is one schema, or one for each index."""

    def __init__(self, schema: ValueCodec) -> None:
        self._message = Message(
            "JSONSchemaPropsOrArray", [MessageField("schema", 1, schema), RepeatedField("many", 2, schema)]
        )

    def read(self, content: bytes) -> Any:
        """Decode the schema or the list of schemas."""
        found = self._message.read(content, {})
        return found.get("many") or found.get("schema")

    def write(self, plain: Any) -> bytes:
        """Encode the schema or the list of schemas."""
        return length_delimited(self._message.write({"many": plain} if isinstance(plain, list) else {"schema": plain}))


class SchemaOrBoolCodec(ValueCodec):
    """JSONSchemaPropsOrBool: `additionalProperties` is a schema, or True if any are allowed."""

    def __init__(self, schema: ValueCodec) -> None:
        self._message = Message(
            "JSONSchemaPropsOrBool", [MessageField("allows", 1, VALUES["boolean"]), MessageField("schema", 2, schema)]
        )

    def read(self, content: bytes) -> Any:
        """Decode the schema or the flag."""
        found = self._message.read(content, {"allows": False})
        return found.get("schema", found["allows"])

    def write(self, plain: Plain | bool) -> bytes:
        """Encode the schema or the flag."""
        both = {"allows": plain} if isinstance(plain, bool) else {"allows": True, "schema": plain}
        return length_delimited(self._message.write(both))


class SchemaOrStringsCodec(ValueCodec):
    """JSONSchemaPropsOrStringArray: `dependencies` is a schema, or names of properties."""

    def __init__(self, schema: ValueCodec) -> None:
        self._message = Message(
            "JSONSchemaPropsOrStringArray", [MessageField("schema", 1, schema), RepeatedField("names", 2, TEXT)]
        )

    def read(self, content: bytes) -> Any:
        """Decode the schema or the names."""
        found = self._message.read(content, {})
        return found.get("names") or found.get("schema")

    def write(self, plain: Any) -> bytes:
        """Encode the schema or the names."""
        return length_delimited(self._message.write({"names": plain} if isinstance(plain, list) else {"schema": plain}))
