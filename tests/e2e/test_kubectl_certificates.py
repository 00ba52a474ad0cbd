# SPDX-License-Identifier: Apache-2.0
"""Tests of issued certificates and tokens with kubectl: requested, approved, signed, and valid."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.kubectl import WAIT, Kubectl

USAGES = ["digital signature", "client auth"]


@pytest.fixture
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def request_for(name: str, key: ec.EllipticCurvePrivateKey, user: str, *groups: str) -> dict[str, Any]:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in groups]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    request = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    encoded = base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": encoded,
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": USAGES,
            "expirationSeconds": 3600,
        },
    }


def with_certificate(kubectl: Kubectl, folder: Path, certificate: str, key: ec.EllipticCurvePrivateKey) -> Kubectl:
    """Return kubectl with the certificate's user."""
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    user = {"client-certificate-data": certificate, "client-key-data": base64.b64encode(private).decode()}
    return as_user(kubectl, folder, user)


def as_user(kubectl: Kubectl, folder: Path, user: dict[str, str]) -> Kubectl:
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": user}]
    file = folder / "user.conf"
    file.write_text(yaml.safe_dump(config))
    return Kubectl(file, kubectl.namespace, kubectl.home)


def test_approved_certificate_authenticates(kubectl: Kubectl, key: ec.EllipticCurvePrivateKey, tmp_path: Path) -> None:
    name = f"jane-{kubectl.namespace}"
    kubectl.apply(request_for(name, key, "jane", "readers"))
    assert "Pending" in kubectl("get", "csr", name)
    assert not kubectl.json("get", "csr", name).get("status", {}).get("certificate")
    kubectl("certificate", "approve", name)
    kubectl("wait", f"csr/{name}", "--for=jsonpath={.status.certificate}", WAIT)
    assert "Approved,Issued" in kubectl("get", "csr", name)
    jane = with_certificate(kubectl, tmp_path, kubectl.json("get", "csr", name)["status"]["certificate"], key)
    told = yaml.safe_load(jane("auth", "whoami", "-o", "yaml"))["status"]["userInfo"]
    assert (told["username"], "readers" in told["groups"]) == ("jane", True)
    assert "forbidden" in jane.fails("get", "configmaps")
    kubectl("create", "rolebinding", "readers", "--clusterrole=view", "--group=readers")
    jane("get", "configmaps")


def test_denied_request_gets_no_certificate(kubectl: Kubectl, key: ec.EllipticCurvePrivateKey) -> None:
    name = f"joe-{kubectl.namespace}"
    kubectl.apply(request_for(name, key, "joe"))
    kubectl("certificate", "deny", name)
    assert kubectl("get", "csr", name).split()[-1] == "Denied"
    assert "certificate" not in kubectl.json("get", "csr", name)["status"]


def test_request_that_violates_signer_rules_fails(kubectl: Kubectl, key: ec.EllipticCurvePrivateKey) -> None:
    name = f"jim-{kubectl.namespace}"
    wanted = request_for(name, key, "jim")
    wanted["spec"]["usages"] = ["server auth"]
    kubectl.apply(wanted)
    kubectl("certificate", "approve", name)
    kubectl("wait", f"csr/{name}", "--for=condition=Failed", WAIT)
    assert "Approved,Failed" in kubectl("get", "csr", name)


def test_token_secret_authenticates_until_its_account_is_deleted(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "serviceaccount", "robot")
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "robot", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        }
    )
    kubectl("wait", "secret/robot", "--for=jsonpath={.data.token}", WAIT)
    token = base64.b64decode(kubectl.json("get", "secret", "robot")["data"]["token"]).decode()
    robot = as_user(kubectl, tmp_path, {"token": token})
    told = yaml.safe_load(robot("auth", "whoami", "-o", "yaml"))["status"]["userInfo"]
    assert told["username"] == f"system:serviceaccount:{kubectl.namespace}:robot"
    kubectl("delete", "serviceaccount", "robot")
    kubectl("wait", "secret/robot", "--for=delete", WAIT)
    assert "Unauthorized" in robot.fails("auth", "whoami") or "must be logged in" in robot.fails("auth", "whoami")
