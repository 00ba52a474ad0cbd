# SPDX-License-Identifier: Apache-2.0
"""Serializer of custom objects, in any version, under the current schema.

Objects written under the current schema are spliced, as all kinds are. Older ones are pruned and defaulted on read,
which costs a decode.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.apiserver.apiextensions.resource import CustomResource
from kubeloop.apiserver.registry.serializer import StoredSerializer
from kubeloop.store.base import Record

_METADATA_KEY: Final = b'"metadata":{'
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_META: Final = msgspec.json.Decoder(ObjectMeta, dec_hook=codec.decode_hook)


class CustomSerializer(StoredSerializer):
    """Serializer of one served version; objects of revisions after `since` conform to the current schema."""

    def __init__(self, resource: CustomResource, since: int) -> None:
        super().__init__(resource)
        self._resource = resource
        self._since = since
        self._bare_head = self._object_head[: -len(b'"resourceVersion":"')]

    def object(self, value: bytes, revision: int) -> bytes:
        """Return an encoded object; older ones are decoded, pruned and defaulted."""
        if not self._is_current(revision):
            return codec.encode(self.decode_stored(value, revision))
        rest = memoryview(value)[value.index(_METADATA_KEY) + len(_METADATA_KEY) :]
        if not revision:
            return b"".join((self._bare_head, rest))
        return b"".join((self._object_head, b'%d",' % revision, rest))

    def item(self, value: bytes, revision: int) -> bytes:
        """Return an encoded list item; custom objects have kind and apiVersion in lists, too."""
        return self.object(value, revision)

    def items(self, records: Sequence[Record]) -> builtins.list[bytes]:
        """Return records as encoded list items."""
        return [self.object(record.value, record.mod_revision) for record in records]

    def list(self, metadata: bytes, items: list[bytes]) -> list[bytes]:
        """Return an encoded list in parts; as upstream, its metadata always has `continue`."""
        if b'"continue"' not in metadata:
            metadata = b'{"continue":"",' + metadata[1:]
        return super().list(metadata, items)

    def decode(self, value: bytes, revision: int) -> Any:
        """Decode an object into the served version."""
        return self.decode_stored(value, revision)

    def decode_stored(self, value: bytes, revision: int) -> CustomResourceObject:
        """Decode an object into the served version: conversion changes nothing but the apiVersion."""
        parts = _PARTS.decode(value)
        meta = _META.decode(parts.pop("metadata"))
        codec.force_setattr(meta, "resource_version", str(revision) if revision else "")
        resource = self._resource
        obj = CustomResourceObject(resource.kind, resource.group_version, meta, resource.rules)
        del parts["kind"], parts["apiVersion"]
        for name, raw in parts.items():
            obj[name] = msgspec.json.decode(raw)
        if not self._is_current(revision):
            resource.rules.prune_and_default(obj)
        return obj

    def _is_current(self, revision: int) -> bool:
        return self._resource.has_equal_schemas and (revision > self._since or not revision)
