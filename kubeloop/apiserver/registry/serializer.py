# SPDX-License-Identifier: Apache-2.0
"""Serializer: turns stored bytes into the objects, lists and metadata that clients receive.

The store keeps an object's JSON without resourceVersion, which is known only after the write. Stored bytes begin
`{"kind":K,"apiVersion":V,"metadata":{`, so the revision is spliced in behind that, without decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.conversion import converter
from kubeloop.api.defaults.apps import TEMPLATE_GENERATION
from kubeloop.api.kinds import Resource, definition_of, type_of
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.store import Record


class _OnlyMetadata(msgspec.Struct):
    metadata: msgspec.Raw


_METADATA = msgspec.json.Decoder(_OnlyMetadata)


def partial_head(version: str) -> bytes:
    """Return the beginning of an encoded PartialObjectMetadata, up to its metadata."""
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%b","metadata":' % version.encode()


class StoredSerializer:
    """Serializer of one served resource's stored objects."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        kind = b'"kind":"%b","apiVersion":"%b",' % (resource.kind.encode(), resource.group_version.encode())
        stored = "/".join(part for part in resource.storage_version if part)
        self._skip = len(b'{"kind":"%b","apiVersion":"%b","metadata":{' % (resource.kind.encode(), stored.encode()))
        self._object_head = b"{" + kind + b'"metadata":{"resourceVersion":"'
        self._item_head = b'{"metadata":{"resourceVersion":"'
        self._list_head = b'{"kind":"%b","apiVersion":"%b","metadata":' % (
            resource.list_kind.encode(),
            resource.group_version.encode(),
        )
        # Upstream takes metadata from its internal type, where this is a field of the spec.
        is_daemon_set = (resource.group, resource.kind) == ("apps", "DaemonSet")
        self._hidden_annotation = TEMPLATE_GENERATION if is_daemon_set else ""
        self._convert: Callable[[Any], Any] | None = None
        if resource.storage_override is not None:
            self._convert = converter(resource.storage_override, (resource.group, resource.version), resource.kind)

    @property
    def converts(self) -> bool:
        """True if objects are stored in another version than they are served in."""
        return self._convert is not None

    def object(self, value: bytes, revision: int) -> bytes:
        """Return an encoded object; revision 0 (a dry run) means that it has no resourceVersion."""
        if not revision and self._convert is None:
            return value
        if self._convert is not None:
            return codec.encode(self.decode(value, revision))
        return b"".join((self._object_head, b'%d",' % revision, memoryview(value)[self._skip :]))

    def with_version(self, value: bytes, version: str) -> bytes:
        """Return stored bytes with a resourceVersion that is no revision, for the response to a dry run."""
        return b"".join((value[: self._skip], b'"resourceVersion":%b,' % codec.encode(version), value[self._skip :]))

    def item(self, value: bytes, revision: int) -> bytes:
        """Return an encoded list item, which has no kind and apiVersion."""
        if self._convert is not None:
            return b"{" + self.object(value, revision)[len(self._object_head) - len(self._item_head) + 1 :]
        return b"".join((self._item_head, b'%d",' % revision, memoryview(value)[self._skip :]))

    def items(self, records: Sequence[Record]) -> list[bytes]:
        """Return records as encoded list items."""
        if self._convert is not None:
            return [self.item(record.value, record.mod_revision) for record in records]
        head, skip = self._item_head, self._skip
        return [b"".join((head, b'%d",' % record.mod_revision, memoryview(record.value)[skip:])) for record in records]

    def list(self, metadata: bytes, items: list[bytes]) -> list[bytes]:
        """Return an encoded list in parts: it is written in slices, never joined."""
        return [self._list_head, metadata, b',"items":[', *_separated(items), b"]}\n"]

    def partial(self, value: bytes, revision: int, version: str = "v1") -> bytes:
        """Return the object's metadata as encoded PartialObjectMetadata."""
        return partial_head(version) + self.metadata(value, revision) + b"}"

    def metadata(self, value: bytes, revision: int) -> bytes:
        """Return the encoded metadata of an object."""
        raw = memoryview(_METADATA.decode(value).metadata)
        if self._hidden_annotation and self._hidden_annotation.encode() in value:
            raw = memoryview(_without_annotation(raw, self._hidden_annotation))
        if not revision:
            return bytes(raw)
        return b"".join((b'{"resourceVersion":"%d",' % revision, raw[1:]))

    def decode(self, value: bytes, revision: int) -> Any:
        """Decode an object into a struct of the served version."""
        obj = self.decode_stored(value, revision)
        return self._convert(obj) if self._convert is not None else obj

    def decode_stored(self, value: bytes, revision: int) -> Any:
        """Decode an object into a struct of the stored version."""
        obj = codec.decode(value, stored_type_of(self.resource))
        if revision:
            codec.force_setattr(obj.metadata, "resource_version", str(revision))
        return obj

    def decode_record(self, record: Record) -> Any:
        """Decode a record into a struct of the served version."""
        return self.decode(record.value, record.mod_revision)


@cache
def stored_type_of(resource: Resource) -> Any:
    """Return the struct class of the version that a resource's objects are stored in."""
    group, version = resource.storage_version
    return type_of(definition_of(f"{group}/{version}" if group else version, resource.kind))


def _without_annotation(metadata: memoryview, name: str) -> bytes:
    decoded = msgspec.json.decode(metadata)
    annotations = decoded.get("annotations") or {}
    annotations.pop(name, None)
    if not annotations:
        decoded.pop("annotations", None)
    return msgspec.json.encode(decoded)


def _separated(items: list[bytes]) -> list[bytes]:
    if not items:
        return items
    parts = [b","] * (2 * len(items) - 1)
    parts[0::2] = items
    return parts


def encode_stored(obj: Any) -> bytes:
    """Encode an object for the store: everything except its resourceVersion."""
    codec.force_setattr(obj.metadata, "resource_version", "")
    return obj.stored_bytes() if isinstance(obj, CustomResourceObject) else codec.encode(obj)
