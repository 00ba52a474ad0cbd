# SPDX-License-Identifier: Apache-2.0
"""Detects mutated objects in a shared cache by comparing them with the server's records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.testing.look import ClusterAssertionError


class CacheMutatedError(ClusterAssertionError):
    """Shared object that was mutated in place. Types forbid it; mappings within them cannot."""


def check_caches(informers: Iterable[Informer], registry: StorageRegistry) -> None:
    """Raise CacheMutatedError if an object of a cache was modified."""
    for informer in informers:
        if (changed := changed_object(informer, registry)) is not None:
            raise CacheMutatedError(f"{informer.resource.group_resource} {changed} was modified in the shared cache")


def changed_object(informer: Informer, registry: StorageRegistry) -> ObjectKey | None:
    """Return the first object that differs from the server's record of the same version."""
    try:
        storage = registry.storage_of(informer.resource)
    except KeyError:  # its definition is gone
        return None
    for obj in informer.list():
        meta = obj.metadata
        record = storage.get(meta.namespace, meta.name)
        if record is None or str(record.mod_revision) != meta.resource_version:
            continue  # the cache is behind, as it may be
        stored = storage.decode(record, record.mod_revision)
        if not _is_same(obj, stored):
            return key_of(obj)
    return None


def _is_same(obj: Any, stored: Any) -> bool:
    """Compare objects; a cache of metadata or of reduced objects is compared by metadata."""
    return bool(obj == stored) if type(obj) is type(stored) else bool(obj.metadata == stored.metadata)
