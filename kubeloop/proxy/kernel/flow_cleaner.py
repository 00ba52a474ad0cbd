# SPDX-License-Identifier: Apache-2.0
"""Deletes stale UDP flows of the kernel in a worker thread."""

from __future__ import annotations

import asyncio

from kubeloop.proxy.ip_family import IPFamily
from kubeloop.proxy.kernel.conntrack import ConntrackTable
from kubeloop.proxy.kernel.stale_flows import Frontends, stale_flows


class ConntrackCleaner:
    """Cleans the flows of one IP family."""

    def __init__(self, family: IPFamily) -> None:
        self._family = family
        self._table = ConntrackTable()

    async def clean(self, frontends: Frontends) -> int:
        """Delete the flows to endpoints that do not serve, and return their number. Raises OSError."""
        return await asyncio.to_thread(self._clean, frontends)

    def _clean(self, frontends: Frontends) -> int:
        flows = stale_flows(self._table.list_udp(self._family), frontends)
        return self._table.delete(self._family, flows) if flows else 0
