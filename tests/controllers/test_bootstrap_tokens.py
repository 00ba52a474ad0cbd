# SPDX-License-Identifier: Apache-2.0
"""Tests of bootstrap tokens: they sign the cluster info, and are deleted when expired."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import timedelta
from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import ConfigMap, Secret
from kubeloop.api.scalars.times import format_time
from kubeloop.controllers import bootstrap_signer, token_cleaner
from kubeloop.controllers.bootstrap_signer import signature_of
from kubeloop.controllers.shared.tokens.bootstrap_tokens import Token
from kubeloop.testing import Cluster, namespace
from tests.controllers.permissions import start_as

SYSTEM, PUBLIC = "kube-system", "kube-public"
UNTOLD: dict[str, Any] = {"usage-bootstrap-signing": None}
SECRETLESS: dict[str, Any] = {"token-secret": None}
CONTENT = "apiVersion: v1\nkind: Config\n"


def token(identifier: str = "abcdef", name: str = "", **data: Any) -> dict[str, Any]:
    told = {
        "token-id": identifier,
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-signing": "true",
        **data,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": name or f"bootstrap-token-{identifier}", "namespace": SYSTEM},
        "stringData": {key: value for key, value in told.items() if value is not None},
    }


def in_(cluster: Cluster, **time: float) -> str:
    return format_time(cluster.clock.now() + timedelta(**time))


def is_there(cluster: Cluster, identifier: str = "abcdef") -> bool:
    try:
        cluster.client.get(Secret, f"bootstrap-token-{identifier}", SYSTEM)
    except NotFound:
        return False
    return True


@pytest.fixture
def signing(cluster: Cluster) -> Cluster:
    try:
        cluster.client.get("namespaces", PUBLIC)
    except NotFound:
        cluster.add(namespace(PUBLIC))
    start_as(cluster, "bootstrap-signer", bootstrap_signer.wire)
    meta = {"name": "cluster-info", "namespace": PUBLIC}
    cluster.client.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"kubeconfig": CONTENT, "other": "kept"}}
    )
    return cluster


def signatures(cluster: Cluster) -> dict[str, str]:
    data = cluster.client.get(ConfigMap, "cluster-info", PUBLIC).data
    assert data["other"] == "kept"
    return {key: value for key, value in data.items() if key.startswith("jws-kubeconfig-")}


def test_signature_verifies_with_the_token() -> None:
    head, content, signature = signature_of(CONTENT, Token("abcdef", "0123456789abcdef")).split(".")
    assert base64.urlsafe_b64decode(head + "==") == b'{"alg":"HS256","kid":"abcdef"}'
    assert content == ""
    signed = f"{head}.{base64.urlsafe_b64encode(CONTENT.encode()).decode().rstrip('=')}"
    expected = hmac.digest(b"0123456789abcdef", signed.encode(), hashlib.sha256)
    assert base64.urlsafe_b64decode(signature + "==") == expected


def test_every_token_signs_and_resigns_changed_content(signing: Cluster) -> None:
    signing.client.create(token("abcdef"))
    signing.client.create(token("uvwxyz"))
    signing.settle()
    first = signatures(signing)
    assert sorted(first) == ["jws-kubeconfig-abcdef", "jws-kubeconfig-uvwxyz"]
    signing.client.patch(ConfigMap, "cluster-info", {"data": {"kubeconfig": "changed"}}, PUBLIC)
    signing.settle()
    second = signatures(signing)
    assert second["jws-kubeconfig-abcdef"] == signature_of("changed", Token("abcdef", "0123456789abcdef"))
    assert first.keys() == second.keys()


def test_signature_is_removed_with_its_token(signing: Cluster) -> None:
    signing.client.create(token())
    signing.settle()
    signing.client.delete(Secret, "bootstrap-token-abcdef", SYSTEM)
    signing.settle()
    assert signatures(signing) == {}


def test_signature_is_removed_when_its_token_expires(signing: Cluster) -> None:
    signing.client.create(token(expiration=in_(signing, minutes=10)))
    signing.settle()
    assert signatures(signing)
    signing.advance(601)
    assert signatures(signing) == {}


@pytest.mark.parametrize(
    "bad",
    [
        token(**{"usage-bootstrap-signing": "false"}),
        token(**UNTOLD),
        token(**SECRETLESS),
        token("abcdef", name="bootstrap-token-uvwxyz"),
        token("abcdef", name="token-abcdef"),
        token(expiration="2020-01-01T00:00:00Z"),
        token(expiration="soon"),
    ],
    ids=["not for it", "nothing said", "no secret", "another's name", "no name", "expired", "unreadable end"],
)
def test_tokens_without_signing_usage_do_not_sign(signing: Cluster, bad: dict[str, Any]) -> None:
    signing.client.create(bad)
    signing.settle()
    assert signatures(signing) == {}


def test_missing_content_is_not_signed(signing: Cluster) -> None:
    signing.client.patch(ConfigMap, "cluster-info", {"data": {"kubeconfig": None}}, PUBLIC)
    signing.client.create(token())
    signing.settle()
    assert signatures(signing) == {}


@pytest.fixture
def cleaning(cluster: Cluster) -> Cluster:
    start_as(cluster, "token-cleaner", token_cleaner.wire)
    return cluster


def test_token_is_deleted_when_it_expires(cleaning: Cluster) -> None:
    cleaning.client.create(token(expiration=in_(cleaning, hours=1)))
    cleaning.advance(3590)
    assert is_there(cleaning)
    cleaning.advance(11)
    assert not is_there(cleaning)


def test_extended_token_is_kept_until_its_new_expiration(cleaning: Cluster) -> None:
    cleaning.client.create(token(expiration=in_(cleaning, hours=1)))
    cleaning.settle()
    later = base64.b64encode(in_(cleaning, hours=3).encode()).decode()
    cleaning.client.patch(Secret, "bootstrap-token-abcdef", {"data": {"expiration": later}}, SYSTEM)
    cleaning.advance(2 * 3600)
    assert is_there(cleaning)
    cleaning.advance(3601)
    assert not is_there(cleaning)


def test_token_without_expiration_is_kept(cleaning: Cluster) -> None:
    cleaning.client.create(token())
    cleaning.advance(48 * 3600)
    assert is_there(cleaning)


def test_token_with_invalid_expiration_is_deleted(cleaning: Cluster) -> None:
    cleaning.client.create(token(expiration="tomorrow"))
    cleaning.settle()
    assert not is_there(cleaning)


def test_other_secrets_are_ignored(cleaning: Cluster) -> None:
    other = {**token(expiration="2020-01-01T00:00:00Z"), "type": "Opaque"}
    cleaning.client.create(other)
    cleaning.settle()
    assert is_there(cleaning)
