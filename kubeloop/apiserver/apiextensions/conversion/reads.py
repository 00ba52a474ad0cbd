# SPDX-License-Identifier: Apache-2.0
"""Reads that need conversion: prepares the objects, then performs the read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from kubeloop.apiserver.apiextensions.conversion.serializer import NotConvertedError
from kubeloop.apiserver.apiextensions.conversion.watch_hub import values_of
from kubeloop.apiserver.registry.storage import Conversion, ResourceStorage
from kubeloop.apiserver.watch.hub import WatchChange

Result = TypeVar("Result")


async def read_converted(
    storage: ResourceStorage, conversion: Conversion, namespace: str, name: str, read: Callable[[], Awaitable[Result]]
) -> Result:
    """Return the result of reading an object, or a collection if there is no name. Raises an ApiError."""
    if name:
        record = storage.get(namespace, name)
        await conversion.prepare([] if record is None else [record.value])
    else:
        records = storage.store.range(storage.prefix(namespace)).records
        await conversion.prepare([record.value for record in records], as_list=True)
    while True:
        try:
            return await read()
        except NotConvertedError as missing:  # an older object that the list requested, or one written meanwhile
            await conversion.prepare([missing.value])


async def prepare_past(storage: ResourceStorage, conversion: Conversion, asked: int) -> None:
    """Convert everything that a watch starts with; on return the store is unchanged since. Raises an ApiError."""
    while True:
        revision = storage.store.revision
        values = [record.value for record in storage.store.range(storage.prefix("")).records]
        if asked:
            values += values_of([change.event for change in storage.hub.replay(asked)])
        await conversion.prepare(values)
        if storage.store.revision == revision:
            return


async def prepare_changes(conversion: Conversion, changes: Sequence[WatchChange]) -> None:
    """Convert the objects of changes. Raises an ApiError."""
    await conversion.prepare(values_of([change.event for change in changes]))
