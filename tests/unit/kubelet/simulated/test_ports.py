# SPDX-License-Identifier: Apache-2.0
"""Tests of ports of simulated containers."""

from __future__ import annotations

import asyncio

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerPort,
    HTTPGetAction,
    Pod,
    PodSpec,
    Probe,
    TCPSocketAction,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.simulated.ports import container_listening_on, listening_ports, serve_connection

APP = Container(name="app", ports=(ContainerPort(container_port=80, name="http"),))
POD = Pod(metadata=ObjectMeta(name="web", namespace="shop"), spec=PodSpec(node_name="n1", containers=(APP,)))
PAGE = b"simulated container app of pod shop/web on node n1, port 80: %b\n"


class Connection:
    """A client that sends its pieces one after the other."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self.heard = b""

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def write(self, data: bytes) -> None:
        self.heard += data


def exchange_bytes(*pieces: bytes) -> bytes:
    connection = Connection(*pieces)
    asyncio.run(serve_connection(POD, APP, 80, connection))
    return connection.heard


def page(path: bytes, more: bytes = b"", *, shown: bool = True) -> bytes:
    body = PAGE % path
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n" % len(body)
    return head + more + b"\r\n" + (body if shown else b"")


def test_page_shows_its_pod() -> None:
    assert exchange_bytes(b"GET /a?b HT", b"TP/1.1\r\nHost: x\r\n", b"\r\n") == page(b"/a?b")
    assert exchange_bytes(b"HEAD / HTTP/1.1\r\n\r\n") == page(b"/", shown=False)


def test_pipelined_requests_with_bodies_are_served() -> None:
    first = b"POST /one HTTP/1.1\r\nContent-Length: 5\r\n\r\nhel"
    second = b"loGET /two HTTP/1.1\r\nConnection: close\r\n\r\n"
    assert exchange_bytes(first, second, b"GET /never HTTP/1.1\r\n\r\n") == page(b"/one") + page(
        b"/two", b"Connection: close\r\n"
    )


def test_non_http_data_is_echoed() -> None:
    assert exchange_bytes(b"PING\r\n", b"again\r\n") == b"PING\r\nagain\r\n"
    assert exchange_bytes(b"\x16\x03\x01") == b"\x16\x03\x01"


def test_listening_ports_are_container_and_probe_ports() -> None:
    probed = Container(
        name="probed",
        ports=(ContainerPort(container_port=8080, name="web"),),
        liveness_probe=Probe(http_get=HTTPGetAction(port="web")),
        readiness_probe=Probe(tcp_socket=TCPSocketAction(port=9000)),
    )
    assert listening_ports(probed) == {8080, 9000}
    assert listening_ports(Container(name="silent")) == set()
    assert container_listening_on(POD, 80) is APP
    assert container_listening_on(POD, 81) is None
