# SPDX-License-Identifier: Apache-2.0
"""Subset of etcd's v3 API messages: requests as bytes, responses as small structs.

Field numbers are those of etcd's published v3 API.
"""

from __future__ import annotations

import msgspec

from kubeloop.protobuf_wire import (
    DELIMITED,
    VARINT,
    Content,
    ProtobufError,
    bytes_field,
    decode_varint,
    encode_tag,
    encode_varint,
    integer_field,
    length_delimited,
    read_fields,
    skip_varint,
)

_EQUAL = 0
_VERSION, _MOD_REVISION = 0, 2
_DELETE = 1
_REVISION_TAG = 3 << 3
# Fields with a length, by their number.
_FIRST, _SECOND, _THIRD = (encode_tag(number, DELIMITED) for number in (1, 2, 3))


class KeyValue(msgspec.Struct, gc=False):
    """Key with its value and revisions."""

    key: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0
    version: int = 0
    value: bytes = b""


class RangeResponse(msgspec.Struct):
    """Response to a range request."""

    revision: int = 0
    cluster_id: int = 0
    found: list[KeyValue] = msgspec.field(default_factory=list)
    more: bool = False


class TxnResponse(msgspec.Struct):
    """Response to a transaction; `found` and `mark` are the values read if the comparison failed."""

    revision: int = 0
    succeeded: bool = False
    found: KeyValue | None = None
    mark: KeyValue | None = None


class MarkerPut(msgspec.Struct, frozen=True, gc=False):
    """Write marker that a transaction puts in addition."""

    key: bytes
    value: bytes
    lease: int


class EtcdChange(msgspec.Struct, gc=False):
    """Event of a watch."""

    deleted: bool
    kv: KeyValue


class EtcdWatchResponse(msgspec.Struct):
    """Response of a watch."""

    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    reason: str = ""
    changes: list[EtcdChange] = msgspec.field(default_factory=list)


def range_request(
    key: bytes, end: bytes = b"", *, limit: int = 0, revision: int = 0, count_only: bool = False
) -> bytes:
    """Encode a range request."""
    parts = [bytes_field(1, key)]
    if end:
        parts.append(bytes_field(2, end))
    if limit:
        parts.append(integer_field(3, limit))
    if revision:
        parts.append(integer_field(4, revision))
    if count_only:
        parts.append(integer_field(9, 1))
    return b"".join(parts)


def put_if_revision_request(
    key: bytes, value: bytes | None, mod_revision: int, lease: int = 0, mark: MarkerPut | None = None
) -> bytes:  # fmt: skip
    """Encode a put (delete with None) if the key's mod_revision matches (0: absent), else a read of the key.

    With a mark, put that as well; else read the key of the mark.
    """
    request = _transaction(_IS_LAST_CHANGED, key, _AT_REVISION + encode_varint(mod_revision), value, lease)
    return (
        request
        if mark is None
        else request + _put(length_delimited(mark.key), mark.value, mark.lease) + _look(length_delimited(mark.key))
    )


def put_if_version_request(key: bytes, value: bytes, version: int) -> bytes:
    """Encode a put if the key's version matches, else a read of the key."""
    return _transaction(_IS_WRITTEN, key, integer_field(4, version), value, 0)


# A comparison as far as the key, and behind it.
_IS_LAST_CHANGED = integer_field(1, _EQUAL) + integer_field(2, _MOD_REVISION)
_IS_WRITTEN = integer_field(1, _EQUAL) + integer_field(2, _VERSION)
_AT_REVISION = encode_tag(6, VARINT)


def _transaction(comparison: bytes, key: bytes, target: bytes, value: bytes | None, lease: int) -> bytes:
    named = length_delimited(key)
    compared = length_delimited(comparison + _THIRD + named + target)
    operation = (
        _SECOND + length_delimited(_THIRD + length_delimited(_FIRST + named))
        if value is None
        else _put(named, value, lease)
    )
    return _FIRST + compared + operation + _look(named)


def _put(named: bytes, value: bytes, lease: int) -> bytes:
    """Encode the put operation for a successful comparison."""
    put = _FIRST + named + _SECOND + length_delimited(value)
    return _SECOND + length_delimited(_SECOND + length_delimited(put + integer_field(3, lease) if lease else put))


