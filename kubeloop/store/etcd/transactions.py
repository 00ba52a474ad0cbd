# SPDX-License-Identifier: Apache-2.0
"""Writes as etcd transactions: done, in conflict, or repeated without harm.

A call that fails may have had its effect. Repeating it is safe, for it compares: of two attempts at most one
succeeds. If it is the first, unanswered one, then the second finds what the first has left: the value, or a marker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import msgspec

from kubeloop.clock import Clock, new_uid
from kubeloop.store.base import Record
from kubeloop.store.errors import StoreConflict
from kubeloop.store.etcd.client import TXN, EtcdClient, EtcdError, PendingCall
from kubeloop.store.etcd.leases import Leases
from kubeloop.store.etcd.load import KeyTranslator
from kubeloop.store.etcd.messages import MarkerPut, TxnResponse, put_if_revision_request, read_txn

_NO_SUCH_LEASE = "lease not found"
_MARKER_SECONDS = 60.0  # far longer than any retry


class WriteOutcome(msgspec.Struct, frozen=True):
    """Result of a write, or, with a conflict, etcd's revision at that time."""

    revision: int
    base: Record | None
    conflict: StoreConflict | None = None
    doubtful: bool = False  # whether an attempt that was not heard of may have succeeded before the conflict


class Transactions:
    """Executes writes as etcd transactions."""

    def __init__(self, connection: EtcdClient, names: KeyTranslator, leases: Leases, clock: Clock) -> None:
        self._connection = connection
        self._names = names
        self._leases = leases
        self._markers = WriteMarkers(names.markers_prefix, clock)

    def begin(self, key: str, value: bytes | None, base: Record | None, conditional: bool) -> PendingCall | None:
        """Send a simple conditional put at once; None if it takes more, or there is no connection."""
        if value is None or not conditional or self._leases.has_ttl(key):
            return None
        return self._connection.begin(
            TXN, put_if_revision_request(self._names.to_etcd(key), value, self._expected(base))
        )

    def outcome_of(self, begun: PendingCall, base: Record | None) -> WriteOutcome | None:
        """Return the outcome of a begun write that succeeded; None otherwise, to be handled by `write`."""
        if begun.answer.cancelled() or begun.answer.exception() is not None:
            return None
        answer = read_txn(begun.answer.result())
        return WriteOutcome(answer.revision + self._names.revision_offset, base) if answer.succeeded else None

    async def write(
        self, key: str, value: bytes | None, base: Record | None, conditional: bool, begun: PendingCall | None = None
    ) -> WriteOutcome:  # fmt: skip
        """Put or delete a key whose newest record is `base`; without a condition, whatever it is by then."""
        if value is not None and conditional:
            return await self._put(key, value, base, begun)
        with self._markers.reserve() as witness:
            return await self._write_with_marker(key, value, base, conditional, witness)

    async def _put(self, key: str, value: bytes, base: Record | None, begun: PendingCall | None) -> WriteOutcome:
        answer, doubtful = await self._attempt(key, value, base, None, begun)
        ahead = self._names.revision_offset
        if answer.succeeded:
            return WriteOutcome(answer.revision + ahead, base)
        found = self._found(answer)
        since = 0 if base is None else base.mod_revision
        if doubtful and found is not None and found.value == value and found.mod_revision > since:
            return WriteOutcome(found.mod_revision, base)
        return WriteOutcome(answer.revision + ahead, base, StoreConflict(found), doubtful)

    async def _write_with_marker(
        self, key: str, value: bytes | None, base: Record | None, conditional: bool, witness: WriteMarker
    ) -> WriteOutcome:  # fmt: skip
        ahead = self._names.revision_offset
        while True:
            answer, repeated = await self._attempt(key, value, base, witness)
            witness.is_outcome_unknown = witness.is_outcome_unknown or repeated
            if answer.succeeded:
                return WriteOutcome(answer.revision + ahead, base)
            if answer.mark is not None and answer.mark.value == witness.mark:
                return WriteOutcome(answer.mark.mod_revision + ahead, base)
            found = self._found(answer)
            if conditional or (found is None and value is None):
                return WriteOutcome(answer.revision + ahead, base, StoreConflict(found))
            base = found

    def _expected(self, base: Record | None) -> int:
        return 0 if base is None else base.mod_revision - self._names.revision_offset

    async def _attempt(
        self,
        key: str,
        value: bytes | None,
        base: Record | None,
        witness: WriteMarker | None,
        begun: PendingCall | None = None,
    ) -> tuple[TxnResponse, bool]:
        """Return the response, and True if an earlier attempt may have had an effect."""
        doubtful = False
        while True:
            lease = await self._leases.lease_for(key) if value is not None else 0
            mark = None if witness is None else await self._mark(witness)
            request = put_if_revision_request(self._names.to_etcd(key), value, self._expected(base), lease, mark)
            try:
                answer, repeated = await self._connection.call_with_history(TXN, request, begun)
            except EtcdError as refused:
                if _NO_SUCH_LEASE not in str(refused):
                    raise
                self._leases.forget()
                begun = None
                doubtful = doubtful or refused.repeated
            else:
                return read_txn(answer), doubtful or repeated

    async def _mark(self, witness: WriteMarker) -> MarkerPut:
        return MarkerPut(witness.key, witness.mark, await self._leases.current_lease("", _MARKER_SECONDS))

    def _found(self, answer: TxnResponse) -> Record | None:
        return self._names.record(answer.found) if answer.found is not None else None


class WriteMarker:
    """Marker of one write. `doubtful` if an attempt was not answered: it may still write its marker later."""

    __slots__ = ("is_outcome_unknown", "key", "mark")

    def __init__(self, key: bytes, mark: bytes) -> None:
        self.key = key
        self.mark = mark
        self.is_outcome_unknown = False


class WriteMarkers:
    """Marker keys of one server, by which a retry finds out if an attempt was executed.

    A put is found again by its bytes. A deletion leaves nothing, whichever client did it; and an unconditional put
    may have been overwritten. Such a write puts a marker in the same transaction, under a key reserved for this
    server, where the next attempt looks for it.

    A key serves one write at a time, so there are as many as there were such writes at once. A lease ends them.
    """

    def __init__(self, folder: bytes, clock: Clock) -> None:
        self._folder = folder + new_uid(clock).encode() + b"/"
        self._free: list[bytes] = []
        self._keys = count()
        self._marks = count()

    @contextmanager
    def reserve(self) -> Iterator[WriteMarker]:
        """Reserve a marker for the block."""
        key = self._free.pop() if self._free else self._folder + str(next(self._keys)).encode()
        witness = WriteMarker(key, str(next(self._marks)).encode())
        yield witness
        if not witness.is_outcome_unknown:  # the outcome is known, so the key is free again
            self._free.append(key)
