# SPDX-License-Identifier: Apache-2.0
"""Detects mutated objects in a shared cache by comparing them with the server's records."""

from __future__ import annotations

from typing import Any

from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of


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
