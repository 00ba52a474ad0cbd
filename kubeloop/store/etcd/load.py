"""Reads what etcd holds under our prefix: the state at a revision, and how far back its history goes."""

from __future__ import annotations

from contextlib import aclosing

from kubeloop.store.base import EMPTY_REVISION, Record
from kubeloop.store.errors import StoreCorrupt
from kubeloop.store.etcd.config import EtcdConfig
from kubeloop.store.etcd.grpc.client import RANGE, Connection, Refused, Unavailable
from kubeloop.store.etcd.messages import KeyValue, RangeAnswer, range_request, read_range, watch_request
from kubeloop.store.log import LoadedLog

_PAGE = 1000
# Older history is not asked for: etcd tells of a thousand past revisions each tenth of a second, and a start waits.
MOST_REPLAYED = 3_000


class Names:
    """Our keys and revisions, as they are called in etcd, and back.

    Ours are `ahead` of etcd's revisions if the data came from elsewhere, where it had reached more: what clients have
    seen must not come again with another meaning.
    """

    def __init__(self, config: EtcdConfig) -> None:
        self.ahead = 0
        # Beside our keys, not among them.
        self.revisions_key = b"kubeloop_revisions" + config.prefix.encode()
        self.witnesses = b"kubeloop_witnesses" + config.prefix.encode()
        self._ours, self._theirs = config.local_prefix, config.prefix
        self.first = config.prefix.encode()
        self.end = self.first[:-1] + bytes([self.first[-1] + 1])

    def theirs(self, key: str) -> bytes:
        return (self._theirs + key.removeprefix(self._ours)).encode()

    def ours(self, key: bytes) -> str | None:
        """None for a key that is not ours."""
        if not key.startswith(self.first):
            return None
        try:
            return self._ours + key[len(self.first) :].decode()
        except UnicodeDecodeError:
            raise StoreCorrupt(f"etcd holds a key {key!r} that no API server has written") from None

    def record(self, found: KeyValue) -> Record | None:
        key = self.ours(found.key)
        if key is None:
            return None
        return Record(key, found.value, found.create_revision + self.ahead, found.mod_revision + self.ahead)


async def current_revision(connection: Connection) -> RangeAnswer:
    """What etcd's members agree on this moment."""
    return read_range(await connection.call(RANGE, range_request(b"\0", count_only=True)))


async def load_revisions(connection: Connection, names: Names) -> None:
    """How far ahead of etcd's revisions ours are."""
    found = read_range(await connection.call(RANGE, range_request(names.revisions_key))).found
    names.ahead = int(found[0].value) if found else 0


async def load_past(connection: Connection, names: Names) -> tuple[LoadedLog, int]:
    """The oldest state that there is enough history after, and the revision that the history reaches by now."""
    while True:
        present = await current_revision(connection)
        compacted = await _compacted(connection) if present.revision > EMPTY_REVISION else EMPTY_REVISION
        begin = max(compacted, present.revision - MOST_REPLAYED)
        try:
            records = await _state(connection, names, begin)
        except Refused as refused:
            if refused.compacted:  # meanwhile
                continue
            raise
        begin += names.ahead
        return LoadedLog(records, [], begin, begin, f"{present.cluster_id:x}"), present.revision + names.ahead


async def load_present(connection: Connection, names: Names) -> tuple[dict[str, Record], int]:
    """The newest state, and its revision."""
    while True:
        present = await current_revision(connection)
        try:
            return await _state(connection, names, present.revision), present.revision + names.ahead
        except Refused as refused:
            if not refused.compacted:
                raise


async def _state(connection: Connection, names: Names, revision: int) -> dict[str, Record]:
    records: dict[str, Record] = {}
    first, more = names.first, revision > EMPTY_REVISION
    while more:
        request = range_request(first, names.end, limit=_PAGE, revision=revision)
        answer = read_range(await connection.call(RANGE, request))
        records |= {record.key: record for one in answer.found if (record := names.record(one)) is not None}
        more = answer.more
        first = answer.found[-1].key + b"\0" if answer.found else b""
    return records


async def _compacted(connection: Connection) -> int:
    """Up to where history is forgotten. Only a watch that asks for too much is told."""
    while True:
        try:
            async with aclosing(connection.watch(watch_request(EMPTY_REVISION))) as answers:
                async for batch in answers:
                    for answer in batch:
                        if answer.compact_revision or answer.changes:
                            return answer.compact_revision or EMPTY_REVISION
        except Unavailable:
            await current_revision(connection)  # waits for a member that answers, or fails
