# SPDX-License-Identifier: Apache-2.0
"""Tokens without an end, in secrets that ask for them."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Secret, ServiceAccount
from kubeloop.api.signed_tokens import SigningKey, verify
from kubeloop.controllers import InvalidControllers
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.disabled_controller import DisabledController
from kubeloop.controllers.serviceaccount_token import wire
from kubeloop.testing import Cluster, secret, service_account
from tests.controllers.permissions import start_as

NS = "default"
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
TYPE = "kubernetes.io/service-account-token"
ROOT_CA = "-----BEGIN CERTIFICATE-----\n"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    made = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path / "sa.key"
    file.write_bytes(made)
    return file


@pytest.fixture
def plane(cluster: Cluster, key: Path) -> Cluster:
    cluster.context = replace(cluster.context, root_ca=ROOT_CA)
    start_as(cluster, "", wire, service_account_private_key_file=str(key))
    cluster.add(service_account("robot"))
    return cluster


def token_secret(name: str = "tok", account: str = "robot", **annotations: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": NS, "annotations": {NAME: account, **annotations}}
    return {"apiVersion": "v1", "kind": "Secret", "type": TYPE, "metadata": meta}


def find(cluster: Cluster, name: str = "tok") -> Any:
    try:
        return cluster.client.get(Secret, name, NS)
    except NotFound:
        return None


def test_secret_gets_a_token_of_its_account(plane: Cluster, key: Path) -> None:
    account = plane.client.get(ServiceAccount, "robot", NS)
    plane.client.create(token_secret())
    plane.settle()
    found = find(plane)
    assert found.metadata.annotations == {NAME: "robot", UID: account.metadata.uid}
    assert (found.data["namespace"], found.data["ca.crt"]) == (b"default", ROOT_CA.encode())
    claims = verify(found.data["token"].decode(), [SigningKey(key.read_bytes()).public])
    assert claims == {
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": NS,
        "kubernetes.io/serviceaccount/secret.name": "tok",
        "kubernetes.io/serviceaccount/service-account.name": "robot",
        "kubernetes.io/serviceaccount/service-account.uid": account.metadata.uid,
        "sub": "system:serviceaccount:default:robot",
    }


def test_existing_secret_data_is_kept(plane: Cluster) -> None:
    wanted = token_secret()
    wanted["data"] = {name: base64.b64encode(b"mine").decode() for name in ("token", "namespace", "ca.crt", "other")}
    plane.client.create(wanted)
    plane.settle()
    assert find(plane).data == {
        "token": b"mine",
        "namespace": b"mine",
        "ca.crt": ROOT_CA.encode(),
        "other": b"mine",
    }


def test_removed_token_is_recreated(plane: Cluster) -> None:
    plane.client.create(token_secret())
    plane.settle()
    plane.client.patch(Secret, "tok", {"data": {"token": None}}, NS)
    plane.settle()
    assert find(plane).data["token"]


def test_secret_of_a_missing_account_is_deleted(plane: Cluster) -> None:
    plane.client.create(token_secret(account="nobody"))
    plane.settle()
    assert find(plane) is None


def test_secret_of_another_account_of_the_same_name_is_deleted(plane: Cluster) -> None:
    plane.client.create(token_secret(**{UID: "another"}))
    plane.settle()
    assert find(plane) is None


def test_secrets_are_deleted_with_their_account(plane: Cluster) -> None:
    plane.add(service_account("other"))
    plane.client.create(token_secret("one"))
    plane.client.create(token_secret("two"))
    plane.client.create(token_secret("kept", account="other"))
    plane.add(secret("plain"))
    plane.settle()
    plane.client.delete(ServiceAccount, "robot", NS)
    plane.settle()
    assert [one.metadata.name for one in plane.client.list(Secret, NS).items] == ["kept", "plain"]


def test_secrets_of_a_replaced_account_are_deleted(plane: Cluster) -> None:
    plane.client.create(token_secret())
    plane.settle()
    plane.client.delete(ServiceAccount, "robot", NS)
    plane.add(service_account("robot"))
    plane.settle()
    assert find(plane) is None


def test_deleted_secret_is_removed_from_its_account(plane: Cluster) -> None:
    plane.client.create(token_secret())
    listed = [{"name": "tok", "namespace": NS}, {"name": "absent"}]
    plane.client.patch(ServiceAccount, "robot", {"secrets": listed}, NS)
    plane.settle()
    plane.client.delete(Secret, "tok", NS)
    plane.settle()
    assert [one.name for one in plane.client.get(ServiceAccount, "robot", NS).secrets] == ["absent"]


def test_last_secret_reference_is_removed(plane: Cluster) -> None:
    plane.client.create(token_secret())
    plane.client.patch(ServiceAccount, "robot", {"secrets": [{"name": "tok"}]}, NS)
    plane.settle()
    plane.client.delete(Secret, "tok", NS)
    plane.settle()
    assert plane.client.get(ServiceAccount, "robot", NS).secrets == ()


def test_controller_is_idle_without_key(cluster: Cluster) -> None:
    assert isinstance(wire(cluster.context), DisabledController)


@pytest.mark.parametrize("content", [None, b"nonsense"], ids=["missing", "no key"])
def test_unusable_key_is_reported_at_start(cluster: Cluster, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "bad.key"
    if content is not None:
        file.write_bytes(content)
    config = ManagerConfig(service_account_private_key_file=str(file))
    with pytest.raises(InvalidControllers, match="--service-account-private-key-file"):
        wire(replace(cluster.context, config=config))
