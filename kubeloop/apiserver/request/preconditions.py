"""What a request may demand of the stored object it is about, in the words of upstream's storage layer."""

from __future__ import annotations

from typing import Any

from kubeloop.api import errors
from kubeloop.apiserver.registry.storage import Storage
from kubeloop.store import Record


def demand(storage: Storage, record: Record, meta: Any, uid: str = "", resource_version: str = "") -> None:
    """Refuse with a conflict when the stored object isn't the one that is meant; empty demands nothing."""
    why = ""
    if uid and uid != meta.uid:
        why = f"UID in precondition: {uid}, UID in object meta: {meta.uid}"
    elif resource_version and resource_version != meta.resource_version:
        why = (
            f"ResourceVersion in precondition: {resource_version}, "
            f"ResourceVersion in object meta: {meta.resource_version}"
        )
    if why:
        resource = storage.resource
        told = (
            f"StorageError: invalid object, Code: 4, Key: {record.key}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: {why}"
        )
        raise errors.conflict(resource.group, resource.plural, meta.name, told)
