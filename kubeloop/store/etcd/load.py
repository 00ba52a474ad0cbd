# SPDX-License-Identifier: Apache-2.0
"""Loads the state under our prefix at a revision, and finds the oldest revision with history."""

from __future__ import annotations

from contextlib import aclosing

from kubeloop.store.base import EMPTY_REVISION, Record
from kubeloop.store.errors import StoreCorrupt
from kubeloop.store.etcd.client import RANGE, EtcdClient, EtcdError, Unavailable
from kubeloop.store.etcd.config import EtcdConfig
from kubeloop.store.etcd.messages import KeyValue, RangeResponse, range_request, read_range, watch_request
from kubeloop.store.log import LoadedLog

_PAGE = 1000
# Older history is not asked for: etcd tells of a thousand past revisions each tenth of a second, and a start waits.
MAX_REPLAYED_REVISIONS = 3_000


class KeyTranslator:
    """Translates keys and revisions between the store and etcd.

    The store's revisions are `ahead` of etcd's if the data came from a store with higher ones: a revision that clients
    have seen must not come again with another meaning.
    """

    def __init__(self, config: EtcdConfig) -> None:
        self.revision_offset = 0
        # Beside our keys, not among them.
        self.revisions_key = b"kubeloop_revisions" + config.prefix.encode()
        self.markers_prefix = b"kubeloop_witnesses" + config.prefix.encode()
        self._ours, self._theirs = config.local_prefix, config.prefix
        self.first = config.prefix.encode()
        self.end = self.first[:-1] + bytes([self.first[-1] + 1])

    def to_etcd(self, key: str) -> bytes:
        """Return a key's name in etcd."""
        return (self._theirs + key.removeprefix(self._ours)).encode()

    def from_etcd(self, key: bytes) -> str | None:
        """Return the store's name of an etcd key; None outside of our prefix."""
        if not key.startswith(self.first):
            return None
        try:
            return self._ours + key[len(self.first) :].decode()
        except UnicodeDecodeError:
            raise StoreCorrupt(f"etcd has a key {key!r} that was not written by an API server") from None

    def record(self, found: KeyValue) -> Record | None:
        """Convert a KeyValue to a record; None outside of our prefix."""
        key = self.from_etcd(found.key)
        if key is None:
            return None
        return Record(
            key, found.value, found.create_revision + self.revision_offset, found.mod_revision + self.revision_offset
        )


async def current_revision(connection: EtcdClient) -> RangeResponse:
    """Return etcd's current revision by a linearizable read."""
    return read_range(await connection.call(RANGE, range_request(b"\0", count_only=True)))


async def load_revisions(connection: EtcdClient, names: KeyTranslator) -> None:
    """Load the offset of the store's revisions to etcd's."""
    found = read_range(await connection.call(RANGE, range_request(names.revisions_key))).found
    names.revision_offset = int(found[0].value) if found else 0


async def load_with_history(connection: EtcdClient, names: KeyTranslator) -> tuple[LoadedLog, int]:
    """Return the oldest state with enough history after it, and the revision that the history reaches."""
    while True:
        present = await current_revision(connection)
        compacted = await _compacted(connection) if present.revision > EMPTY_REVISION else EMPTY_REVISION
        begin = max(compacted, present.revision - MAX_REPLAYED_REVISIONS)
        try:
            records = await _state(connection, names, begin)
        except EtcdError as refused:
            if refused.compacted:  # meanwhile
                continue
            raise
        begin += names.revision_offset
        return LoadedLog(records, [], begin, begin, f"{present.cluster_id:x}"), present.revision + names.revision_offset


async def load_current(connection: EtcdClient, names: KeyTranslator) -> tuple[dict[str, Record], int]:
    """Return the newest state and its revision."""
    while True:
        present = await current_revision(connection)
        try:
            return await _state(connection, names, present.revision), present.revision + names.revision_offset
        except EtcdError as refused:
            if not refused.compacted:
                raise


async def _state(connection: EtcdClient, names: KeyTranslator, revision: int) -> dict[str, Record]:
    records: dict[str, Record] = {}
    first, more = names.first, revision > EMPTY_REVISION
    while more:
        request = range_request(first, names.end, limit=_PAGE, revision=revision)
        answer = read_range(await connection.call(RANGE, request))
        records |= {record.key: record for one in answer.found if (record := names.record(one)) is not None}
        more = answer.more
        first = answer.found[-1].key + b"\0" if answer.found else b""
    return records


async def _compacted(connection: EtcdClient) -> int:
    """Return etcd's compact revision. Only a watch from a compacted revision reports it."""
    while True:
        try:
            async with aclosing(connection.watch(watch_request(EMPTY_REVISION))) as answers:
                async for batch in answers:
                    for answer in batch:
                        if answer.compact_revision or answer.changes:
                            return answer.compact_revision or EMPTY_REVISION
        except Unavailable:
            await current_revision(connection)  # waits for a member that answers, or fails
