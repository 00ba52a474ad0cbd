# SPDX-License-Identifier: Apache-2.0
"""CRD finalizer: deletes the objects of a CRD that is being deleted, and waits for their finalizers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from kubeloop.api.meta import object_meta
from kubeloop.apiserver.apiextensions.definitions import CRDStore
from kubeloop.apiserver.apiextensions.naming_conditions import with_condition
from kubeloop.apiserver.apiextensions.storage import CustomStorage
from kubeloop.apiserver.registry.serializer import encode_stored
from kubeloop.clock import Clock
from kubeloop.store import Record, Store, StoreConflict, StoreError, StoreEvent, Subscription

log = logging.getLogger(__name__)

_IN_PROGRESS: Final = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
# Number of deletions before other tasks get a turn.
_SLICE: Final = 200


class CRDFinalizer:
    """Deletion of one CRD's objects."""

    def __init__(
        self, store: Store, definitions: CRDStore, name: str, storages: Sequence[CustomStorage], clock: Clock
    ) -> None:
        self._store = store
        self._definitions = definitions
        self._name = name
        self._storage = storages[0] if storages else None
        self._clock = clock
        self._changed = asyncio.Event()
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the deletion task."""
        self._task = loop.create_task(self._run(), name=f"deleting the objects of {self._name}")

    def cancel(self) -> None:
        """Cancel the task."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            if self._storage is not None:
                await self._delete_objects(self._storage)
            self._remove_finalizer()
        except StoreError:
            log.exception("deleting the objects of %s failed", self._name)
        finally:
            if self._subscription is not None:
                self._subscription.cancel()

    async def _delete_objects(self, storage: CustomStorage) -> None:
        self._set_deletion_in_progress()
        self._subscription = self._store.subscribe(storage.prefix(""), self._store.revision, self._on_events)
        while records := self._store.range(storage.prefix("")).records:
            self._changed.clear()
            if not await self._delete(storage, records):
                await self._changed.wait()

    async def _delete(self, storage: CustomStorage, records: Sequence[Record]) -> bool:
        """Delete or mark the objects that are not marked yet; return True if there were any."""
        writes: list[asyncio.Future[StoreEvent]] = []
        for record in records:
            write = self._delete_one(storage, record)
            if write is not None:
                writes.append(write)
            if len(writes) % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        await asyncio.gather(*writes)
        return bool(writes)

    def _delete_one(self, storage: CustomStorage, record: Record) -> asyncio.Future[StoreEvent] | None:
        obj = storage.decode_unconverted(record)
        meta = obj.metadata
        value: bytes | None = None
        if meta.finalizers:
            if meta.deletion_timestamp is not None:
                return None
            object_meta.set_deletion_timestamp(meta, self._clock.now(), 0)
            value = encode_stored(obj)
        try:
            return self._store.write(record.key, value, record.mod_revision)
        except StoreConflict:
            self._changed.set()  # a concurrent write triggers another pass
            return None

    def _on_events(self, _events: Sequence[StoreEvent]) -> None:
        self._changed.set()

    def _set_deletion_in_progress(self) -> None:
        record = self._definitions.newest(self._name)
        if record is None:
            return
        status = self._definitions.decode(record).status
        now = self._definitions.now
        conditions = with_condition(status.conditions or (), "Terminating", True, *_IN_PROGRESS, now)
        self._definitions.write_status(record, replace(status, conditions=conditions))

    def _remove_finalizer(self) -> None:
        record = self._definitions.newest(self._name)
        if record is not None:
            self._definitions.drop_finalizer(record)