def _look(named: bytes) -> bytes:
    """Encode the range operation for a failed comparison."""
    return _THIRD + length_delimited(_FIRST + length_delimited(_FIRST + named))


def put_request(key: bytes, value: bytes) -> bytes:
    """Encode a put."""
    return bytes_field(1, key) + bytes_field(2, value)


def delete_range_request(key: bytes, end: bytes) -> bytes:
    """Encode the deletion of a range of keys."""
    return bytes_field(1, key) + bytes_field(2, end)


def compaction_request(revision: int) -> bytes:
    """Encode a compaction."""
    return integer_field(1, revision)


def watch_request(start_revision: int) -> bytes:
    """Encode a watch of all keys from a revision on."""
    return bytes_field(
        1, bytes_field(1, b"\0") + bytes_field(2, b"\0") + integer_field(3, start_revision) + integer_field(4, 1)
    )


def lease_request(seconds: int) -> bytes:
    """Encode a lease grant."""
    return integer_field(1, seconds)


def read_lease(message: bytes) -> int:
    """Decode the id of a granted lease."""
    return _number(dict(read_fields(message)).get(2, 0))


def read_header(message: bytes) -> tuple[int, int]:
    """Decode (revision, cluster id) of a response header."""
    found = dict(read_fields(message))
    return _number(found.get(3, 0)), _number(found.get(1, 0))


def _revision_in(header: bytes) -> int:
    """Decode only the revision of a header, whose fields are all numbers."""
    at, end = 0, len(header)
    while at < end:
        if header[at] == _REVISION_TAG:
            return decode_varint(header, at + 1)[0]
        at = skip_varint(header, at + 1)
    return 0


def read_revision(message: bytes) -> int:
    """Decode only the revision of a response."""
    return next((_revision_in(_bytes(value)) for field, value in read_fields(message) if field == 1), 0)


def read_range(message: bytes) -> RangeResponse:
    """Decode a range response."""
    answer = RangeResponse()
    for field, value in read_fields(message):
        if field == 1:
            answer.revision, answer.cluster_id = read_header(_bytes(value))
        elif field == 2:
            answer.found.append(read_key_value(_bytes(value)))
        elif field == 3:
            answer.more = bool(value)
    return answer


def read_txn(message: bytes) -> TxnResponse:
    """Decode a transaction response."""
    answer, found = TxnResponse(), []
    for field, value in read_fields(message):
        if field == 1:
            answer.revision = _revision_in(_bytes(value))
        elif field == 2:
            answer.succeeded = bool(value)
        elif field == 3:
            for operation, result in read_fields(_bytes(value)):
                if operation == 1:
                    found.append(next(iter(read_range(_bytes(result)).found), None))
    if found:
        answer.found, answer.mark = found[0], found[-1] if len(found) > 1 else None
    return answer


def read_watch(message: bytes) -> EtcdWatchResponse:
    """Decode a watch response."""
    answer = EtcdWatchResponse()
    for field, value in read_fields(message):
        if field == 3:
            answer.created = bool(value)
        elif field == 4:
            answer.canceled = bool(value)
        elif field == 5:
            answer.compact_revision = _number(value)
        elif field == 6:
            answer.reason = _bytes(value).decode(errors="replace")
        elif field == 11:
            answer.changes.append(_read_change(_bytes(value)))
    return answer


def _read_change(message: bytes) -> EtcdChange:
    change = EtcdChange(False, KeyValue())
    for field, value in read_fields(message):
        if field == 1:
            change.deleted = value == _DELETE
        elif field == 2:
            change.kv = read_key_value(_bytes(value))
    return change


def read_key_value(message: bytes) -> KeyValue:
    """Decode a KeyValue."""
    found = dict(read_fields(message))
    return KeyValue(
        _bytes(found.get(1, b"")),
        _number(found.get(2, 0)),
        _number(found.get(3, 0)),
        _number(found.get(4, 0)),
        _bytes(found.get(5, b"")),
    )


def _number(value: Content) -> int:
    if not isinstance(value, int):
        raise ProtobufError("a message has bytes where a number should be")
    return value


def _bytes(value: Content) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError("a message has a number where bytes should be")
    return value
