"""Compacts etcd once an interval, however many servers want to: upstream's agreement by a key's version.

Everybody writes the key `compact_rev_key` if it still has the version last seen; who succeeds compacts, and who does
not has learned the version for the next time.
"""

from __future__ import annotations

from kubeloop.store.etcd.grpc.client import COMPACT, TXN, Connection, Refused
from kubeloop.store.etcd.messages import claim_request, compaction_request, read_txn

KEY = b"compact_rev_key"


class Compactions:
    """One server's part in it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._version = 0

    async def compact(self, revision: int) -> bool:
        """Whether it was our turn."""
        request = claim_request(KEY, str(revision).encode(), self._version)
        answer = read_txn(await self._connection.call(TXN, request))
        if not answer.succeeded:
            self._version = answer.found.version if answer.found is not None else 0
            return False
        self._version += 1
        try:
            await self._connection.call(COMPACT, compaction_request(revision))
        except Refused as refused:
            if not refused.compacted:  # somebody compacted by hand, and further
                raise
        return True
