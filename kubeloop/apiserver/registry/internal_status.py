# SPDX-License-Identifier: Apache-2.0
"""Writes of status, or of another server-owned part, to objects that clients may have created."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kubeloop.api.apply.change import ManagedWrite
from kubeloop.api.apply.fields.field_owners import update_field_owners
from kubeloop.api.scalars.times import format_time
from kubeloop.apiserver.registry.existing_object import OwnedObject
from kubeloop.apiserver.registry.field_manager import set_entries
from kubeloop.apiserver.registry.serializer import encode_stored
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.clock import Clock
from kubeloop.store import Record, StoreConflict, StoreEvent

_MANAGER = "kube-apiserver"


def write_status(storage: ResourceStorage, record: Record, change: Callable[[Any], Any], clock: Clock) -> None:
    """Write the status if it changed, without waiting; a concurrent write by another client wins.

    The caller sees the other client's change by its own watch, and then writes again.
    """
    write_change(storage, record, change, clock, "status")


def write_change(
    storage: ResourceStorage, record: Record, change: Callable[[Any], Any], clock: Clock, subresource: str = ""
) -> None:
    """Write another part of an object, likewise."""
    current = OwnedObject(storage, record)
    changed = change(current.stored)
    if changed == current.stored:
        return
    resource, now = storage.resource, format_time(clock.now())
    write = ManagedWrite(resource.kind, resource.group_version, resource.schema_node, _MANAGER, now, subresource)
    entries = update_field_owners(current.plain, current.plain_of(changed), write, current.managed_fields)
    set_entries(changed, entries)
    with suppress(StoreConflict):
        storage.store.write(record.key, encode_stored(changed), record.mod_revision).add_done_callback(_consume_result)


def _consume_result(write: asyncio.Future[StoreEvent]) -> None:
    """Retrieve the result of a write; a failed flush fails every writer, and the server's own requests report it."""
    if not write.cancelled():
        write.exception()
