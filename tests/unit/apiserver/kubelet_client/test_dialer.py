# SPDX-License-Identifier: Apache-2.0
"""Tests of requests to kubelets and their responses."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeloop.api.errors import ApiError, BadRequest, NotFound, ServiceUnavailable
from kubeloop.api.kubelet_requests import (
    CommandFailed,
    NodeConnectionRefused,
    NodeForwardFailed,
    PodLogOptions,
    PodStreamRequest,
    TerminalSize,
)
from kubeloop.apiserver.kubelet_client.dialer import KubeletClient, NodePort
from kubeloop.apiserver.kubelet_client.kubelet_tls import KubeletClientConfig
from kubeloop.apiserver.kubelet_client.proxyable_address import parse_address, resolve_proxyable
from kubeloop.clock import SystemClock
from kubeloop.http import HttpLimits, Request, Response, serve
from kubeloop.metrics import MetricValue
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.apiserver.kubelet_client.fake_kubelet import POD, Authority, FakeNodes, Terminal, kubelet, node_at
from tests.unit.apiserver.streaming.fake_transport import in_loop

NOWHERE = 1  # a closed port


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Path]:
    authority = Authority(tmp_path_factory.mktemp("keys"))
    return authority, authority.signed("system:node:n1")


class DialedKubelet:
    """Kubelet and its client."""

    def __init__(self, kubelets: KubeletClient, nodes: FakeNodes) -> None:
        self.kubelets = kubelets
        self.nodes = nodes

    async def log(self, container: str = "app") -> bytes:
        return b"".join([piece async for piece in self.kubelets.logs(POD, container, PodLogOptions())])

    async def run(self, command: tuple[str, ...], terminal: Terminal) -> int:
        wanted = PodStreamRequest("exec", command, terminal.stdin, True, not terminal.tty, terminal.tty)
        connections = await self.kubelets.open(POD, "app", wanted)
        async with asyncio.timeout(GIVE_UP_SECONDS):
            return await connections.execute(POD, "app", command, terminal)


@asynccontextmanager
async def dialled(certificate: tuple[Authority, Path]) -> AsyncIterator[DialedKubelet]:
    authority, pem = certificate
    nodes = FakeNodes()
    async with kubelet(pem, nodes) as port:
        config = KubeletClientConfig(own_authority=authority.path, allow_local_addresses=True)
        yield DialedKubelet(KubeletClient({"n1": node_at(port)}.get, config, MetricValue()), nodes)


def nowhere(*, host: str = "127.0.0.1", config: KubeletClientConfig | None = None) -> KubeletClient:
    chosen = config or KubeletClientConfig(timeout=1.0, allow_local_addresses=True)
    return KubeletClient({"n1": node_at(NOWHERE, host)}.get, chosen, MetricValue())


@in_loop
async def test_log_is_streamed(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        assert await one.log() == b"one\ntwo\n"
        assert one.nodes.asked[0].path == "/containerLogs/default/web/app"


@pytest.mark.parametrize(("container", "code"), [("missing", 404), ("early", 400), ("broken", 500), ("shy", 403)])
def test_rejected_log_is_returned_to_the_client(certificate: tuple[Authority, Path], container: str, code: int) -> None:
    async def ask() -> None:
        async with dialled(certificate) as one:
            with pytest.raises(ApiError) as refused:
                await one.log(container)
            assert refused.value.code == code

    asyncio.run(ask())


@in_loop
async def test_unreachable_kubelet_is_named_with_the_url() -> None:
    with pytest.raises(ApiError) as refused:
        [piece async for piece in nowhere().logs(POD, "app", PodLogOptions(follow=True))]
    url = "https://127.0.0.1:1/containerLogs/default/web/app?follow=true&stream=All"
    assert refused.value.message == f'Get "{url}": dial tcp 127.0.0.1:1: connect: connection refused'
    assert (refused.value.code, refused.value.reason) == (500, "")
    with pytest.raises(
        ApiError, match=r"^error dialing backend: dial tcp 127\.0\.0\.1:1: connect: connection refused$"
    ):
        await nowhere().open(POD, "app", PodStreamRequest("exec", ("true",), stdout=True))
    with pytest.raises(ServiceUnavailable, match=r"^error trying to reach service: dial tcp 127\.0\.0\.1:1"):
        await nowhere().proxy(Request("GET", "/", "", {}), "n1", "/healthz")


@in_loop
async def test_pod_without_node_cannot_be_connected() -> None:
    client = KubeletClient({}.get, KubeletClientConfig(), MetricValue())
    with pytest.raises(NotFound, match='nodes "n1" not found'):
        [piece async for piece in client.logs(POD, "app", PodLogOptions())]


@in_loop
async def test_exec_streams_in_both_directions(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        terminal = Terminal((b"a" * 100_000, b"b"))
        assert await one.run(("say", "it"), terminal) == 0
        assert (terminal.heard, terminal.errors) == (b"a" * 100_000 + b"b", b"say it")
        assert await one.run(("exit", "3"), Terminal()) == 3


@in_loop
async def test_terminal_sizes_are_passed_on(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        terminal = Terminal(tty=True)
        terminal.size = TerminalSize(80, 25)
        assert await one.run(("stty",), terminal) == 0
        assert one.nodes.sizes == [TerminalSize(80, 25)]


@in_loop
async def test_remote_failure_is_returned_with_its_message(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        with pytest.raises(CommandFailed) as failed:
            await one.run(("break",), Terminal())
        assert failed.value.status["message"].endswith("error executing command in container: it broke")


@in_loop
async def test_rejected_connection_is_returned_unchanged(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        one.nodes.refusal = NodeConnectionRefused(500, b'container not found ("app")')
        with pytest.raises(NodeConnectionRefused) as refused:
            await one.run(("true",), Terminal())
        assert (refused.value.status, refused.value.body) == (500, b'container not found ("app")')


@in_loop
async def test_attach_receives_output(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        terminal = Terminal()
        connections = await one.kubelets.open(POD, "app", PodStreamRequest("attach", stdout=True))
        await connections.attach(POD, "app", terminal)
        assert terminal.heard == b"attached"


class Caller:
    """A connection to a port."""

    def __init__(self, *said: bytes) -> None:
        self._said = list(said)
        self.heard = b""

    async def read(self) -> bytes:
        return self._said.pop(0) if self._said else b""

    async def write(self, data: bytes) -> None:
        self.heard += data


@in_loop
async def test_port_forwards_share_a_connection(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        connections = await one.kubelets.open(POD, "", PodStreamRequest("portforward"))
        callers = [Caller(b"hello ", str(number).encode()) for number in range(5)]
        async with asyncio.timeout(GIVE_UP_SECONDS):
            await asyncio.gather(*(connections.forward(POD, 80, caller) for caller in callers))
            with pytest.raises(NodeForwardFailed, match="error forwarding port 81 to pod u1, uid : connection refused"):
                await connections.forward(POD, 81, Caller())
        connections.close()
        assert [caller.heard for caller in callers] == [f"HELLO {number}".encode() for number in range(5)]
        assert len(one.nodes.asked) == 1


@in_loop
async def test_node_proxy_drops_client_credentials(
    certificate: tuple[Authority, Path],
) -> None:
    async with dialled(certificate) as one:
        request = Request("GET", "/api/v1/nodes/n1/proxy/healthz", "a=b", {"authorization": "Bearer x", "x-y": "z"})
        response = await one.kubelets.proxy(request, "n1", "/healthz")
        assert (response.status, response.body) == (200, b"GET /healthz")
        (heard,) = one.nodes.asked
        assert (heard.query, heard.headers["x-y"]) == ("a=b", "z")
        assert "authorization" not in heard.headers


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "::1", "::ffff:127.0.0.1", "2130706433", "0177.0.0.1", "0x7f.1", "127.1", "0.0.0.0",
        "::", "169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1", "255.255.255.255",
    ],
)  # fmt: skip
@pytest.mark.parametrize("config", [KubeletClientConfig(), KubeletClientConfig(insecure=True)])
def test_requests_are_not_forwarded_to_local_addresses(host: str, config: KubeletClientConfig) -> None:
    async def ask() -> None:
        with pytest.raises(BadRequest, match="address not allowed"):
            await nowhere(host=host, config=config).proxy(Request("GET", "/", "", {}), "n1", "/healthz")

    asyncio.run(ask())


@in_loop
async def test_a_name_is_resolved_once() -> None:
    """A name could resolve to another address when it is dialled."""
    loop, asked = asyncio.get_running_loop(), []

    async def resolve(host: str, *rest: object, **options: object) -> list[object]:
        asked.append(host)
        return [(0, 0, 0, "", ("192.0.2.1" if len(asked) == 1 else "127.0.0.1", 0))]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "getaddrinfo", resolve)
        assert await resolve_proxyable("rebinding.example") == "192.0.2.1"
        with pytest.raises(BadRequest, match="address not allowed"):
            await resolve_proxyable("rebinding.example")


@in_loop
async def test_a_name_that_nobody_knows_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"^lookup nobody\.invalid: no such host$"):
        await nowhere(host="nobody.invalid", config=KubeletClientConfig()).proxy(Request("GET", "/"), "n1", "/")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("010.000.0.01", "10.0.0.1"),
        ("127.000.000.001", "127.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fd00::1", "fd00::1"),
        ("localhost", "None"),
        ("", "None"),
    ],
)
def test_addresses_are_parsed_as_in_go(text: str, shown: str) -> None:
    assert str(parse_address(text)) == shown


@pytest.mark.parametrize("insecure", [True, False])
def test_a_server_is_no_node_of_its_own(certificate: tuple[Authority, Path], insecure: bool) -> None:
    authority, pem = certificate

    async def ask() -> None:
        async with kubelet(pem, FakeNodes()) as port:
            trusted = None if insecure else authority.path
            config = KubeletClientConfig(
                authority=trusted, insecure=insecure, allow_local_addresses=True, serving_certificate=pem
            )
            kubelets = KubeletClient({"n1": node_at(port, "localhost")}.get, config, MetricValue())
            with pytest.raises(BadRequest, match="address not allowed"):
                await kubelets.proxy(Request("GET", "/"), "n1", "/healthz")

    asyncio.run(ask())


@asynccontextmanager
async def program_of_a_node(certificate: Path | None, heard: list[Request]) -> AsyncIterator[int]:
    """A port of a node that is not its kubelet's; it asks for a client certificate, if it has one itself."""
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
        tls.load_verify_locations(certificate)
        tls.verify_mode = ssl.CERT_OPTIONAL

    async def answer(request: Request) -> Response:
        heard.append(request)
        return Response(200, b"another program")

    server = await serve(answer, "127.0.0.1", 0, tls, HttpLimits(), SystemClock())
    try:
        yield server.port
    finally:
        await server.close(0.1)


