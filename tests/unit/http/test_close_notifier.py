# SPDX-License-Identifier: Apache-2.0
"""The end of a taken-over connection is noticed, whatever its protocol does."""

from __future__ import annotations

import asyncio

from kubeloop.http.upgrade.close_notifier import notify_on_close


class Echo(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


def test_data_is_passed_on_and_the_end_is_told_once() -> None:
    async def scenario() -> None:
        ends: list[str] = []
        echo, done = Echo(), asyncio.Event()

        class FirstProtocol(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                transport.set_protocol(echo)

                def ended() -> None:
                    ends.append("end")
                    done.set()

                notify_on_close(transport, ended)

        loop = asyncio.get_running_loop()
        server = await loop.create_server(FirstProtocol, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(b"hello")
        await writer.drain()
        writer.close()
        await done.wait()
        assert (echo.received, ends) == (b"hello", ["end"])
        await asyncio.sleep(0)
        assert echo.lost
        server.close()
        del reader

    asyncio.run(scenario())
