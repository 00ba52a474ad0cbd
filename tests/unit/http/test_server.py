# SPDX-License-Identifier: Apache-2.0
"""Tests of listening, TLS with client certificates, and graceful close."""

import asyncio
import datetime
import gc
import ssl
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubeloop.clock import SystemClock
from kubeloop.http import HttpHooks, HttpLimits, Request, Response, ResponseStream, StreamResponse, serve
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.http.conftest import until


def make_certificate(folder: Path, name: str) -> Path:
    """A self-signed certificate and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), 1, now - day, now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(certificate.public_bytes(pem) + private)
    return path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificates")
    return make_certificate(folder, "server"), make_certificate(folder, "client")


def server_context(certificates: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates[0])
    context.load_verify_locations(certificates[1])
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def test_verified_client_certificate_is_in_each_request(run, site, certificates):
    async def handler(request: Request) -> Response:
        return Response(200, request.peer_certificate or b"none")

    async def check() -> None:
        known = ssl.create_default_context(cafile=certificates[0])
        known.load_cert_chain(certificates[1])
        anonymous = ssl.create_default_context(cafile=certificates[0])
        der = x509.load_pem_x509_certificate(certificates[1].read_bytes()).public_bytes(serialization.Encoding.DER)
        async with site(handler, tls=server_context(certificates)) as s:
            for context, expected in ((known, der), (anonymous, b"none")):
                client = await s.connect(context)
                for _ in range(2):
                    client.get("/")
                    assert (await client.answer()).body == expected

    run(check())


def test_the_intermediate_certificates_of_a_client_come_with_each_request(run, site, certificates, tmp_path):
    async def handler(request: Request) -> Response:
        return Response(200, b"|".join(request.peer_intermediates))

    async def check() -> None:
        client_pem, other_pem = certificates[1].read_bytes(), certificates[0].read_bytes()
        chain = tmp_path / "chain.pem"
        chain.write_bytes(client_pem + b"\n" + other_pem.partition(b"-----BEGIN PRIVATE KEY")[0])
        known = ssl.create_default_context(cafile=certificates[0])
        known.load_cert_chain(chain)
        other = x509.load_pem_x509_certificate(other_pem).public_bytes(serialization.Encoding.DER)
        async with site(handler, tls=server_context(certificates)) as s:
            client = await s.connect(known)
            for _ in range(2):
                client.get("/")
                assert (await client.answer()).body == other

    run(check())


def test_a_large_answer_and_a_stream_over_tls(run, site, certificates):
    class CountingStream(StreamResponse):
        async def run(self, stream: ResponseStream) -> None:
            for number in range(3):
                stream.write(b"1\r\n%d\r\n" % number)

    async def handler(request: Request) -> Response:
        return CountingStream() if request.path == "/stream" else Response(200, [b"x" * 5000] * 2000)

    async def check() -> None:
        context = ssl.create_default_context(cafile=certificates[0])
        async with site(handler, tls=server_context(certificates)) as s:
            client = await s.connect(context)
            client.get("/list")
            client.get("/stream")
            assert (await client.answer()).body == b"x" * 10_000_000
            assert (await client.answer()).body == b"012"
            client.get("/list", "Connection: close")
            assert (await client.answer()).body == b"x" * 10_000_000
            assert await client.rest() == b""

    run(check())


def test_client_without_handshake_is_dropped(run, site, certificates):
    async def check() -> None:
        async with site(limits=HttpLimits(handshake_timeout=0.05), tls=server_context(certificates)) as s:
            for _ in range(2):
                silent = await s.connect()
                assert await silent.rest() == b""

    run(check())


def test_plaintext_client_is_dropped(run, site, certificates):
    async def check() -> None:
        async with site(tls=server_context(certificates)) as s:
            plain = await s.connect()
            plain.get("/")
            await plain.rest()
            good = await s.connect(ssl.create_default_context(cafile=certificates[0]))
            good.get("/")
            assert (await good.answer()).status == 200

    run(check())


def test_a_used_port_is_an_oserror_that_names_it(run, site):
    async def check() -> None:
        async with site() as s:
            with pytest.raises(OSError, match=str(s.server.port)):
                await serve(s.handler, "127.0.0.1", s.server.port, None, HttpLimits(), SystemClock())

    run(check())


def test_close_ends_streams_and_idle_connections_and_waits_for_requests(run, site):
    class SilentStream(StreamResponse):
        def run(self, stream: ResponseStream) -> None:
            return None

    async def check() -> None:
        entered, go_on = asyncio.Event(), asyncio.Event()

        async def handler(request: Request) -> Response:
            if request.path == "/watch":
                return SilentStream()
            if request.path == "/work":
                entered.set()
                await go_on.wait()
            return Response(200, b"done")

        async with site(handler) as s:
            idle, watching, working = [await s.connect() for _ in range(3)]
            idle.get("/")
            assert (await idle.answer()).body == b"done"
            watching.get("/watch")
            await watching.head()
            working.get("/work")
            await entered.wait()
            closing = asyncio.create_task(s.server.close(grace=5))
            assert await idle.rest() == b""
            assert await watching.rest() == b"0\r\n\r\n"
            with pytest.raises(OSError):
                await s.connect()
            assert not closing.done()
            go_on.set()
            answer = await working.answer()
            assert (answer.body, answer.headers["connection"]) == (b"done", "close")
            await closing

    run(check())


def test_requests_exceeding_the_grace_period_are_cancelled(run, site):
    async def check() -> None:
        entered, cancelled = asyncio.Event(), asyncio.Event()

        async def handler(_: Request) -> Response:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return Response()

        async with site(handler) as s:
            client = await s.connect()
            client.get("/", method="POST")
            await entered.wait()
            await s.server.close(grace=0.01)
            assert cancelled.is_set()
            assert await client.rest() == b""

    run(check())


def test_close_does_not_wait_for_a_tls_handshake(run, site, certificates):
    async def check() -> None:
        limits = HttpLimits(handshake_timeout=3600)
        async with site(limits=limits, tls=server_context(certificates)) as s:
            await s.connect()
            good = await s.connect(ssl.create_default_context(cafile=certificates[0]))
            good.get("/")
            assert (await good.answer()).status == 200, "the silent client before it was accepted, too"
            await s.server.close(grace=0.01)

    run(check())


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of a TLS greeting
    ],
)
def test_uvloop_reports_a_failed_handshake_at_once(site, certificates, sent):
    """Asyncio's own loop keeps the exception, and by it the connection, until it is collected."""
    reported: list[int] = []

    async def check() -> None:
        hooks = HttpHooks(on_handshake_error=lambda: reported.append(1))
        async with site(hooks=hooks, tls=server_context(certificates)) as s:
            client = await s.connect()
            client.send(sent)
            client.writer.close()
            await until(lambda: bool(reported))
        assert reported == [1]

    gc.disable()  # nothing has to be collected for it
    try:
        uvloop.run(asyncio.wait_for(check(), GIVE_UP_SECONDS))
    finally:
        gc.enable()
