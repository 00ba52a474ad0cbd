# SPDX-License-Identifier: Apache-2.0
"""Tests of authentication and authorization with kubectl and over TLS."""

from __future__ import annotations

import base64
import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.conftest import MakePlane
from tests.e2e.kubectl import Kubectl
from tests.e2e.plane import Plane, eventually
from tests.skips import NEEDS_NEWER_KUBECTL, kubectl_version

KEY = ec.generate_private_key(ec.SECP256R1())


def test_administrator_is_authorized_for_everything(kubectl: Kubectl) -> None:
    if kubectl_version() < (1, 28):
        pytest.skip(f"{NEEDS_NEWER_KUBECTL}1.28")
    who = kubectl.json("auth", "whoami")["status"]["userInfo"]
    assert "system:masters" in who["groups"]
    assert who["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


def test_can_i(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "delete", "nodes").strip() == "yes"
    said = kubectl.run("auth", "can-i", "list", "pods", "--as=somebody")
    assert (said.code, said.out.strip().partition(" ")[0]) == (1, "no")
    kubectl("create", "rolebinding", "view", "--clusterrole=view", "--user=somebody")
    assert kubectl("auth", "can-i", "list", "pods", "--as=somebody").strip() == "yes"
    assert kubectl.run("auth", "can-i", "list", "secrets", "--as=somebody").code == 1
    assert kubectl.run("auth", "can-i", "list", "pods", "--as=somebody", "-n", "default").code == 1


def test_can_i_list(kubectl: Kubectl) -> None:
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=deployments.apps", "--resource-name=web")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--group=devs")
    listed = kubectl("auth", "can-i", "--list", "--as=somebody", "--as-group=devs")
    rows = {tuple(line.split()) for line in listed.splitlines()}
    assert ("deployments.apps", "[]", "[web]", "[get", "list]") in rows
    assert any(row[0] == "selfsubjectreviews.authentication.k8s.io" for row in rows)
    assert any(row[0] == "[/healthz]" for row in rows)
    assert not any(row[0].startswith("*") for row in rows)


def test_impersonation(kubectl: Kubectl) -> None:
    told = kubectl.fails("get", "pods", "--as=somebody")
    assert f'User "somebody" cannot list resource "pods" in API group "" in the namespace "{kubectl.namespace}"' in told
    kubectl("create", "rolebinding", "admin", "--clusterrole=admin", "--user=boss")
    assert kubectl("create", "configmap", "made", "--as=boss").startswith("configmap/made created")
    assert "cannot impersonate" in kubectl.fails(
        "get",
        "pods",
        "--as=boss",
        "--as-group=system:authenticated",
        "--kubeconfig",
        str(as_account(kubectl, "default")),
    )


def test_privilege_escalation_is_rejected(kubectl: Kubectl) -> None:
    kubectl("create", "rolebinding", "boss", "--clusterrole=admin", "--user=boss")
    told = kubectl.fails("create", "rolebinding", "more", "--clusterrole=cluster-admin", "--user=boss", "--as=boss")
    assert "is attempting to grant RBAC permissions not currently held" in told
    assert kubectl("create", "rolebinding", "less", "--clusterrole=view", "--user=friend", "--as=boss")


def token_of(kubectl: Kubectl, account: str, *flags: str) -> str:
    if kubectl_version() < (1, 24):
        pytest.skip(f"{NEEDS_NEWER_KUBECTL}1.24")
    return kubectl("create", "token", account, *flags).strip()


def as_account(kubectl: Kubectl, account: str) -> Path:
    """A kubeconfig with an account's token in place of the administrator's certificate."""
    config: dict[str, Any] = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token_of(kubectl, account)}
    path = kubectl.home / f"{kubectl.namespace}-{account}.conf"
    path.write_text(yaml.safe_dump(config))
    return path


def test_token_authenticates_its_account(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "robot")
    config = str(as_account(kubectl, "robot"))
    name = f"system:serviceaccount:{kubectl.namespace}:robot"
    assert name in kubectl.fails("get", "pods", "--kubeconfig", config)
    kubectl("create", "rolebinding", "robot", "--clusterrole=view", f"--serviceaccount={kubectl.namespace}:robot")
    assert kubectl.json("get", "pods", "--kubeconfig", config)["items"] == []
    kubectl("delete", "serviceaccount", "robot")
    assert "Unauthorized" in kubectl.fails("get", "pods", "--kubeconfig", config)


