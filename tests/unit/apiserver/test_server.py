# SPDX-License-Identifier: Apache-2.0
"""A server starts whole or not at all, and stops in order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kubeloop.apiserver.server import ApiServerConfig, RunningServer, StartupError, start_server, tls_context
from kubeloop.clock import SystemClock
from kubeloop.http import Request
from kubeloop.store import StoreError
from tests.bounds import GIVE_UP_SECONDS


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario(), GIVE_UP_SECONDS)

    asyncio.run(bounded())


async def start(**settings: object) -> RunningServer:
    return await start_server(ApiServerConfig(port=0, **settings), SystemClock())  # type: ignore[arg-type]  # any field


async def status_of(server: RunningServer, path: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1])


def test_started_server_is_ready_and_has_a_url() -> None:
    async def scenario() -> None:
        server = await start()
        assert server.address == f"127.0.0.1:{server.port}"
        assert await status_of(server, "/readyz") == 200
        await server.close()

    run(scenario)


def test_closing_server_is_live_and_not_ready_during_its_delay() -> None:
    async def scenario() -> None:
        server = await start(shutdown_delay=5.0)
        closing = asyncio.create_task(server.close())
        await asyncio.sleep(0)
        assert await status_of(server, "/readyz") == 500
        assert await status_of(server, "/livez") == 200
        closing.cancel()
        await asyncio.wait([closing])
        await server.close_now()

    run(scenario)


def test_closed_server_does_not_respond_and_can_be_closed_again() -> None:
    async def scenario() -> None:
        server = await start()
        await server.close()
        await server.close()
        with pytest.raises(OSError):
            await status_of(server, "/livez")

    run(scenario)


def test_failed_start_closes_the_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = f"sqlite:{tmp_path / 'store.db'}"
        with socket.create_server(("127.0.0.1", 0)) as taken:
            busy = ApiServerConfig(store=store, port=taken.getsockname()[1])
            with pytest.raises(StartupError, match=r"cannot listen on 127\.0\.0\.1:\d+: address already in use"):
                await start_server(busy, SystemClock())
        server = await start(store=store)
        await server.close()

    run(scenario)


def test_unknown_store_is_refused() -> None:
    async def scenario() -> None:
        with pytest.raises(StoreError, match="unknown store"):
            await start(store="clay-tablets")

    run(scenario)


def test_token_file_with_a_bad_line_is_refused(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("token without anybody\n")

    async def scenario() -> None:
        with pytest.raises(StartupError, match="line 1"):
            await start(token_file=tokens)

    run(scenario)


def test_files_without_keys_are_named(tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("nothing of the kind")
    config = ApiServerConfig(certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key")
    with pytest.raises(StartupError, match=r"unable to load TLS files .*tls\.crt"):
        tls_context(config)


def test_work_before_ready_knows_the_port_and_delays_readiness() -> None:
    async def scenario() -> None:
        seen: list[tuple[int, str]] = []

        def look(server: RunningServer) -> None:
            checks = server.app.nonresource.handle(Request("GET", "/readyz"))
            seen.append((server.port, checks.body.decode()))

        server = await start_server(ApiServerConfig(port=0), SystemClock(), look)
        assert seen[0][0] == server.port
        assert "[-]poststarthook/crd-informer-synced failed" in seen[0][1]
        assert "[+]poststarthook/rbac/bootstrap-roles ok" in seen[0][1]
        assert await status_of(server, "/readyz") == 200
        await server.close()

    run(scenario)


def test_livez_ignores_unfinished_hooks_within_its_grace_period() -> None:
    async def scenario() -> None:
        seen: list[int] = []

        def look(server: RunningServer) -> None:
            seen.append(server.app.nonresource.handle(Request("GET", "/livez")).status)

        for period in (0.0, 3600.0):
            server = await start_server(ApiServerConfig(port=0, livez_grace_period=period), SystemClock(), look)
            await server.close()
        assert seen == [500, 200]

    run(scenario)


def test_ready_server_has_roles_flow_schemas_and_api_services() -> None:
    async def scenario() -> None:
        server = await start()
        registry = server.app.registry
        assert registry.get_object("clusterroles", "", "cluster-admin", "rbac.authorization.k8s.io") is not None
        assert registry.get_object("flowschemas", "", "catch-all", "flowcontrol.apiserver.k8s.io") is not None
        assert registry.get_object("apiservices", "", "v1.apps", "apiregistration.k8s.io") is not None
        assert registry.get_object("endpoints", "default", "kubernetes").subsets[0].addresses[0].ip == "127.0.0.1"
        await server.close()

    run(scenario)
