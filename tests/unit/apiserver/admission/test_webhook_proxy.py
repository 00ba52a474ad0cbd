# SPDX-License-Identifier: Apache-2.0
"""Webhooks behind a proxy: tunnels by CONNECT, exceptions by NO_PROXY, TLS with the webhook itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.webhook_client import client
from kubeloop.http.client import HttpClientConnection
from tests.unit.apiserver.admission.hook_server import HookServer, make_pki
from tests.unit.apiserver.admission.test_webhooks import WebhookApi, yes

WEBHOOK_HOST = "hooks.example.test"


class ConnectProxy:
    """Proxy on loopback that connects every tunnel to a local port; `requests` has the heads it received."""

    def __init__(self, target_port: int, status: str = "200 Connection established") -> None:
        self.requests: list[str] = []
        self._target_port = target_port
        self.status = status
        self._server: asyncio.Server | None = None
        self._tunnels: set[asyncio.Task[Any]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Wait until both ends of all tunnels are closed, by the webhook's end."""
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*self._tunnels)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tunnels.add(task)
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.decode())
        writer.write(f"HTTP/1.1 {self.status}\r\n\r\n".encode())
        if not self.status.startswith("200"):
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        writer.close()
        far_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        pass


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    return make_pki(tmp_path_factory.mktemp("pki"), WEBHOOK_HOST)


@pytest.fixture
def api(pki, monkeypatch) -> Iterator[WebhookApi]:
    for name in ("HTTP_PROXY", "http_proxy", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    hooks = HookServer(pki)
    with asyncio.Runner() as runner:
        runner.run(hooks.start())
        yield WebhookApi(runner, hooks)
        runner.run(hooks.stop())


@pytest.fixture
def proxy(api, monkeypatch, request) -> Iterator[ConnectProxy]:
    found = ConnectProxy(api.hooks.port, getattr(request, "param", "200 OK"))
    api.runner.run(found.start())
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret@127.0.0.1:{found.port}")
    yield found
    api.hooks.hang_up()
    api.runner.run(found.stop())


def configure(api: WebhookApi, host: str = WEBHOOK_HOST) -> None:
    config = api.hooks.client("/validating/a.example.com")
    config["url"] = config["url"].replace("127.0.0.1", host)
    api.hook(yes, clientConfig=config)


def test_a_webhook_is_called_through_the_proxy_of_the_environment(api, proxy):
    configure(api)
    assert api.make_map("a").status == 201
    assert api.make_map("b").status == 201
    # One tunnel: the connection is kept. TLS ends at the webhook, whose certificate has been verified by its name.
    [head] = proxy.requests
    assert head.startswith(f"CONNECT {WEBHOOK_HOST}:{api.hooks.port} HTTP/1.1\r\nHost: {WEBHOOK_HOST}:")
    assert "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n" in head
    assert [seen["name"] for seen in api.hooks.seen] == ["a", "b"]


def test_loopback_is_called_without_the_proxy(api, proxy):
    configure(api, "127.0.0.1")
    assert api.make_map().status == 201
    assert proxy.requests == []


def test_hosts_of_no_proxy_are_dialled_directly(api, proxy, monkeypatch):
    async def dial(host: str, port: int, *_: Any) -> HttpClientConnection:
        raise RemoteUnreachable(f"directly to {host}:{port}")  # no test asks a name server

    monkeypatch.setattr(client, "dial", dial)
    monkeypatch.setenv("NO_PROXY", f"10.0.0.0/8,{WEBHOOK_HOST}")
    configure(api)
    answer = api.make_map()
    assert (answer.status, proxy.requests) == (500, [])
    assert f"directly to {WEBHOOK_HOST}:{api.hooks.port}" in answer.body["message"]


@pytest.mark.parametrize("proxy", ["407 Proxy Authentication Required", "502 Bad Gateway"], indirect=True)
def test_a_refused_tunnel_is_a_failed_call(api, proxy):
    configure(api)
    answer = api.make_map()
    assert answer.status == 500
    assert proxy.status in answer.body["message"]
    assert "secret" not in answer.body["message"]


def test_the_certificate_of_a_webhook_behind_a_proxy_is_verified(api, proxy):
    configure(api, "other.example.test")
    answer = api.make_map()
    assert (answer.status, len(proxy.requests)) == (500, 1)
    assert "failed to verify certificate" in answer.body["message"]
