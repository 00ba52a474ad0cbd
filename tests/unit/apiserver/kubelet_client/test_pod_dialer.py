# SPDX-License-Identifier: Apache-2.0
"""Pods of real networks are reached at their own addresses."""

from __future__ import annotations

import asyncio

import pytest

from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.aggregator.endpoints import HostPort
from kubeloop.apiserver.kubelet_client.dialer import dial_pod
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.apiserver.kubelet_client.test_dialer import Caller
from tests.unit.apiserver.streaming.fake_transport import in_loop


@in_loop
async def test_both_ends_exchange_data_until_the_pod_is_done() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(shout, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        caller = Caller(b"hel", b"lo\n")
        async with asyncio.timeout(GIVE_UP_SECONDS):
            await dial_pod(HostPort("127.0.0.1", port), caller)
    assert caller.heard == b"HELLO\n"


@in_loop
async def test_refused_port_reports_upstreams_message() -> None:
    with pytest.raises(RemoteUnreachable, match=r"^dial tcp 127\.0\.0\.1:1: connect: connection refused$"):
        await dial_pod(HostPort("127.0.0.1", 1), Caller())
