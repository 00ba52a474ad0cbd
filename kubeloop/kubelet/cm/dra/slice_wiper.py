# SPDX-License-Identifier: Apache-2.0
"""Removes the ResourceSlices of drivers that are gone, so that no pods are scheduled to their devices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kubeloop.api.generated.resource_v1 import ResourceSlice
from kubeloop.client import ApiError, Client, ClientError, NotFound
from kubeloop.clock import Clock

# Time that the plugin of a driver has to come back; a restart of its pod should fit in.
WIPING_DELAY_SECONDS = 30.0
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS, _JITTER = 1.0, 300.0, 0.2

log = logging.getLogger(__name__)


class ResourceSliceWiper:
    """Deletes the slices of one node, of one driver or all; `has_node` is False until the node is registered."""

    def __init__(self, client: Client, node: str, has_node: Callable[[], bool], clock: Clock) -> None:
        self._client = client
        self._node = node
        self._has_node = has_node
        self._clock = clock
        self._pending: dict[str, asyncio.Task[None]] = {}  # by driver; the task is kept while it waits or deletes

    def schedule(self, driver: str) -> None:
        """Delete the slices of a driver after the delay, unless that is cancelled; a pending deletion stays."""
        if driver not in self._pending:
            self._pending[driver] = asyncio.create_task(self._wipe_later(driver))

    def cancel(self, driver: str) -> None:
        """Keep the slices of a driver that is usable again."""
        if (task := self._pending.pop(driver, None)) is not None:
            task.cancel()

    async def wipe(self, driver: str = "") -> None:
        """Delete the slices of a driver, or of all, until that succeeds."""
        fields = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        wait = _FIRST_RETRY_SECONDS
        while not await self._delete(fields):
            await asyncio.sleep(wait * (1 + _JITTER * self._clock.random().random()))
            wait = min(2 * wait, _MAX_RETRY_SECONDS)

    async def close(self) -> None:
        """Cancel all deletions."""
        tasks = list(self._pending.values())
        self._pending.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wipe_later(self, driver: str) -> None:
        await asyncio.sleep(WIPING_DELAY_SECONDS)
        await self.wipe(driver)
        del self._pending[driver]

    async def _delete(self, fields: str) -> bool:
        if not self._has_node():
            return False
        try:
            await self._client.delete_collection(ResourceSlice, fields=fields)
        except NotFound:  # the API server does not serve them
            return True
        except (ApiError, ClientError, OSError) as error:
            log.info("deleting ResourceSlices with %s: %s", fields, error)
            return False
        return True
