# SPDX-License-Identifier: Apache-2.0
"""Serializer of custom objects that a webhook has converted.

Only converted objects are served: one that could not be converted is an error, never an object of another version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.field_path import FieldErrors
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.apiserver.apiextensions.conversion.cache import VersionConversion
from kubeloop.apiserver.apiextensions.conversion.review import version_in
from kubeloop.apiserver.apiextensions.resource import CustomResource
from kubeloop.apiserver.apiextensions.serializer import CustomSerializer
from kubeloop.apiserver.registry.selector_fields import SelectorFieldCache
from kubeloop.store import Record

_META: Final = msgspec.json.Decoder(ObjectMeta, dec_hook=codec.decode_hook)


class NotConvertedError(Exception):
    """Error for reading an object that was not prepared."""

    def __init__(self, value: bytes) -> None:
        super().__init__(f"an object stored in {version_in(value)} was not converted")
        self.value = value


class ConvertedSerializer(CustomSerializer):
    """Serializer of one served version's converted objects."""

    def __init__(self, resource: CustomResource, since: int, conversion: VersionConversion) -> None:
        super().__init__(resource, since)
        self._conversion = conversion

    def object(self, value: bytes, revision: int) -> bytes:
        """Return an encoded object; converted, unless it is stored in this version under the current schema."""
        if version_in(value) == self._conversion.version and self._is_recent(revision):
            return super().object(value, revision)
        return codec.encode(self.decode_stored(value, revision))

    def decode_stored(self, value: bytes, revision: int) -> CustomResourceObject:
        """Decode the converted object; raises `NotConvertedError`."""
        found = self._conversion.get_cached(value)
        if found is None:
            raise NotConvertedError(value)
        obj = super().decode_stored(found, revision)
        if found is not value:
            # Webhook results are pruned and defaulted as if a client had sent them.
            self._resource.rules.prune_and_default(obj)
        return obj

    def metadata(self, value: bytes, revision: int) -> bytes:
        """Return the encoded metadata of the converted object."""
        return super().metadata(self._conversion.get_cached(value) or value, revision)

    def _is_recent(self, revision: int) -> bool:
        return revision > self._since or not revision

    def _is_current(self, revision: int) -> bool:
        return self._is_recent(revision)


class ConvertedFieldCache(SelectorFieldCache):
    """Cache of selectable fields of converted objects."""

    def __init__(self, resource: CustomResource, selectable: tuple[str, ...], conversion: VersionConversion) -> None:
        super().__init__(resource, selectable)
        self._conversion = conversion

    def labels(self, record: Record) -> Mapping[str, str]:
        """Return the labels of the converted object."""
        return super().labels(self._converted(record))

    def fields(self, record: Record) -> Mapping[str, str]:
        """Return the selectable fields of the converted object."""
        return super().fields(self._converted(record))

    def _converted(self, record: Record) -> Record:
        found = self._conversion.get_cached(record.value)
        if found is None:
            raise NotConvertedError(record.value)
        return Record(record.key, found, record.create_revision, record.mod_revision)


class _StoredVersionRules:
    """Replacement for a version's rules for an object that is only stored again, without validation."""

    def __init__(self, stored_version: str) -> None:
        self.stored_version = stored_version

    def validate_create(self, obj: CustomResourceObject) -> FieldErrors:
        raise NotImplementedError("an unchanged object is not validated")

    def validate_update(self, new: CustomResourceObject, old: CustomResourceObject, subresource: str) -> FieldErrors:
        raise NotImplementedError("an unchanged object is not validated")


def decode_unconverted(record: Record) -> CustomResourceObject:
    """Return an object in its stored version."""
    document: dict[str, Any] = msgspec.json.decode(record.value)
    meta = _META.decode(codec.encode(document.pop("metadata")))
    codec.force_setattr(meta, "resource_version", str(record.mod_revision))
    kind, version = document.pop("kind"), document.pop("apiVersion")
    obj = CustomResourceObject(kind, version, meta, _StoredVersionRules(version))
    obj.update(document)
    return obj


def decode_converted(value: bytes, resource: CustomResource, resource_version: str) -> CustomResourceObject:
    """Return converted bytes as an object of their version, pruned and defaulted."""
    document: dict[str, Any] = msgspec.json.decode(value)
    meta = _META.decode(codec.encode(document.pop("metadata")))
    codec.force_setattr(meta, "resource_version", resource_version)
    obj = CustomResourceObject(resource.kind, resource.group_version, meta, resource.rules)
    obj.update({name: part for name, part in document.items() if name not in ("kind", "apiVersion")})
    resource.rules.prune_and_default(obj)
    return obj
