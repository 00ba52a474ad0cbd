# SPDX-License-Identifier: Apache-2.0
"""Tests of the config map extension-apiserver-authentication: completed, and recreated when deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.bootstrap.extension_apiserver_authentication import (
    NAME,
    NAMESPACE,
    AuthenticationConfigMap,
    merge_authentication_info,
)
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from tests.unit.apiserver.conftest import Api, ManualClock

NOW = datetime(2026, 5, 10, 12, tzinfo=UTC)
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
HEADERS = {"requestheader-group-headers": '["X-Remote-Group"]'}


def authority(name: str, days: int = 100) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(NOW - timedelta(days=200)).not_valid_after(NOW + timedelta(days=days))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


OURS, THEIRS, EXPIRED = authority("ours"), authority("theirs"), authority("expired", -1)


def test_missing_keys_are_added() -> None:
    assert merge_authentication_info({}, {"client-ca-file": OURS, **HEADERS}, NOW) == {
        "client-ca-file": OURS,
        **HEADERS,
    }


def test_cas_of_other_servers_are_kept_until_expired() -> None:
    found = merge_authentication_info({"client-ca-file": THEIRS + EXPIRED + OURS}, {"client-ca-file": OURS}, NOW)
    assert found == {"client-ca-file": THEIRS + OURS}
    assert merge_authentication_info(found, {"client-ca-file": OURS}, NOW) == found


def test_lists_are_merged_without_duplicates() -> None:
    present = {"requestheader-group-headers": '["X-Other","X-Remote-Group"]'}
    assert merge_authentication_info(present, HEADERS, NOW) == present


@pytest.mark.parametrize("text", ["", "no list", "[1]"])
def test_unusable_values_are_replaced(text: str) -> None:
    assert merge_authentication_info({"requestheader-group-headers": text, "strange": "x"}, HEADERS, NOW) == HEADERS
    assert merge_authentication_info({"client-ca-file": text}, {"client-ca-file": OURS}, NOW) == {
        "client-ca-file": OURS
    }


@pytest.fixture
def api() -> Iterator[Api]:
    with asyncio.Runner() as runner:
        found = Api(runner, ManualClock())
        found.made("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield found


def test_config_map_is_created_completed_and_recreated(api: Api) -> None:
    data = {"client-ca-file": OURS, **HEADERS}
    wanted = ConfigMap(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), data=data)

    async def start() -> AuthenticationConfigMap:
        config_map = AuthenticationConfigMap(
            api.registry, BootstrapWriter(api.registry, api.clock, DEFAULT_FEATURES), wanted, api.clock
        )
        await look(config_map)
        return config_map

    async def look(config_map: AuthenticationConfigMap) -> None:
        config_map.sync()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    config_map = api._runner.run(start())
    assert api.get(PATH).body["data"] == data
    api.patch("merge", PATH, {"data": {"client-ca-file": THEIRS}})
    api._runner.run(look(config_map))
    assert api.get(PATH).body["data"]["client-ca-file"] == THEIRS + OURS
    api.ask("DELETE", PATH)
    assert api.get(PATH).body["data"] == data
    config_map.close()
