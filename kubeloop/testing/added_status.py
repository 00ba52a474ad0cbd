# SPDX-License-Identifier: Apache-2.0
"""Status of objects that a test adds: a server ignores it on create, so it is patched afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api import codec
from kubeloop.api.unstructured import Unstructured
from kubeloop.client.sync import SyncClient


def with_status(client: SyncClient, wanted: Any, made: Any) -> Any:
    """Write the status of the wanted object to the created one, unless it is the default one."""
    status = _status_of(wanted)
    if not status:
        return made
    meta, what = made.metadata, _resource_ref(made)
    return client.patch(what, meta.name, {"status": status}, meta.namespace, subresource="status")


def _status_of(obj: Any) -> Any:
    """Return an object's status; None if it is the default one."""
    if isinstance(obj, Mapping):
        return obj.get("status")
    status = getattr(obj, "status", None)
    return None if status is None or _is_default(status) else codec.to_plain(status)


def _is_default(status: Any) -> bool:
    try:
        return bool(status == type(status)())
    except TypeError:  # a status of a custom kind may have required fields
        return False


def _resource_ref(obj: Any) -> Any:
    """Return the class or resource name by which a client addresses an object."""
    if not isinstance(obj, Unstructured):
        return type(obj)
    group, _, version = obj.api_version.rpartition("/")
    return f"{obj.kind}.{group}/{version}"
