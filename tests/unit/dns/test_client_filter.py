# SPDX-License-Identifier: Apache-2.0
"""Clients outside of the given networks are refused, over UDP and TCP."""

import asyncio

import pytest

from kubeloop.clock import SystemClock
from kubeloop.dns.listeners import DnsListeners, bind_sockets, socket_address
from kubeloop.dns.server.client_filter import ClientFilter
from kubeloop.dns.server.handler import DnsHandler
from kubeloop.dns.server.metrics import DnsMetrics
from kubeloop.metrics import MetricRegistry
from tests.unit.dns.test_server import ZONE, datagram_client, run

QUERY = (
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03web\x07default\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01"
)
REFUSED = 5


@pytest.mark.parametrize(
    ("networks", "host", "is_allowed"),
    [
        ((), "192.0.2.1", True),
        (("10.244.0.0/16",), "10.244.7.1", True),
        (("10.244.0.0/16",), "::ffff:10.244.7.1", True),
        (("10.244.0.0/16",), "192.0.2.1", False),
        (("10.244.0.0/16", "fd44::/48"), "fd44::5", True),
        (("10.244.0.0/16",), "fd44::5", False),
        (("fe80::/10",), "fe80::1%eth0", True),
    ],
)
def test_networks(networks: tuple[str, ...], host: str, is_allowed: bool) -> None:
    assert ClientFilter(networks).is_allowed(host) is is_allowed


def test_addresses_are_replaced() -> None:
    clients = ClientFilter(["10.244.0.0/16"])
    clients.set_addresses(["192.0.2.1", "2001:db8::1"])
    assert clients.is_allowed("192.0.2.1")
    assert clients.is_allowed("2001:db8::1")
    clients.set_addresses(["192.0.2.2"])
    assert not clients.is_allowed("192.0.2.1")
    assert clients.is_allowed("10.244.0.1")


@pytest.mark.parametrize(("network", "is_refused"), [("127.0.0.0/8", False), ("192.0.2.0/24", True)])
def test_queries_of_other_clients_are_refused(network: str, is_refused: bool) -> None:
    async def check() -> None:
        handler = DnsHandler(ZONE, None, SystemClock())
        listeners = DnsListeners(handler, DnsMetrics(MetricRegistry(), "dns://:53"), ClientFilter([network]))
        pairs = bind_sockets(("127.0.0.1",), 0)
        address = socket_address(pairs[0])
        await listeners.listen(pairs)
        async with datagram_client(address) as (transport, client):
            transport.sendto(QUERY)
            over_udp = await client.received.get()
        reader, writer = await asyncio.open_connection(*address)
        writer.write(len(QUERY).to_bytes(2) + QUERY)
        over_tcp = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
        writer.close()
        await listeners.close()
        for response in (over_udp, over_tcp):
            assert response[:2] == QUERY[:2]
            assert (response[3] & 0xF == REFUSED) is is_refused
            assert not is_refused or len(response) == 12

    run(check)
