# SPDX-License-Identifier: Apache-2.0
"""Messages of the KMS v2 API, and the EncryptedObject of stored values, in protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kubeloop.api.meta.field_path import FieldPath, aggregate
from kubeloop.api.meta.name_rules import validate_fully_qualified_domain_name
from kubeloop.protobuf_wire import Content, ProtobufError, bytes_field, integer_field, read_fields

AES_GCM_KEY, HKDF_SEED = 0, 1
_MAX_KEY_ID: Final = 1024
_MAX_SOURCE: Final = 1024
_MAX_ANNOTATIONS: Final = 32 * 1024

Annotations = tuple[tuple[str, bytes], ...]


class InvalidMessage(ValueError):
    """Error for a message with invalid content."""


class StatusResponse(NamedTuple):
    """Health, version and current key of a plugin."""

    version: str
    healthz: str
    key_id: str


class EncryptResponse(NamedTuple):
    """Encrypted seed, and the key that it was encrypted with."""

    ciphertext: bytes
    key_id: str
    annotations: Annotations


class DataKeySource(NamedTuple):
    """Source of data keys in its encrypted form: identifies a seed or key."""

    type: int
    ciphertext: bytes
    key_id: str
    annotations: Annotations = ()


class EncryptedObject(NamedTuple):
    """Stored value: encrypted data, and the source of its key."""

    source: DataKeySource
    data: bytes


def encode_encrypt_request(plaintext: bytes, uid: str) -> bytes:
    """Encode an EncryptRequest."""
    return bytes_field(1, plaintext) + bytes_field(2, uid.encode())


def encode_decrypt_request(source: DataKeySource, uid: str) -> bytes:
    """Encode a DecryptRequest."""
    head = bytes_field(1, source.ciphertext) + bytes_field(2, uid.encode()) + bytes_field(3, source.key_id.encode())
    return head + _encode_annotations(4, source.annotations)


def decode_status_response(data: bytes) -> StatusResponse:
    """Decode a StatusResponse; raises InvalidMessage."""
    fields = _fields(data)
    return StatusResponse(_text(fields, 1), _text(fields, 2), _text(fields, 3))


def decode_encrypt_response(data: bytes) -> EncryptResponse:
    """Decode an EncryptResponse; raises InvalidMessage."""
    fields = _fields(data)
    return EncryptResponse(_bytes(fields, 1), _text(fields, 2), _decode_annotations(fields.get(3, ())))


def decode_decrypt_response(data: bytes) -> bytes:
    """Decode a DecryptResponse into the plain text; raises InvalidMessage."""
    return _bytes(_fields(data), 1)


def encode_object(source: DataKeySource, data: bytes) -> bytes:
    """Encode an EncryptedObject."""
    head = bytes_field(1, data) + bytes_field(2, source.key_id.encode()) + bytes_field(3, source.ciphertext)
    type_ = integer_field(5, source.type) if source.type else b""
    return head + _encode_annotations(4, source.annotations) + type_


def decode_object(stored: bytes) -> EncryptedObject:
    """Decode an EncryptedObject and validate it; raises InvalidMessage."""
    fields = _fields(stored)
    type_ = fields.get(5, [0])[-1]
    source = DataKeySource(
        type_ if isinstance(type_, int) else -1,
        _bytes(fields, 3),
        _text(fields, 2),
        _decode_annotations(fields.get(4, ())),
    )
    data = _bytes(fields, 1)
    validate_source(source)
    if not data:
        raise InvalidMessage("encrypted data is empty")
    return EncryptedObject(source, data)


def validate_source(source: DataKeySource) -> None:
    """Raise InvalidMessage for a source that must not be stored."""
    if source.type not in (AES_GCM_KEY, HKDF_SEED):
        raise InvalidMessage(f"unknown encryptedDEKSourceType: {source.type}")
    size = len(source.ciphertext)
    if not size:
        raise InvalidMessage("failed to validate encrypted DEK source: encrypted DEK source is empty")
    if size > _MAX_SOURCE:
        told = f"encrypted DEK source is {size} bytes, which exceeds the max size of {_MAX_SOURCE}"
        raise InvalidMessage(f"failed to validate encrypted DEK source: {told}")
    if problem := key_id_problem(source.key_id):
        raise InvalidMessage(f"failed to validate key id: {problem}")
    if problems := _annotation_problems(source.annotations):
        raise InvalidMessage(f"failed to validate annotations: {aggregate(problems)}")


def key_id_problem(key_id: str) -> str:
    """Return why a key ID is invalid; empty if it is valid."""
    if not key_id:
        return "keyID is empty"
    size = len(key_id.encode())
    return f"keyID is {size} bytes, which exceeds the max size of {_MAX_KEY_ID}" if size > _MAX_KEY_ID else ""


def _annotation_problems(annotations: Annotations) -> list[str]:
    path = FieldPath("annotations")
    problems = [str(error) for key, _ in annotations for error in validate_fully_qualified_domain_name(path, key)]
    total = sum(len(key.encode()) + len(value) for key, value in annotations)
    if total > _MAX_ANNOTATIONS:
        problems.append(f"total size of annotations is {total}, which exceeds the max size of {_MAX_ANNOTATIONS}")
    return problems


def _fields(data: bytes) -> Mapping[int, list[Content]]:
    fields: dict[int, list[Content]] = {}
    try:
        for number, content in read_fields(data):
            fields.setdefault(number, []).append(content)
    except (ProtobufError, IndexError) as error:
        raise InvalidMessage(f"proto: cannot parse invalid wire-format data: {error}") from None
    return fields


def _bytes(fields: Mapping[int, list[Content]], number: int) -> bytes:
    content = fields.get(number, [b""])[-1]
    if not isinstance(content, bytes):
        raise InvalidMessage("proto: cannot parse invalid wire-format data")
    return content


def _text(fields: Mapping[int, list[Content]], number: int) -> str:
    try:
        return _bytes(fields, number).decode()
    except UnicodeDecodeError:
        raise InvalidMessage("proto: string field contains invalid UTF-8") from None


def _encode_annotations(number: int, annotations: Annotations) -> bytes:
    entries = (bytes_field(1, key.encode()) + bytes_field(2, value) for key, value in annotations)
    return b"".join(bytes_field(number, entry) for entry in entries)


def _decode_annotations(entries: list[Content] | tuple[()]) -> Annotations:
    found: dict[str, bytes] = {}
    for entry in entries:
        if not isinstance(entry, bytes):
            raise InvalidMessage("proto: cannot parse invalid wire-format data")
        fields = _fields(entry)
        found[_text(fields, 1)] = _bytes(fields, 2)
    return tuple(sorted(found.items()))