def test_token_has_the_requested_claims(kubectl: Kubectl) -> None:
    token = token_of(kubectl, "default", "--audience=vault", "--duration=20m")
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["vault"], 1200)
    assert claims["sub"] == f"system:serviceaccount:{kubectl.namespace}:default"


def test_certificate_is_requested_and_approved(kubectl: Kubectl) -> None:
    request = x509.CertificateSigningRequestBuilder().subject_name(named("carol"))
    pem = request.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    name = f"carol-{kubectl.namespace}"
    spec = {"request": base64.b64encode(pem).decode(), "signerName": "example.com/signer", "usages": ["client auth"]}
    meta = {"name": name}
    kubectl.apply(
        {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": meta, "spec": spec}
    )
    assert "Pending" in kubectl("get", "csr", name)
    kubectl("certificate", "approve", name)
    found = kubectl.json("get", "csr", name)
    assert [one["type"] for one in found["status"]["conditions"]] == ["Approved"]
    assert "system:masters" in found["spec"]["groups"]


def named(name: str, *groups: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def untrusted_client(plane: Plane, folder: Path) -> Plane:
    """Return a client with an administrator's certificate of another CA."""
    now = datetime.now(UTC)
    built = x509.CertificateBuilder().subject_name(named("admin", "system:masters")).issuer_name(named("kubeloop-ca"))
    built = built.public_key(KEY.public_key()).serial_number(1)
    built = built.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
    forged = built.sign(KEY, hashes.SHA256())
    (folder / "crt").write_bytes(forged.public_bytes(serialization.Encoding.PEM))
    (folder / "key").write_bytes(
        KEY.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    stranger = Plane(folder / "stranger")
    stranger.port, stranger._tls = plane.port, ssl.create_default_context()
    stranger._tls.check_hostname, stranger._tls.verify_mode = False, ssl.CERT_NONE
    stranger._tls.load_cert_chain(folder / "crt", folder / "key")
    return stranger


def test_token_verification_keys_are_published(plane: Plane) -> None:
    found = plane.get("/.well-known/openid-configuration")
    assert found["jwks_uri"] == f"https://127.0.0.1:{plane.port}/openid/v1/jwks"
    (key,) = plane.get("/openid/v1/jwks")["keys"]
    assert (key["alg"], key["crv"]) == ("ES256", "P-256")


def test_audit_log_has_accepted_and_rejected_requests(make_plane: MakePlane, tmp_path: Path) -> None:
    policy: dict[str, Any] = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
    policy["rules"] = [{"level": "RequestResponse"}]
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    log = tmp_path / "logs" / "audit.log"
    flags = ["--store", "memory", "--bind-address", "127.0.0.1", "--cert-dir", str(tmp_path / "pki")]
    plane = make_plane(
        *flags, "--audit-policy-file", str(tmp_path / "policy.yaml"), "--audit-log-path", str(log), command="apiserver"
    )
    plane.start()
    plane.create("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "stringData": {"k": "hunter2"}})
    assert plane.call("GET", "/api/v1/secrets", Authorization="Bearer x", Impersonate_User="eve").status == 403
    with plane.watch("/api/v1/podtemplates?watch=1&timeoutSeconds=1") as seen:
        assert list(seen) == []

    def stages_of_the_watch() -> bool:
        events = [json.loads(line) for line in log.read_text().splitlines()]
        stages = [event["stage"] for event in events if event["verb"] == "watch"]
        return stages == ["ResponseStarted", "ResponseComplete"]

    eventually(stages_of_the_watch)
    assert "hunter2" not in log.read_text()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        untrusted_client(plane, tmp_path).call("GET", "/api/v1/secrets")
    eventually(lambda: "attempted: x509" in log.read_text())
    events = [json.loads(line) for line in log.read_text().splitlines()]
    (refused,) = (event for event in events if event["responseStatus"]["code"] == 403)
    assert refused["impersonatedUser"]["username"] == "eve"
    assert refused["sourceIPs"] == ["127.0.0.1"]
    (stranger,) = (event for event in events if event["responseStatus"]["code"] == 401)
    assert stranger["user"] == {}
    assert "certificate" in stranger["responseStatus"]["message"]
