# SPDX-License-Identifier: Apache-2.0
"""Caches where the times are in the stored bytes of a lease, so that later renewals skip all other steps of a patch.

A kubelet renews its lease every ten seconds for as long as it runs. The first renewal takes all steps. A later one by
the same user and field manager changes only renewTime and the manager's timestamp, unless the lease was written by
somebody else in between. A patch takes 160 µs, such a renewal 18 µs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.requests import Call
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import MicroTime, Time
from kubeloop.api.struct_patch import LeaseRenewalPatch
from kubeloop.apiserver.admission import AdmissionChain
from kubeloop.apiserver.registry.field_manager import manager_by_agent
from kubeloop.apiserver.registry.storage import ResourceStorage, StorageRegistry
from kubeloop.apiserver.request.context import User
from kubeloop.clock import Clock
from kubeloop.store import Record, StoreConflict, StoreError, StoreEvent

_MAX_ENTRIES: Final = 16_384
# Stand for the times when an entry is made. The encoder copies them as they are.
_MANAGER_TIME: Final = "@time of the manager@"
_RENEW_TIME: Final = "@renewTime@"
_RENEWED_FIELD: Final = b'"f:renewTime"'


class _Entry(msgspec.Struct, gc=False):
    """Newest record of a lease, cut at the times that the next renewal changes."""

    record: Record
    user: User
    agent: str
    manager_time: str
    renew_time: str
    head: bytes
    middle: bytes
    tail: bytes

    def value(self, manager_time: bytes, renew_time: bytes) -> bytes:
        """Return the stored bytes of the lease with these times."""
        return b"".join((self.head, manager_time, self.middle, renew_time, self.tail))


class LeaseRenewals(msgspec.Struct, gc=False):
    """Renewals that were written to the store together, None for each lease that was not; not durable yet."""

    now: datetime  # of the managers, in whole seconds
    manager_time: str
    renew_time: str
    written: list[tuple[_Entry, asyncio.Future[StoreEvent]] | None]

    async def commit(self, count_error: Callable[[StoreError], None]) -> list[StoreEvent | None]:
        """Wait until the renewals are durable, and let the next ones start from them; None for those that failed."""
        events: list[StoreEvent | None] = []
        for one in self.written:
            event = None
            if one is not None:
                entry, written = one
                try:
                    event = await written
                except StoreError as error:
                    count_error(error)
                else:
                    assert event.record is not None, "a renewal deletes nothing"
                    entry.record, entry.manager_time = event.record, self.manager_time
                    entry.renew_time = self.renew_time
            events.append(event)
        return events


class LeaseRenewalCache:
    """Cache of renewed leases, by namespace and name.

    Invariant: if an entry's record is the newest one of its key, a renewal by the entry's user and agent that takes all
    steps would store `value` of that renewal's times. The store refuses the write if the record is not the newest one.
    """

    def __init__(self, admission: AdmissionChain, clock: Clock) -> None:
        self._admission = admission
        self._clock = clock
        self._entries: dict[tuple[str, str], _Entry] = {}

    def renew(self, registry: StorageRegistry, call: Call, names: Sequence[str], user: User) -> LeaseRenewals | None:
        """Write repeatable renewals of the named leases; None if all of them must take all steps."""
        store = registry.store
        if store.is_shared:
            return None
        now, renew_time = self._clock.now().replace(microsecond=0), call.body.renew_time
        manager_time = format_time(now)
        entries = [self._entry_for(call, name, user, manager_time) for name in names]
        if not any(entries) or not self._admission.admits_repeated_renewals(call.resource):
            return None
        times = manager_time.encode(), renew_time.encode()
        renewals = LeaseRenewals(now, manager_time, renew_time, [])
        for entry in entries:
            if entry is None:
                renewals.written.append(None)
                continue
            record = entry.record
            try:
                written = store.write(record.key, entry.value(*times), record.mod_revision)
                renewals.written.append((entry, written))
            except StoreConflict:  # another client has written it
                renewals.written.append(None)
        self._count(registry.storage_of(call.resource), renewals)
        return renewals

    def _entry_for(self, call: Call, name: str, user: User, manager_time: str) -> _Entry | None:
        """Return the entry of a lease if the call renews it as the entry's user did; None if it may differ."""
        entry = self._entries.get((call.namespace, name))
        if entry is None or entry.agent != call.user_agent or (entry.user is not user and entry.user != user):
            return None
        if manager_time < entry.manager_time or call.body.renew_time == entry.renew_time:
            return None  # another order of managers, or no change
        return entry

    def _count(self, storage: ResourceStorage, renewals: LeaseRenewals) -> None:
        """Count renewals in the metrics of the steps that were skipped."""
        manager_times = [one[0].manager_time for one in renewals.written if one is not None]
        same_managers, total = manager_times.count(renewals.manager_time), len(manager_times)
        self._admission.count_repeated_renewals(total)
        if same_managers:
            storage.writes.count_comparisons("unequal_objects_fast", same_managers)
        if same_managers < total:
            storage.writes.count_comparisons("unequal_objects_slow", total - same_managers)

    def put(self, registry: StorageRegistry, call: Call, user: User, lease: Any) -> None:
        """Cache a lease as a repeatable renewal has returned it, unless the next one could change more than times."""
        storage = registry.storage_of(call.resource)
        record = storage.get(call.namespace, call.name)
        if record is None or not isinstance(lease, Lease):
            return
        entry = _entry_of(record, lease, call, user)
        if entry is None:
            self._entries.pop((call.namespace, call.name), None)
            return
        if len(self._entries) >= _MAX_ENTRIES:
            self._entries.clear()
        self._entries[call.namespace, call.name] = entry


def is_repeatable_renewal(call: Call) -> bool:
    """Return True if a call is the renewal of a lease, with nothing that could make the next one differ."""
    return type(call.body) is LeaseRenewalPatch and not (call.options or call.metadata_only or call.guard is not None)


def _entry_of(record: Record, lease: Lease, call: Call, user: User) -> _Entry | None:
    """Return the entry of a lease; None if the renewing manager is not the last one, which owns renewTime."""
    owners = lease.metadata.managed_fields
    is_stored = lease.metadata.resource_version == str(record.mod_revision)
    if not owners or not is_stored or lease.spec.renew_time != call.body.renew_time:
        return None
    last = owners[-1]
    own = (manager_by_agent(call.user_agent), "Update", call.resource.group_version, "")
    if (last.manager, last.operation, last.api_version, last.subresource) != own or last.time is None:
        return None
    if _RENEWED_FIELD not in bytes(last.fields_v1):
        return None
    marked = msgspec.structs.replace(
        lease,
        metadata=msgspec.structs.replace(
            lease.metadata,
            resource_version="",
            managed_fields=(*owners[:-1], msgspec.structs.replace(last, time=Time(_MANAGER_TIME))),
        ),
        spec=msgspec.structs.replace(lease.spec, renew_time=MicroTime(_RENEW_TIME)),
    )
    head, found, rest = codec.encode(marked).partition(_MANAGER_TIME.encode())
    middle, found_too, tail = rest.partition(_RENEW_TIME.encode())
    if not found or not found_too:
        return None
    entry = _Entry(record, user, call.user_agent, last.time, call.body.renew_time, head, middle, tail)
    return entry if entry.value(last.time.encode(), call.body.renew_time.encode()) == record.value else None
