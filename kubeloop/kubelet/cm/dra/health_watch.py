# SPDX-License-Identifier: Apache-2.0
"""Watch of the health streams of drivers: changes of devices queue the pods that use them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

from kubeloop.grpc.streams import UNIMPLEMENTED, RpcError
from kubeloop.kubelet.cm.dra.claim_info_cache import ClaimInfoCache
from kubeloop.kubelet.cm.dra.health_info import DeviceHealth, HealthInfoCache
from kubeloop.kubelet.cm.dra.plugin import DRAPlugin

_RETRY_SECONDS = 5.0

log = logging.getLogger(__name__)


class HealthWatch:
    """Handles health streams; `enqueue` queues the pod with a UID."""

    def __init__(self, health: HealthInfoCache, claims: ClaimInfoCache, enqueue: Callable[[str], None]) -> None:
        self._health = health
        self._claims = claims
        self._enqueue = enqueue

    async def run(self, plugin: DRAPlugin) -> None:
        """Read the stream of a plugin, again after each end, until the plugin does not implement it."""
        while True:
            try:
                async with aclosing(plugin.node_watch_resources()) as reports:
                    async for report in reports:
                        self._handle(plugin.driver, self._health.update(plugin.driver, report.devices))
            except RpcError as error:
                log.info("health stream of DRA driver %s has ended: %s", plugin.driver, error.format())
                if error.code == UNIMPLEMENTED:
                    return
            finally:
                self._health.clear(plugin.driver)
            await asyncio.sleep(_RETRY_SECONDS)

    def _handle(self, driver: str, changed: list[DeviceHealth]) -> None:
        names = {(one.pool_name, one.device_name) for one in changed}
        pods: set[str] = set()
        for info in self._claims if names else ():
            state = info.drivers.get(driver)
            devices = (state.devices or ()) if state is not None else ()
            if any((one.pool_name, one.device_name) in names for one in devices):
                pods.update(info.pod_uids)
        for uid in sorted(pods):
            self._enqueue(uid)
