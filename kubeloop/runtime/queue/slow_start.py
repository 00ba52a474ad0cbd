# SPDX-License-Identifier: Apache-2.0
"""Slow start: equal calls in growing batches, so that a common failure costs a single call.

An exhausted quota fails every call alike. Trying one, then two, then four finds that out with one call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

FIRST_BATCH = 1


async def slow_start(
    count: int, call: Callable[[int], Awaitable[object]], first_batch: int = FIRST_BATCH
) -> tuple[int, Exception | None]:
    """Call with 0 up to the count in batches that double in size; stop after a batch with a failure.

    Returns how many calls succeeded, and the first failure. The calls of a batch run concurrently to their end.
    """
    succeeded = 0
    failures: list[Exception] = []

    async def attempt(number: int) -> None:
        nonlocal succeeded
        try:
            await call(number)
        except Exception as error:
            failures.append(error)
        else:
            succeeded += 1

    begun, batch = 0, min(count, first_batch)
    while batch > 0 and not failures:
        async with asyncio.TaskGroup() as group:
            for number in range(begun, begun + batch):
                group.create_task(attempt(number))
        begun += batch
        batch = min(2 * batch, count - begun)
    return succeeded, failures[0] if failures else None
