# SPDX-License-Identifier: Apache-2.0
"""The fence of a process that was suspended: what it had begun to write stays unwritten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client import Client
from kubeloop.client.config.server_config import ServerConfig
from kubeloop.client.http import transport as http_transport
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import SystemClock
from kubeloop.runtime.leaderelection.fence import Fence, FencedTransport, LeadershipLost
from tests.unit.client.raw_server import NODE, Peer, answer, raw_server

LEASE_SECONDS = 10.0
MADE = Node(metadata=ObjectMeta(name="n"))


class SuspendedClock(SystemClock):
    """The clock of a process that did not run for a while and could not notice."""

    def __init__(self) -> None:
        super().__init__()
        self._away = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._away

    def suspend(self, seconds: float) -> None:
        self._away += seconds


async def _serve(peer: Peer, _: int) -> None:
    while True:
        await peer.request()
        await peer.say(answer(NODE))


@pytest.mark.parametrize("seconds", [LEASE_SECONDS - 1, LEASE_SECONDS + 1])
def test_queued_write_is_rejected_after_a_long_suspension(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SuspendedClock()
    dial = http_transport.dial

    async def slow_dial(*args: Any) -> Any:
        connection = await dial(*args)
        clock.suspend(seconds)
        return connection

    monkeypatch.setattr(http_transport, "dial", slow_dial)

    async def main() -> None:
        async with raw_server(_serve) as server:
            fence = Fence(clock)
            fence.open_until(clock.monotonic() + LEASE_SECONDS)
            transport = HttpTransport(ServerConfig(f"http://127.0.0.1:{server.port}"), clock, environ={})
            client = Client(FencedTransport(transport, fence))
            try:
                if seconds < LEASE_SECONDS:
                    await client.create(MADE)
                else:
                    with pytest.raises(LeadershipLost):
                        await client.create(MADE)
            finally:
                await client.close()
            assert len(server.heads) == (1 if seconds < LEASE_SECONDS else 0)

    asyncio.run(main())


def test_suspended_process_reads_but_writes_only_after_renewal() -> None:
    clock = SuspendedClock()

    async def main() -> None:
        async with raw_server(_serve) as server:
            fence = Fence(clock)
            transport = HttpTransport(ServerConfig(f"http://127.0.0.1:{server.port}"), clock, environ={})
            client = Client(FencedTransport(transport, fence))
            try:
                fence.open_until(clock.monotonic() + LEASE_SECONDS)
                await client.create(MADE)
                clock.suspend(LEASE_SECONDS)
                await client.get(Node, "n")
                with pytest.raises(LeadershipLost):
                    await client.create(MADE)
                fence.open_until(clock.monotonic() + LEASE_SECONDS)
                await client.create(MADE)
            finally:
                await client.close()
            assert [head.split(" ")[0] for head in server.heads] == ["POST", "GET", "POST"]

    asyncio.run(main())
