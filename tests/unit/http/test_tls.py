# SPDX-License-Identifier: Apache-2.0
"""TLS settings in Go's names, on real handshakes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubeloop.cli.pki.self_signed_certificate import ensure_self_signed
from kubeloop.http.tls import (
    SniCertificate,
    TlsOptionError,
    TlsOptions,
    apply_tls_options,
    cipher_list,
    min_version_of,
    parse_sni_certificate,
)

NOW = datetime.now(UTC)


def pair(folder: Path, *names: str) -> tuple[Path, Path]:
    return ensure_self_signed(folder, "one", names, NOW)


def context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def handshake(
    folder: Path, options: TlsOptions, prepare: Callable[[ssl.SSLContext], None] = lambda _: None, name: str = ""
) -> tuple[str, str, str]:
    """Return version, cipher and certificate of a connection."""

    async def run() -> tuple[str, str, str]:
        server_side = context()
        server_side.load_cert_chain(*pair(folder / "main", "localhost"))
        apply_tls_options(server_side, options, context)
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=server_side)
        port = server.sockets[0].getsockname()[1]
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        prepare(client)
        try:
            async with asyncio.timeout(20):
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
                connection = writer.get_extra_info("ssl_object")
                shown = ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True))
                writer.close()
                return connection.version(), connection.cipher()[0], shown
        finally:
            server.close()

    return asyncio.run(run())


def only_tls_1_2(client: ssl.SSLContext) -> None:
    client.maximum_version = ssl.TLSVersion.TLSv1_2


def test_an_old_client_is_refused_by_the_minimal_version(tmp_path: Path) -> None:
    assert handshake(tmp_path, TlsOptions(), only_tls_1_2)[0] == "TLSv1.2"
    with pytest.raises(OSError):  # an SSLError, or a reset connection
        handshake(tmp_path, TlsOptions("VersionTLS13"), only_tls_1_2)


def test_only_the_named_suites_are_offered(tmp_path: Path) -> None:
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    found = handshake(tmp_path, TlsOptions(cipher_suites=suites), only_tls_1_2)[1]
    assert found.endswith("AES256-GCM-SHA384")

    def other(client: ssl.SSLContext) -> None:
        only_tls_1_2(client)
        client.set_ciphers("ECDHE+AESGCM+AES128")

    with pytest.raises(OSError):  # an SSLError, or a reset connection
        handshake(tmp_path, TlsOptions(cipher_suites=suites), other)


def test_a_curve_is_the_only_one(tmp_path: Path) -> None:
    def other(client: ssl.SSLContext) -> None:
        client.set_ecdh_curve("prime256v1")

    assert handshake(tmp_path, TlsOptions(curve_preferences=(23,)), other)
    with pytest.raises(OSError):  # an SSLError, or a reset connection
        handshake(tmp_path, TlsOptions(curve_preferences=(24,)), other)


@pytest.mark.parametrize(
    ("asked", "special"),
    [("api.example.com", True), ("API.example.com", True), ("one.wild.example", True), ("localhost", False)],
)
def test_a_server_name_selects_its_certificate(tmp_path: Path, asked: str, special: bool) -> None:
    more = pair(tmp_path / "more", "unused.example")
    options = TlsOptions(sni_certificates=(SniCertificate(*more, ("api.example.com", "*.wild.example")),))
    shown = handshake(tmp_path, options, name=asked)[2]
    assert (shown.split() == more[0].read_text().split()) is special


def test_without_names_those_of_the_certificate_count(tmp_path: Path) -> None:
    more = pair(tmp_path / "more", "named.example")
    options = TlsOptions(sni_certificates=(SniCertificate(*more),))
    assert handshake(tmp_path, options, name="named.example")[2].split() == more[0].read_text().split()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.crt,a.key", SniCertificate(Path("a.crt"), Path("a.key"))),
        ("a.crt,a.key:x,*.y", SniCertificate(Path("a.crt"), Path("a.key"), ("x", "*.y"))),
    ],
)
def test_a_certificate_for_names_is_read_as_upstream_reads_it(text: str, found: SniCertificate) -> None:
    assert parse_sni_certificate(text) == found


def raises(problem: str, call: Callable[[], object]) -> None:
    with pytest.raises(TlsOptionError, match=problem):
        call()


def test_settings_that_cannot_be_followed_are_refused() -> None:
    raises("expected comma separated", lambda: parse_sni_certificate("a.crt"))
    raises("expected domain names", lambda: parse_sni_certificate("a.crt,a.key:"))
    raises('unknown tls version "TLS9"', lambda: min_version_of("TLS9"))
    raises("insecure", lambda: min_version_of("VersionTLS10"))
    raises("Cipher suite X not supported or doesn't exist", lambda: cipher_list(["X"]))
    raises("insecure", lambda: cipher_list(["TLS_RSA_WITH_3DES_EDE_CBC_SHA"]))
    raises("one of 23", lambda: apply_tls_options(context(), TlsOptions(curve_preferences=(23, 24)), context))


def test_suites_of_tls_1_3_cannot_be_chosen() -> None:
    assert cipher_list(["TLS_AES_128_GCM_SHA256"]) == ""
