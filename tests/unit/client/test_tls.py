# SPDX-License-Identifier: Apache-2.0
"""Tests of TLS and tunnels on real sockets: trust, client certificates, and proxies."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Node
from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.client import Client
from kubeloop.client.config.server_config import ExecConfig, Pem, ServerConfig
from kubeloop.client.errors import ConfigError, ProxyError, TlsError
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import SystemClock
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.client.raw_server import NODE, Peer, RawServer, answer, raw_server


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return ensure_pki(tmp_path_factory.mktemp("pki"), ["kubernetes", "localhost"], SystemClock().now())


@asynccontextmanager
async def tls_server(pki: Pki) -> AsyncIterator[RawServer]:
    """Answers with the subject of the certificate that the client showed."""

    async def script(peer: Peer, number: int) -> None:
        while True:
            await peer.request()
            shown = peer.writer.get_extra_info("peercert") or {"subject": (((0, "nobody"),),)}
            name = str(shown["subject"][-1][0][1])
            await peer.say(answer(NODE.replace(b'"n"', f'"{name}"'.encode())))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.serving_certificate, pki.serving_key)
    context.load_verify_locations(pki.ca)
    context.verify_mode = ssl.CERT_OPTIONAL
    server = RawServer(script)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            yield server
    finally:
        listener.close()


async def name_seen(port: int, pki: Pki, **options: Any) -> str:
    """Return the user that the server authenticated."""
    facts: dict[str, Any] = {"authority": Pem(file=str(pki.ca)), "server_name": "kubernetes", **options}
    config = ServerConfig(f"https://127.0.0.1:{port}", **facts)
    async with Client(HttpTransport(config, SystemClock(), environ={})) as client:
        return (await client.get(Node, "n")).metadata.name


def test_server_is_verified_by_ca_and_name(pki: Pki) -> None:
    async def main() -> None:
        async with tls_server(pki) as server:
            assert await name_seen(server.port, pki) == "nobody"
            assert await name_seen(server.port, pki, authority=Pem(data=pki.ca.read_bytes())) == "nobody"
            with pytest.raises(TlsError, match="IP address mismatch"):
                await name_seen(server.port, pki, server_name="")
            with pytest.raises(TlsError, match="is not trusted"):
                await name_seen(server.port, pki, authority=Pem())
            assert await name_seen(server.port, pki, authority=Pem(), server_name="", insecure=True) == "nobody"

    asyncio.run(main())


def test_client_certificate_is_loaded_from_files_and_data(pki: Pki) -> None:
    async def main() -> None:
        async with tls_server(pki) as server:
            for certificate, key in (
                (Pem(file=str(pki.admin_certificate)), Pem(file=str(pki.admin_key))),
                (Pem(data=pki.admin_certificate.read_bytes()), Pem(data=pki.admin_key.read_bytes())),
            ):
                assert await name_seen(server.port, pki, certificate=certificate, key=key) == "kubernetes-admin"

    asyncio.run(main())


def test_plugin_may_provide_a_certificate(pki: Pki, tmp_path: Path) -> None:
    version = "client.authentication.k8s.io/v1"
    status = {"clientCertificateData": pki.admin_certificate.read_text(), "clientKeyData": pki.admin_key.read_text()}
    printed = tmp_path / "printed.json"
    printed.write_text(json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status}))
    plugin = ExecConfig("cat", version, (str(printed),), interactive_mode="Never")

    async def main() -> None:
        async with tls_server(pki) as server:
            assert await name_seen(server.port, pki, exec_plugin=plugin) == "kubernetes-admin"

    asyncio.run(main())


def test_unusable_certificates_are_reported(pki: Pki, tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match=r"none\.crt\) cannot be used: No such file"):
            await name_seen(1, pki, authority=Pem(file=str(tmp_path / "none.crt")))
        with pytest.raises(ConfigError, match=r"authority \(given inline\)"):
            await name_seen(1, pki, authority=Pem(data=b"not a certificate"))
        with pytest.raises(ConfigError, match="client certificate and key"):
            await name_seen(1, pki, certificate=Pem(data=b"x"), key=Pem(data=b"y"))

    asyncio.run(main())


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


async def _tunnel(peer: Peer, number: int) -> None:
    head = await peer.request()
    host, _, port = head.split(" ")[1].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    await peer.say(b"HTTP/1.1 200 Connection established\r\n\r\n")
    async with asyncio.TaskGroup() as group:
        group.create_task(_pipe(reader, peer.writer))
        group.create_task(_pipe(peer._reader, writer))


def test_tls_is_tunneled_through_a_proxy(pki: Pki) -> None:
    async def main() -> None:
        async with tls_server(pki) as server, raw_server(_tunnel) as proxy:
            url = f"http://me:secret@127.0.0.1:{proxy.port}"
            assert await name_seen(server.port, pki, proxy_url=url) == "nobody"
            lines = proxy.heads[0].split("\r\n")
            assert lines[0] == f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"
            assert "Proxy-Authorization: Basic bWU6c2VjcmV0" in lines

    asyncio.run(main())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "refused a tunnel: 403 Forbidden"),
        (b"", "closed the connection before"),
        (b"x" * 20_000, "refused a tunnel: not HTTP"),
    ],
)
def test_proxy_rejection_is_reported(pki: Pki, said: bytes, why: str) -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.request()
        await peer.say(said)

    async def main() -> None:
        async with raw_server(script) as proxy:
            with pytest.raises(ProxyError, match=why):
                await name_seen(1, pki, proxy_url=f"http://127.0.0.1:{proxy.port}")

    asyncio.run(main())
