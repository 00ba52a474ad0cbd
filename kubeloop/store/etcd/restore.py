# SPDX-License-Identifier: Apache-2.0
"""Restores a snapshot into etcd through its API, without stopping it or accessing its files.

etcd assigns revisions itself. If the data had reached a higher one than etcd has, the offset is stored
(`kubeloop.store.etcd.load.KeyTranslator`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kubeloop.clock import SystemClock
from kubeloop.store.errors import StoreError
from kubeloop.store.etcd.client import COMPACT, PUT, RANGE, REMOVE, EtcdClient, EtcdError
from kubeloop.store.etcd.config import EtcdConfig, config_of_url
from kubeloop.store.etcd.load import KeyTranslator, current_revision, load_revisions
from kubeloop.store.etcd.messages import (
    compaction_request,
    delete_range_request,
    put_request,
    range_request,
    read_range,
)
from kubeloop.store.etcd.store import EtcdStore
from kubeloop.store.log import LoadedLog

if TYPE_CHECKING:
    from kubeloop.store.backup.migrate import RestoreOptions

_AT_ONCE: Final = 256


async def restore_etcd(content: LoadedLog, url: str, how: RestoreOptions) -> int:
    """Restore a snapshot; returns the revision that the store continues from."""
    config = config_of_url(url)
    await _prepare(config, content.revision + how.revision_offset, how)
    store = EtcdStore(config)
    for prefix, seconds in how.ttl_prefixes:
        store.set_ttl(prefix, seconds)
    await store.start()
    try:
        records = sorted(content.records.values(), key=lambda record: record.mod_revision)
        for begin in range(0, len(records), _AT_ONCE):
            await asyncio.gather(*(store.write(one.key, one.value, 0) for one in records[begin : begin + _AT_ONCE]))
        return store.revision
    finally:
        await store.close()


async def _prepare(config: EtcdConfig, revision: int, how: RestoreOptions) -> None:
    """Delete existing keys, and store the offset of our revisions to etcd's."""
    connection, names = EtcdClient(config, SystemClock()), KeyTranslator(config)
    connection.open()
    try:
        await load_revisions(connection, names)
        await _make_room(connection, names, how)
        present = (await current_revision(connection)).revision
        ahead = max(names.revision_offset, revision - present)
        if ahead:
            await connection.call(PUT, put_request(names.revisions_key, str(ahead).encode()))
            present = (await current_revision(connection)).revision
            await _forget(connection, present)  # what was there before had other revisions
    finally:
        await connection.close()


async def _make_room(connection: EtcdClient, names: KeyTranslator, how: RestoreOptions) -> None:
    for prefix in how.excluded_prefixes:
        first = names.to_etcd(prefix)
        running = await connection.call(RANGE, range_request(first, first[:-1] + bytes([first[-1] + 1]), limit=1))
        if read_range(running).found:
            raise StoreError("this etcd is in use by API servers, or was seconds ago: stop them first")
    if not read_range(await connection.call(RANGE, range_request(names.first, names.end, limit=1))).found:
        return
    if not how.replace:
        raise StoreError(f"etcd has data under {names.first.decode()}, which would be replaced")
    await connection.call(REMOVE, delete_range_request(names.first, names.end))


async def _forget(connection: EtcdClient, revision: int) -> None:
    try:
        await connection.call(COMPACT, compaction_request(revision))
    except EtcdError as refused:
        if not refused.compacted:
            raise
