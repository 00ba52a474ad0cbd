# SPDX-License-Identifier: Apache-2.0
"""UID and resourceVersion preconditions of requests, with the messages of upstream's storage layer."""

from __future__ import annotations

from typing import Any

from kubeloop.api import errors
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.store import Record


def check_preconditions(
    storage: ResourceStorage, record: Record, meta: Any, uid: str = "", resource_version: str = ""
) -> None:
    """Raise Conflict if the stored object does not meet the preconditions; an empty value means none."""
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
