# SPDX-License-Identifier: Apache-2.0
"""Envelope (runtime.Unknown) with the type of a message, and the events of a watch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kubeloop.api.kinds import definition_of
from kubeloop.api.protobuf.messages import Message, MessageField
from kubeloop.api.protobuf.table import message_of, table
from kubeloop.api.protobuf.values import TEXT, ValueCodec
from kubeloop.protobuf_wire import DELIMITED, ProtobufError, encode_tag, length_delimited

_PREFIX: Final = b"k8s\x00"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta."


class _Opaque(ValueCodec):
    """Uninterpreted bytes."""

    def decode(self, content: bytes) -> bytes:
        return content

    def encode(self, plain: bytes) -> bytes:
        return length_delimited(plain)


class _TypeMeta(ValueCodec):
    """Kind and version of an envelope's content."""

    _message = Message("TypeMeta", [MessageField("apiVersion", 1, TEXT), MessageField("kind", 2, TEXT)])

    def decode(self, content: bytes) -> dict[str, str]:
        return self._message.decode(content, {})

    def encode(self, plain: Mapping[str, str]) -> bytes:
        return length_delimited(self._message.encode(plain))


_UNKNOWN: Final = Message("Unknown", [MessageField("typeMeta", 1, _TypeMeta()), MessageField("raw", 2, _Opaque())])
# Upstream's envelopes end with contentEncoding and contentType, always empty.
_NO_CONTENT_ENCODING: Final = encode_tag(3, DELIMITED) + length_delimited(b"")
_NO_CONTENT_TYPE: Final = encode_tag(4, DELIMITED) + length_delimited(b"")


class Envelope(NamedTuple):
    """Object that is still encoded."""

    api_version: str
    kind: str
    raw: bytes


def open_envelope(body: bytes) -> Envelope:
    """Decode the envelope of a body; raises ProtobufError with upstream's message."""
    if not body:
        raise ProtobufError("empty data")
    if not body.startswith(_PREFIX):
        raise ProtobufError(
            f"provided data does not appear to be a protobuf message, expected prefix [{' '.join(map(str, _PREFIX))}]"
        )
    if len(body) == len(_PREFIX):
        raise ProtobufError("empty body")
    found = _UNKNOWN.decode(body[len(_PREFIX) :], {})
    meta = found.get("typeMeta", {})
    return Envelope(meta.get("apiVersion", ""), meta.get("kind", ""), found.get("raw", b""))


def is_known(api_version: str, kind: str) -> bool:
    """Return True if a kind has a message."""
    return _definition(api_version, kind) in table()


def decode_object(api_version: str, kind: str, raw: bytes) -> dict[str, Any]:
    """Decode an object to plain JSON; raises ProtobufError."""
    plain: dict[str, Any] = {"kind": kind, "apiVersion": api_version}
    try:
        return message_of(_definition(api_version, kind)).decode(raw, plain)
    except RecursionError:
        raise ProtobufError("exceeded max depth") from None


def encode_object(document: Mapping[str, Any]) -> bytes:
    """Encode a plain JSON object of a known kind, in its envelope."""
    api_version, kind = document["apiVersion"], document["kind"]
    raw = message_of(_definition(api_version, kind)).encode(document)
    held = _UNKNOWN.encode({"typeMeta": {"apiVersion": api_version, "kind": kind}, "raw": raw})
    return _PREFIX + held + _NO_CONTENT_ENCODING + _NO_CONTENT_TYPE


def encode_watch_event(event: str, document: Mapping[str, Any]) -> bytes:
    """Encode a watch event. Only the object in it has an envelope."""
    raw = encode_tag(1, DELIMITED) + length_delimited(encode_object(document))
    return encode_tag(1, DELIMITED) + TEXT.encode(event) + encode_tag(2, DELIMITED) + length_delimited(raw)


def _definition(api_version: str, kind: str) -> str:
    """Return the definition of a kind; every group also has the types of meta/v1, under its own version."""
    own = definition_of(api_version, kind)
    if api_version == "meta.k8s.io/v1beta1" and _META + "v1beta1." + kind in table():
        return _META + "v1beta1." + kind
    return own if own in table() else _META + "v1." + kind
