# SPDX-License-Identifier: Apache-2.0
"""Probes against real servers on the loopback interface."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import grpc
import pytest

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerPort,
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    HTTPHeader,
    Probe,
    TCPSocketAction,
)
from kubeloop.cli.pki.self_signed_certificate import ensure_self_signed
from kubeloop.grpc.message import GrpcMessage, decode_message, encode_message
from kubeloop.grpc.streams import DEADLINE_EXCEEDED, UNAVAILABLE, RpcError
from kubeloop.kubelet.cri.lifecycle import http_action
from kubeloop.kubelet.cri.lifecycle.probers import Prober, ProbeTarget
from kubeloop.kubelet.cri.messages.streaming import ExecSyncResponse
from kubeloop.kubelet.runtime import ProbeResult
from tests.unit.kubelet.cri.fake_runtime import FakeRuntime


@asynccontextmanager
async def http_server(
    answers: dict[str, str], requests: list[str], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve status lines with headers by path."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError):
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            requests.append(request)
            if answer := answers[request.split(" ")[1]]:
                writer.write(f"HTTP/1.1 {answer}\r\nContent-Length: 4\r\n\r\nbody".encode())
            else:
                await reader.read()  # until the client gives up
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def probe(probe: Probe, port: int = 0, runtime: FakeRuntime | None = None) -> ProbeResult:
    container = Container(name="main", ports=(ContainerPort(name="http", container_port=port or 1),))
    prober = Prober((runtime or FakeRuntime()).as_service())
    return await prober.probe(ProbeTarget(container, "c", "127.0.0.1"), probe)


ANSWERS = {
    "/ok": "200 OK",
    "/no-content": "299 Fine",
    "/bad": "400 Bad Request",
    "/down": "500 Error",
    "/local": "302 Found\r\nLocation: /ok",
    "/loop": "302 Found\r\nLocation: /loop",
    "/away": "302 Found\r\nLocation: http://example.invalid/",
    "/hang": "",
}


@pytest.mark.parametrize(
    ("path", "is_success", "output"),
    [
        ("/ok", True, "body"),
        ("ok", True, "body"),
        ("/no-content", True, "body"),
        ("/bad", False, "HTTP probe failed with statuscode: 400"),
        ("/down", False, "HTTP probe failed with statuscode: 500"),
        ("/local", True, "body"),
        ("/loop", False, "stopped after 10 redirects"),
        ("/away", True, "Probe terminated redirects, Response body: body"),
        ("/hang", False, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
    ],
)
def test_http(path: str, is_success: bool, output: str) -> None:
    async def scenario() -> ProbeResult:
        async with http_server(ANSWERS, []) as port:
            return await probe(Probe(http_get=HTTPGetAction(path=path, port="http"), timeout_seconds=1), port)

    found = asyncio.run(scenario())
    assert found.ok == is_success
    assert output in found.output
    assert found.is_warning == (path == "/away")


def test_certificates_are_not_verified(tmp_path: Path) -> None:
    async def scenario() -> ProbeResult:
        async with http_server(ANSWERS, [], tls) as port:
            action = HTTPGetAction(path="/local", port=port, scheme="HTTPS")
            return await probe(Probe(http_get=action, timeout_seconds=30), port)

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*ensure_self_signed(tmp_path, "other.name", ["other.name"], datetime.now(UTC)))
    assert asyncio.run(scenario()) == ProbeResult(True, "body")


def test_headers_of_http_probes() -> None:
    async def scenario() -> str:
        requests: list[str] = []
        async with http_server(ANSWERS, requests) as port:
            headers = (HTTPHeader(name="x-own", value="1"), HTTPHeader(name="Host", value="name"))
            await probe(Probe(http_get=HTTPGetAction(path="/ok", port=port, http_headers=headers)), port)
        return requests[0]

    request = asyncio.run(scenario())
    assert "X-Own: 1\r\n" in request
    assert "Host: name\r\n" in request
    assert "Accept: */*\r\n" in request
    assert "User-Agent: kube-probe/1." in request


def test_ports_by_name() -> None:
    container = Container(name="main", ports=(ContainerPort(name="http", container_port=80),))
    assert [http_action.resolve_port(one, container) for one in (8080, "9090", "http")] == [8080, 9090, 80]
    with pytest.raises(http_action.HttpActionError, match="couldn't find port: gone in container: main"):
        http_action.resolve_port("gone", container)
    action = HTTPGetAction(path="/x", port="http", scheme="HTTPS")
    assert http_action.url_of(action, container, "fd00::1") == "https://[fd00::1]:80/x"


async def closed_port() -> int:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


def test_tcp() -> None:
    async def scenario() -> tuple[ProbeResult, ProbeResult, int]:
        async with http_server({}, []) as port:
            up = await probe(Probe(tcp_socket=TCPSocketAction(port=port)), port)
        closed = await closed_port()
        return up, await probe(Probe(tcp_socket=TCPSocketAction(port=closed))), closed

    up, down, port = asyncio.run(scenario())
    assert up == ProbeResult(True)
    assert down == ProbeResult(False, f"dial tcp 127.0.0.1:{port}: connect: connection refused")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ExecSyncResponse(stdout=b"out", stderr=b"err"), ProbeResult(True, "outerr")),
        (ExecSyncResponse(exit_code=2, stdout=b"out"), ProbeResult(False, "out")),
        (ExecSyncResponse(stdout=b"x" * 20_000), ProbeResult(True, "x" * 10_240)),
        (
            RpcError(DEADLINE_EXCEEDED, "late"),
            ProbeResult(False, "command timed out: cat /x timed out after 3s"),
        ),
    ],
)
def test_exec(answer: ExecSyncResponse | RpcError, expected: ProbeResult) -> None:
    async def scenario() -> ProbeResult:
        runtime = FakeRuntime()
        runtime.exec_answers = [answer]
        return await probe(Probe(exec=ExecAction(command=("cat", "/x")), timeout_seconds=3), 0, runtime)

    assert asyncio.run(scenario()) == expected


@pytest.mark.parametrize("errors", [1, 3])
def test_error_of_the_runtime_is_no_result(errors: int) -> None:
    """A container is not restarted because its runtime was: the probe is tried again."""

    async def scenario() -> ProbeResult:
        runtime = FakeRuntime()
        runtime.exec_answers = [*[RpcError(UNAVAILABLE, "down")] * errors, ExecSyncResponse(stdout=b"up")]
        return await probe(Probe(exec=ExecAction(command=("true",))), 0, runtime)

    failed = ProbeResult(False, "rpc error: code = Unavailable desc = down", is_error=True)
    assert asyncio.run(scenario()) == (failed if errors == 3 else ProbeResult(True, "up"))


def test_unknown_port_is_no_result() -> None:
    found = asyncio.run(probe(Probe(tcp_socket=TCPSocketAction(port="gone")), 0))
    assert (found.is_error, found.output) == (True, "couldn't find port: gone in container: main")


class HealthRequest(GrpcMessage, frozen=True, kw_only=True):
    service: Annotated[str, 1] = ""


class HealthResponse(GrpcMessage, frozen=True, kw_only=True):
    status: Annotated[int, 1] = 0


async def check_health(service: str, *, is_implemented: bool = True) -> ProbeResult:
    async def check(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        asked = decode_message(HealthRequest, request).service
        return encode_message(HealthResponse(status={"": 1, "up": 1, "down": 2}[asked]))

    server = grpc.aio.server()
    name = "grpc.health.v1.Health" if is_implemented else "other"
    handlers = {"Check": grpc.unary_unary_rpc_method_handler(check)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        return await probe(Probe(grpc=GRPCAction(port=port, service=service), timeout_seconds=5))
    finally:
        await server.stop(None)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ("", ProbeResult(True, "service healthy")),
        ("up", ProbeResult(True, "service healthy")),
        ("down", ProbeResult(False, 'service unhealthy (responded with "NOT_SERVING")')),
    ],
)
def test_grpc(service: str, expected: ProbeResult) -> None:
    assert asyncio.run(check_health(service)) == expected


def test_a_grpc_server_without_the_health_service() -> None:
    found = asyncio.run(check_health("", is_implemented=False))
    assert not found.ok
    assert "this server does not implement the grpc health protocol" in found.output
