"""Compacts etcd once per interval for any number of servers: upstream's agreement by a key's version.

Every server writes the key `compact_rev_key` if it still has the version last seen; the one that succeeds compacts,
and the others learn the version for the next time.
"""

from __future__ import annotations

from kubeloop.store.etcd.grpc.client import COMPACT, TXN, EtcdClient, EtcdError
from kubeloop.store.etcd.messages import compaction_request, put_if_version_request, read_txn

KEY = b"compact_rev_key"


class EtcdCompactor:
    """Compaction state of one server."""

    def __init__(self, connection: EtcdClient) -> None:
        self._connection = connection
        self._version = 0

    async def compact(self, revision: int) -> bool:
        """Compact if it is this server's turn; return True if it was."""
        request = put_if_version_request(KEY, str(revision).encode(), self._version)
        answer = read_txn(await self._connection.call(TXN, request))
        if not answer.succeeded:
            self._version = answer.found.version if answer.found is not None else 0
            return False
        self._version += 1
        try:
            await self._connection.call(COMPACT, compaction_request(revision))
        except EtcdError as refused:
            if not refused.compacted:  # compacted further by another client
                raise
        return True
