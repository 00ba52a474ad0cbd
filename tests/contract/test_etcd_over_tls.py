# SPDX-License-Identifier: Apache-2.0
"""Tests against a real etcd with TLS and client certificates, including verification failures."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.clock import SystemClock
from kubeloop.store import StoreError
from kubeloop.store.etcd import client as connection_module
from kubeloop.store.etcd.client import Unavailable
from kubeloop.store.etcd.config import EtcdConfig, config_of_servers, config_of_url
from kubeloop.store.etcd.store import EtcdStore
from kubeloop.store.etcd.tls import tls_context
from tests.bounds import GIVE_UP_SECONDS
from tests.etcd_processes import EtcdCluster, EtcdTls


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EtcdCluster, Pki]]:
    pki = ensure_pki(tmp_path_factory.mktemp("pki"), ["127.0.0.1"], SystemClock().now())
    tls = EtcdTls(pki.ca, pki.serving_certificate, pki.serving_key)
    with EtcdCluster(tmp_path_factory.mktemp("etcd"), tls=tls) as cluster:
        yield cluster, pki


@pytest.fixture(scope="module")
def trusted(etcd: tuple[EtcdCluster, Pki]) -> EtcdConfig:
    cluster, pki = etcd
    files = {"cafile": str(pki.ca), "certfile": str(pki.admin_certificate), "keyfile": str(pki.admin_key)}
    return config_of_servers(f"https://{cluster.members[0].endpoint}", "/tls", files)


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return ensure_pki(tmp_path_factory.mktemp("others"), ["127.0.0.1"], SystemClock().now())


def test_certificate_verification_is_as_strict_as_other_etcd_clients(trusted: EtcdConfig) -> None:
    """Go does not ask for the extensions that OpenSSL's strict verification demands."""
    assert not tls_context(trusted).verify_flags & ssl.VERIFY_X509_STRICT


def outcome(config: EtcdConfig) -> str:
    """Return the result of a write, or its error."""

    async def main() -> str:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            store = EtcdStore(config)
            while True:
                try:
                    await store.start()
                    break
                except Unavailable as error:
                    if "refused" not in str(error).lower():  # a member that was only just started
                        raise
            event = await store.write("/registry/a", b"x" * 300_000)  # in many frames, more than a window
            await store.wait_current()
            record = store.get("/registry/a")
            await store.close()
            assert record is not None
            assert record == event.record
            return "done"

    try:
        return asyncio.run(main())
    except StoreError as error:
        return str(error)


def test_store_works_with_valid_tls_files(trusted: EtcdConfig) -> None:
    assert outcome(trusted) == "done"
    assert outcome(config_of_url(trusted.url())) == "done"


def test_certificate_of_an_unknown_ca_fails_immediately(trusted: EtcdConfig, strangers: Pki) -> None:
    told = outcome(msgspec.structs.replace(trusted, cafile=str(strangers.ca)))
    assert told.startswith(f"etcd at {trusted.endpoints[0]}: TLS handshake failed: certificate verification failed: ")


def test_rejected_client_certificate_is_reported(trusted: EtcdConfig, strangers: Pki) -> None:
    foreign = {"certfile": str(strangers.admin_certificate), "keyfile": str(strangers.admin_key)}
    for files in ({"certfile": "", "keyfile": ""}, foreign):
        told = outcome(msgspec.structs.replace(trusted, **files))
        assert "the client certificate was rejected" in told


def test_unusable_files_are_named(trusted: EtcdConfig, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    missing = tmp_path / "missing.pem"
    assert str(missing) in outcome(msgspec.structs.replace(trusted, cafile=str(missing)))
    assert str(empty) in outcome(msgspec.structs.replace(trusted, cafile=str(empty)))
    assert str(empty) in outcome(msgspec.structs.replace(trusted, certfile=str(empty)))


def test_plaintext_connection_to_a_tls_member_reports_no_response(
    trusted: EtcdConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "GIVE_UP_SECONDS", 0.3)
    plain = msgspec.structs.replace(trusted, tls=False, cafile="", certfile="", keyfile="")
    assert "does not respond" in outcome(plain)
