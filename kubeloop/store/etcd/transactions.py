"""One write as an etcd transaction: done, refused because somebody was first, or repeated without harm.

A call that fails may have had its effect. Repeating it is safe, for it compares: of two attempts at most one
succeeds. If it is the first, unheard one, then the second finds what the first has left.
"""

from __future__ import annotations

import msgspec

from kubeloop.store.base import Record
from kubeloop.store.errors import Conflict
from kubeloop.store.etcd.connection import TXN, Connection, Refused
from kubeloop.store.etcd.leases import Leases
from kubeloop.store.etcd.loading import Names
from kubeloop.store.etcd.messages import TxnAnswer, read_txn, write_request

_NO_SUCH_LEASE = "lease not found"


class Outcome(msgspec.Struct, frozen=True):
    """What a write did, or, with a conflict, etcd's revision when it found out."""

    revision: int
    base: Record | None
    conflict: Conflict | None = None
    doubtful: bool = False  # whether an attempt that was not heard of may have succeeded before the conflict


class Transactions:
    def __init__(self, connection: Connection, names: Names, leases: Leases) -> None:
        self._connection = connection
        self._names = names
        self._leases = leases

    async def write(self, key: str, value: bytes | None, base: Record | None, conditional: bool) -> Outcome:
        """Put or delete a key whose newest record is `base`; unless that is a condition, whatever it is by then."""
        doubtful, ahead = False, self._names.ahead
        while True:
            answer, repeated = await self._attempt(key, value, 0 if base is None else base.mod_revision - ahead)
            if answer.succeeded:
                return Outcome(answer.revision + ahead, base)
            doubtful = doubtful or repeated
            found = self._names.record(answer.found) if answer.found is not None else None
            if doubtful and _is_ours(value, found, base):
                return Outcome(answer.revision + ahead if found is None else found.mod_revision, base)
            if conditional or (found is None and value is None):
                return Outcome(answer.revision + ahead, base, Conflict(found), doubtful)
            base = found

    async def _attempt(self, key: str, value: bytes | None, expected: int) -> tuple[TxnAnswer, bool]:
        while True:
            lease = await self._leases.lease_for(key) if value is not None else 0
            request = write_request(self._names.theirs(key), value, expected, lease)
            try:
                answer, repeated = await self._connection.call_told(TXN, request)
            except Refused as refused:
                if lease and _NO_SUCH_LEASE in str(refused):
                    self._leases.forget()
                    continue
                raise
            return read_txn(answer), repeated


def _is_ours(value: bytes | None, found: Record | None, base: Record | None) -> bool:
    """Whether an attempt that we did not hear of has left what is there now."""
    if value is None:
        return found is None and base is not None
    return found is not None and found.value == value and found.mod_revision > (base.mod_revision if base else 0)
