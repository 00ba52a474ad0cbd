# SPDX-License-Identifier: Apache-2.0
"""Client certificates on connections that use a certificate of --tls-sni-cert-key."""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from kubeloop.apiserver.server import ApiServerConfig, AuditConfig, RunningServer, start_server
from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.cli.pki.self_signed_certificate import ensure_self_signed
from kubeloop.clock import SystemClock
from kubeloop.http.tls import SniCertificate, TlsOptions
from tests.bounds import GIVE_UP_SECONDS

NAME = "special.example"
POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}


def pki_of(folder: Path) -> Pki:
    return ensure_pki(folder, ["127.0.0.1"], SystemClock().now())


@asynccontextmanager
async def serving(folder: Path, pki: Pki) -> AsyncIterator[RunningServer]:
    """A server with a certificate for NAME, beside its usual one."""
    more = ensure_self_signed(folder / "more", "more", [NAME], SystemClock().now())
    policy = folder / "policy.json"
    policy.write_text(json.dumps(POLICY))
    config = ApiServerConfig(
        port=0,
        certificate=pki.serving_certificate,
        key=pki.serving_key,
        client_authorities=(pki.ca,),
        tls=TlsOptions(sni_certificates=(SniCertificate(*more),)),
        audit=AuditConfig(policy, str(folder / "audit.log")),
    )
    server = await start_server(config, SystemClock())
    try:
        yield server
    finally:
        await server.close()


async def ask(port: int, client: Pki) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(client.admin_certificate, client.admin_key)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=NAME)
    try:
        writer.write(b"GET /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return await reader.read()
    finally:
        writer.close()


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            await work()

    asyncio.run(limited())


def events(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]


def test_a_client_certificate_is_accepted_with_any_server_name(tmp_path: Path) -> None:
    async def main() -> None:
        pki = pki_of(tmp_path / "pki")
        async with serving(tmp_path, pki) as server:
            assert (await ask(server.port, pki)).startswith(b"HTTP/1.1 200 ")

    run(main)


def test_a_rejected_client_certificate_is_audited_with_any_server_name(tmp_path: Path) -> None:
    async def main() -> None:
        pki, other = pki_of(tmp_path / "pki"), pki_of(tmp_path / "other")
        async with serving(tmp_path, pki) as server:
            with suppress(OSError):  # TLS 1.3: the client learns of it when it reads
                assert await ask(server.port, other) == b""
        (rejected,) = [one for one in events(tmp_path) if one["responseStatus"]["code"] == 401]
        assert "x509" in rejected["responseStatus"]["message"]

    run(main)


def test_failed_handshakes_are_counted(tmp_path: Path) -> None:
    async def main() -> None:
        pki, other = pki_of(tmp_path / "pki"), pki_of(tmp_path / "other")
        async with serving(tmp_path, pki) as server:
            errors = server.app.metrics.tls_handshake_errors

            async def until(count: int) -> None:
                while errors.value != count:  # the handshake fails when the server reads
                    await asyncio.sleep(0.01)
                    gc.collect()  # with asyncio's own loop, a failed handshake is reported when it is collected

            await ask(server.port, pki)
            assert errors.value == 0
            with suppress(OSError):
                await ask(server.port, other)
            await until(1)
            await send_plainly(server.port, b"GET / HTTP/1.1\r\n\r\n")  # no TLS at all
            await until(2)
            await send_plainly(server.port, b"")  # the client leaves before it says anything
            await until(3)
            assert "apiserver_tls_handshake_errors_total 3" in server.app.metrics.registry.render().splitlines()

    run(main)


async def send_plainly(port: int, data: bytes) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.close()
    await writer.wait_closed()
