"""What kubelets are asked on behalf of clients, and what becomes of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeloop.api.errors import ApiError, BadRequest, NotFound, ServiceUnavailable
from kubeloop.api.node_calls import (
    CommandFailed,
    NodeConnectionRefused,
    NodeForwardFailed,
    PodLogOptions,
    PodStreamRequest,
    TerminalSize,
)
from kubeloop.apiserver.kubelet_client.dialer import KubeletClient
from kubeloop.apiserver.kubelet_client.kubelet_tls import KubeletClientConfig
from kubeloop.http import Request
from tests.unit.apiserver.kubelets.kubelet_world import POD, Authority, FakeNodes, Terminal, kubelet, node_at
from tests.unit.apiserver.streaming.wires import in_loop

NOWHERE = 1  # a port where nobody listens


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Path]:
    authority = Authority(tmp_path_factory.mktemp("keys"))
    return authority, authority.signed("system:node:n1")


class Dialled:
    """A kubelet, and whoever asks it."""

    def __init__(self, kubelets: KubeletClient, nodes: FakeNodes) -> None:
        self.kubelets = kubelets
        self.nodes = nodes

    async def log(self, container: str = "app") -> bytes:
        return b"".join([piece async for piece in self.kubelets.logs(POD, container, PodLogOptions())])

    async def run(self, command: tuple[str, ...], terminal: Terminal) -> int:
        wanted = PodStreamRequest("exec", command, terminal.stdin, True, not terminal.tty, terminal.tty)
        connections = await self.kubelets.opened(POD, "app", wanted)
        async with asyncio.timeout(5):
            return await connections.execute(POD, "app", command, terminal)


@asynccontextmanager
async def dialled(certificate: tuple[Authority, Path]) -> AsyncIterator[Dialled]:
    authority, pem = certificate
    nodes = FakeNodes()
    async with kubelet(pem, nodes) as port:
        config = KubeletClientConfig(own_authority=authority.path)
        yield Dialled(KubeletClient({"n1": node_at(port)}.get, config), nodes)


def nowhere(*, host: str = "127.0.0.1", config: KubeletClientConfig | None = None) -> KubeletClient:
    return KubeletClient({"n1": node_at(NOWHERE, host)}.get, config or KubeletClientConfig(timeout=1.0))


@in_loop
async def test_a_log_comes_in_pieces(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        assert await one.log() == b"one\ntwo\n"
        assert one.nodes.asked[0].path == "/containerLogs/default/web/app"


@pytest.mark.parametrize(("container", "code"), [("missing", 404), ("early", 400), ("broken", 500), ("shy", 403)])
def test_a_log_that_is_refused_is_refused_to_the_client(
    certificate: tuple[Authority, Path], container: str, code: int
) -> None:
    async def ask() -> None:
        async with dialled(certificate) as one:
            with pytest.raises(ApiError) as refused:
                await one.log(container)
            assert refused.value.code == code

    asyncio.run(ask())


@in_loop
async def test_whoever_does_not_answer_is_named_with_all_that_was_asked() -> None:
    with pytest.raises(ApiError) as refused:
        [piece async for piece in nowhere().logs(POD, "app", PodLogOptions(follow=True))]
    url = "https://127.0.0.1:1/containerLogs/default/web/app?follow=true&stream=All"
    assert refused.value.message == f'Get "{url}": dial tcp 127.0.0.1:1: connect: connection refused'
    assert (refused.value.code, refused.value.reason) == (500, "")
    with pytest.raises(
        ApiError, match=r"^error dialing backend: dial tcp 127\.0\.0\.1:1: connect: connection refused$"
    ):
        await nowhere().opened(POD, "app", PodStreamRequest("exec", ("true",), stdout=True))
    with pytest.raises(ServiceUnavailable, match=r"^error trying to reach service: dial tcp 127\.0\.0\.1:1"):
        await nowhere().proxy(Request("GET", "/", "", {}), "n1", "/healthz")


@in_loop
async def test_a_pod_of_no_node_has_nobody_to_ask() -> None:
    with pytest.raises(NotFound, match='nodes "n1" not found'):
        [piece async for piece in KubeletClient({}.get, KubeletClientConfig()).logs(POD, "app", PodLogOptions())]


@in_loop
async def test_commands_hear_and_are_heard(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        terminal = Terminal((b"a" * 100_000, b"b"))
        assert await one.run(("say", "it"), terminal) == 0
        assert (terminal.heard, terminal.errors) == (b"a" * 100_000 + b"b", b"say it")
        assert await one.run(("exit", "3"), Terminal()) == 3


@in_loop
async def test_sizes_of_terminals_are_passed_on(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        terminal = Terminal(tty=True)
        terminal.size = TerminalSize(80, 25)
        assert await one.run(("stty",), terminal) == 0
        assert one.nodes.sizes == [TerminalSize(80, 25)]


@in_loop
async def test_a_failure_at_the_other_end_is_told_in_its_own_words(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        with pytest.raises(CommandFailed) as failed:
            await one.run(("break",), Terminal())
        assert failed.value.status["message"].endswith("error executing command in container: it broke")


@in_loop
async def test_a_refusal_to_connect_is_handed_on_as_it_is(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        one.nodes.refusal = NodeConnectionRefused(500, b'container not found ("app")')
        with pytest.raises(NodeConnectionRefused) as refused:
            await one.run(("true",), Terminal())
        assert (refused.value.status, refused.value.body) == (500, b'container not found ("app")')


@in_loop
async def test_attached_clients_hear(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        terminal = Terminal()
        connections = await one.kubelets.opened(POD, "app", PodStreamRequest("attach", stdout=True))
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
async def test_any_number_of_calls_to_ports_share_a_connection(certificate: tuple[Authority, Path]) -> None:
    async with dialled(certificate) as one:
        connections = await one.kubelets.opened(POD, "", PodStreamRequest("portforward"))
        callers = [Caller(b"hello ", str(number).encode()) for number in range(5)]
        async with asyncio.timeout(5):
            await asyncio.gather(*(connections.forward(POD, 80, caller) for caller in callers))
            with pytest.raises(NodeForwardFailed, match="error forwarding port 81 to pod u1, uid : connection refused"):
                await connections.forward(POD, 81, Caller())
        connections.close()
        assert [caller.heard for caller in callers] == [f"HELLO {number}".encode() for number in range(5)]
        assert len(one.nodes.asked) == 1


@in_loop
async def test_what_a_node_shows_passes_through_without_the_clients_credentials(
    certificate: tuple[Authority, Path],
) -> None:
    async with dialled(certificate) as one:
        request = Request("GET", "/api/v1/nodes/n1/proxy/healthz", "a=b", {"authorization": "Bearer x", "x-y": "z"})
        response = await one.kubelets.proxy(request, "n1", "/healthz")
        assert (response.status, response.body) == (200, b"GET /healthz")
        (heard,) = one.nodes.asked
        assert (heard.query, heard.headers["x-y"]) == ("a=b", "z")
        assert "authorization" not in heard.headers


@in_loop
async def test_where_anybody_would_be_believed_nobody_is_led_to_this_machine() -> None:
    careless = nowhere(config=KubeletClientConfig(insecure=True))
    with pytest.raises(BadRequest, match="address not allowed"):
        await careless.proxy(Request("GET", "/", "", {}), "n1", "/healthz")
