# SPDX-License-Identifier: Apache-2.0
"""A process that takes part in an election and, while it leads, writes down so on the server.

python -m tests.contract.election_candidate KUBECONFIG NAME [HOURS]

With hours, by which its clock is ahead of the others'.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from datetime import datetime, timedelta

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client import Client, load_config
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import SystemClock
from kubeloop.runtime.leaderelection.fence import FencedTransport, LeadershipLost
from kubeloop.runtime.leaderelection.leader_elector import LeaderElector, LeaseDurations

TERMS = LeaseDurations(lease_duration=3, renew_deadline=2, retry_period=0.4)


class OffsetClock(SystemClock):
    """Clock that is wrong by hours with seconds of normal length."""

    def __init__(self, hours: float) -> None:
        super().__init__()
        self._ahead = timedelta(hours=hours)

    def now(self) -> datetime:
        return super().now() + self._ahead

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead.total_seconds()


async def take_part(kubeconfig: str, name: str, hours: str = "0") -> None:
    clock = OffsetClock(float(hours))
    transport = HttpTransport(load_config(kubeconfig), clock)
    elector = LeaderElector(Client(transport), "default", "contract", name, clock, terms=TERMS)
    fenced = Client(FencedTransport(transport, elector.fence))

    async def lead() -> None:
        while True:
            meta = ObjectMeta(generate_name="written-", namespace="default")
            await fenced.create(ConfigMap(metadata=meta, data={"by": name, "term": str(elector.term)}))
            await asyncio.sleep(0.02)

    while True:
        with contextlib.suppress(LeadershipLost):
            await elector.run(lead)


async def main() -> None:
    task = asyncio.ensure_future(take_part(*sys.argv[1:]))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


if __name__ == "__main__":
    asyncio.run(main())