async def resolve_to_loopback(host: str) -> str:
    """Stand-in for a global unicast address."""
    assert host == "node.example"
    return "127.0.0.1"


@pytest.mark.parametrize("scheme", ["", "http", "https"])
def test_a_port_of_a_node_is_reached_without_the_identity_of_the_server(
    certificate: tuple[Authority, Path], monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setattr("kubeloop.apiserver.kubelet_client.dialer.resolve_proxyable", resolve_to_loopback)
    _, pem = certificate
    config = KubeletClientConfig(certificate=pem, key=pem)
    heard: list[Request] = []

    async def ask() -> None:
        async with program_of_a_node(pem if scheme == "https" else None, heard) as port:
            kubelets = KubeletClient({"n1": node_at(NOWHERE, "node.example")}.get, config, MetricValue())
            request = Request("GET", "/", "", {"authorization": "Bearer x", "impersonate-user": "y"})
            response = await kubelets.proxy(request, "n1", "/metrics", NodePort(str(port), scheme))
            assert (response.status, response.body) == (200, b"another program")
            assert heard[0].headers["host"] == f"node.example:{port}"

    asyncio.run(ask())
    assert heard[0].path == "/metrics"
    assert heard[0].peer_certificate is None
    assert not {"authorization", "impersonate-user"} & set(heard[0].headers)


@in_loop
async def test_other_ports_of_a_node_at_a_local_address_are_not_reached() -> None:
    """Not even if nodes may have local addresses: the port may be of any program of this machine."""
    with pytest.raises(BadRequest, match="address not allowed"):
        await nowhere().proxy(Request("GET", "/"), "n1", "/", NodePort("2379"))


@pytest.mark.parametrize(
    ("port", "message"),
    [
        ("metrics", "dial tcp: lookup tcp/metrics: unknown port"),
        ("70000", "dial tcp: address 70000: invalid port"),
        (str(NOWHERE), "dial tcp 127.0.0.1:1: connect: connection refused"),
    ],
)
def test_a_port_of_a_node_that_cannot_be_reached_is_named(port: str, message: str) -> None:
    async def ask() -> None:
        with pytest.raises(ServiceUnavailable) as refused:
            await nowhere().proxy(Request("GET", "/"), "n1", "/", NodePort(port))
        assert refused.value.message == f"error trying to reach service: {message}"

    asyncio.run(ask())


def test_a_log_that_fails_because_of_the_kubelets_certificate_is_counted(
    certificate: tuple[Authority, Path], tmp_path: Path
) -> None:
    _, pem = certificate
    stranger = Authority(tmp_path, "elsewhere")

    async def ask() -> None:
        failures = MetricValue()
        async with kubelet(pem, FakeNodes()) as port:
            config = KubeletClientConfig(own_authority=stranger.path, allow_local_addresses=True, timeout=1.0)
            client = KubeletClient({"n1": node_at(port)}.get, config, failures)
            with pytest.raises(ApiError, match="failed to verify certificate"):
                await DialedKubelet(client, FakeNodes()).log()
            assert failures.value == 1
        with pytest.raises(ApiError):  # nobody listens any more
            await DialedKubelet(client, FakeNodes()).log()
        assert failures.value == 1

    asyncio.run(ask())
