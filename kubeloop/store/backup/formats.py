# SPDX-License-Identifier: Apache-2.0
"""Format version of stored values, kept beside them, and the migration steps from older formats.

1   objects as JSON, without their resourceVersion; node ports of shared stores under /registry/ranges/

A program that finds a newer version does not touch the data. One that finds an older version takes the steps between,
one after the other, before it serves. An interrupted step is repeated from its beginning: it must leave values alone
that it has already changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from kubeloop.store.base import Record, Store
from kubeloop.store.errors import StoreConflict, StoreCorrupt, StoreError

FORMAT_KEY: Final = "/registry/kubeloop.io/format"
_AT_ONCE: Final = 256


class FormatMigration(NamedTuple):
    """Migration from the previous format to `number`: maps a record's value (None: delete it)."""

    number: int
    change: Callable[[str, bytes], bytes | None]


FIRST: Final = 1
STEPS: Final[tuple[FormatMigration, ...]] = ()


async def ensure_format(store: Store, steps: Sequence[FormatMigration] = STEPS) -> None:
    """Migrate an open store to the format that this program writes. `StoreError` if it is newer."""
    newest = steps[-1].number if steps else FIRST
    await store.wait_current()
    found, present = store.get(FORMAT_KEY), newest
    if found is not None:
        present = _number(found)
    elif store.range("", limit=1).records:
        present = FIRST  # from before there were numbers
    if present > newest:
        raise StoreError(
            f"the data has format {present}, but this version supports formats up to {newest}: use a newer version"
        )
    for step in steps:
        if step.number > present:
            await _apply_migration(store, step)
            await _note(store, step.number)
    if store.get(FORMAT_KEY) is None:
        await _note(store, newest)


async def _apply_migration(store: Store, step: FormatMigration) -> None:
    while changes := [
        (record, value)
        for record in store.range("").records
        if record.key != FORMAT_KEY and (value := step.change(record.key, record.value)) != record.value
    ]:
        for begin in range(0, len(changes), _AT_ONCE):
            part = changes[begin : begin + _AT_ONCE]
            writes = [store.write(record.key, value, record.mod_revision) for record, value in part]
            for result in await asyncio.gather(*writes, return_exceptions=True):
                if isinstance(result, BaseException) and not isinstance(result, StoreConflict):
                    raise result


async def _note(store: Store, number: int) -> None:
    found = store.get(FORMAT_KEY)
    with suppress(StoreConflict):  # another server takes the same steps
        await store.write(FORMAT_KEY, str(number).encode(), 0 if found is None else found.mod_revision)


def _number(found: Record) -> int:
    if not found.value.isdigit():
        raise StoreCorrupt(f"the format of the data is {found.value[:20]!r}, which is not a number")
    return int(found.value)
