# SPDX-License-Identifier: Apache-2.0
"""Requests to ports that are reached through a node: one request, one whole response."""

from __future__ import annotations

import asyncio

import pytest

from kubeloop.api import errors
from kubeloop.api.kubelet_requests import PortConnection
from kubeloop.apiserver.streaming.exchange import send_request
from kubeloop.http import Request, Response
from kubeloop.sim.loop import run_virtual

ADDRESS = "10.0.0.7:80"


def exchanged(request: Request, *pieces: bytes) -> tuple[bytes, Response]:
    """The bytes that the port received, and the response made of what it wrote."""
    received = b""

    async def port(connection: PortConnection) -> None:
        nonlocal received
        while data := await connection.read():
            received += data
        for piece in pieces:
            await connection.write(piece)

    response = run_virtual(send_request(request, ADDRESS, port))
    return received, response


def test_request_has_its_body_and_closes_the_connection() -> None:
    request = Request("POST", "/a", "b=c", {"x-own": "1"})
    request.body = b"hello"
    sent, _ = exchanged(request, b"HTTP/1.1 204 No Content\r\n\r\n")
    head, _, body = sent.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST /a?b=c HTTP/1.1",
        b"x-own: 1",
        b"host: 10.0.0.7:80",
        b"connection: close",
        b"Content-Length: 5",
    ]
    assert body == b"hello"


@pytest.mark.parametrize(
    "pieces",
    [
        (b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Type: t\r\nContent-Length: 2\r\n\r\nok",),
        (b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Type: t\r\n\r\no", b"k"),
        (
            b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Ty",
            b"pe: t\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        (b"HTTP/1.1 100 Continue\r\nX-B: 2\r\n\r\nHTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Type: t\r\n\r\nok",),
        (b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Type: t\r\nContent-Length: 2\r\n\r\nok", b"more"),
    ],
    ids=["sized", "until the end", "chunked", "after an interim response", "followed by more"],
)
def test_response_is_returned_completely(pieces: tuple[bytes, ...]) -> None:
    _, response = exchanged(Request("GET", "/"), *pieces)
    assert (response.status, response.body, response.content_type) == (200, b"ok", "t")
    assert response.headers == (("X-A", "1"),)


def test_a_response_to_head_has_no_body() -> None:
    _, response = exchanged(Request("HEAD", "/"), b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")
    assert (response.status, response.body) == (200, b"")


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"SSH-2.0-OpenSSH_9.6\r\n",),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", b"x" * ((64 << 20) + 1)),
    ],
    ids=["nothing", "another protocol", "an upgrade", "too much"],
)
def test_invalid_response_is_service_unavailable(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(errors.ApiError, match="error trying to reach service: malformed HTTP response") as refused:
        exchanged(Request("GET", "/"), *pieces)
    assert refused.value.code == 503


def test_unresponsive_port_times_out() -> None:
    async def silent(_: PortConnection) -> None:
        await asyncio.sleep(3600)

    with pytest.raises(errors.ApiError, match="i/o timeout"):
        run_virtual(send_request(Request("GET", "/"), ADDRESS, silent))
