# SPDX-License-Identifier: Apache-2.0
"""Tests of `kubeloop kubelet`: flags, certificates, and authorization of its port."""

from __future__ import annotations

import argparse
import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeloop.api.generated.authentication_v1 import TokenReview
from kubeloop.api.generated.authorization_v1 import SubjectAccessReview
from kubeloop.api.generated.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from kubeloop.api.kubelet_requests import NodeRequest, NodeResponse
from kubeloop.api.requests import WatchEvent
from kubeloop.apiserver.kubelet_client.kubelet_tls import fingerprint
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.apiserver.kubelet_client import kubelet_config
from kubeloop.cli.kubelet import bootstrap
from kubeloop.cli.kubelet.bootstrap import CertificateNotIssued, kubeconfig_of, needs_rotation, request_certificate
from kubeloop.cli.kubelet.certificates import KubeletCertificates
from kubeloop.cli.kubelet.config_files import load_configuration
from kubeloop.cli.kubelet.flags import add_flags, names_of
from kubeloop.cli.kubelet.keys import life_of, new_request
from kubeloop.cli.kubelet.server import AccessDenied, AccessRules, KubeletAccess, KubeletHandler, ReadOnlyHandler
from kubeloop.cli.main import parse_command
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.pki.self_signed_certificate import ensure_self_signed
from kubeloop.clock import SystemClock
from kubeloop.http import Request
from kubeloop.runtime.component_config import ComponentConfigError


def options(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    return parser.parse_args(["--kubeconfig=x.conf", *flags])


# Flags.


def test_single_node_has_a_name_and_many_are_numbered() -> None:
    assert names_of(options("--hostname-override=w1")).all == ("w1",)
    assert names_of(options("--nodes=3", "--node-name-prefix=edge-")).all == ("edge-1", "edge-2", "edge-3")
    for wrong in (("--nodes=2", "--hostname-override=w1"), ("--hostname-override=W 1",)):
        with pytest.raises(ValueError, match=r"mutually exclusive|not a valid node name"):
            names_of(options(*wrong))


def test_labels_and_taints_are_parsed_like_the_kubelet() -> None:
    told = options("--node-labels=a=b,c=", "--register-with-taints=k=v:NoSchedule,l:NoExecute")
    assert told.node_labels == {"a": "b", "c": ""}
    taints = load_configuration(told).register_with_taints
    assert [(one.key, one.value, one.effect) for one in taints] == [("k", "v", "NoSchedule"), ("l", "", "NoExecute")]


@pytest.mark.parametrize("wrong", ["--node-labels=a", "--register-with-taints=k=v", "--max-pods=many"])
def test_invalid_values_are_rejected(wrong: str) -> None:
    with pytest.raises(SystemExit):
        options(wrong)


def test_authentication_is_required_by_default() -> None:
    found = load_configuration(options())
    assert (found.authentication.anonymous.enabled, found.authentication.webhook.enabled) == (False, True)
    assert (found.authorization.mode, found.read_only_port) == ("Webhook", 0)
    with pytest.raises(ComponentConfigError, match="unknown authorization mode"):
        load_configuration(options("--authorization-mode=Anything"))


def dialling(*flags: str) -> Any:
    return kubelet_config(parse_command(["apiserver", *flags]), Pki(Path("/keys")))


def test_api_server_uses_a_client_certificate_of_its_ca() -> None:
    config = dialling()
    assert config.certificate == Path("/keys/apiserver-kubelet-client.crt")
    assert (config.authority, config.own_authority, config.insecure) == (None, Path("/keys/ca.crt"), False)


def test_contradictory_kubelet_flags_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("")
    for wrong in (
        ("--kubelet-client-key=k",),
        (f"--kubelet-certificate-authority={tmp_path}/none",),
        ("--kubelet-insecure-tls", f"--kubelet-certificate-authority={tmp_path}/ca"),
    ):
        with pytest.raises(StartupError):
            dialling(*wrong)


# Certificates.


def serving(folder: Path, *flags: str) -> KubeletCertificates:
    told = options("--address=127.0.0.1", *flags)
    return KubeletCertificates(told, load_configuration(told), ("w1",), folder, SystemClock())


def test_kubelet_serves_a_self_signed_certificate_recorded_in_its_node(tmp_path: Path) -> None:
    shown = serving(tmp_path)
    der = ssl.PEM_cert_to_DER_cert((tmp_path / "kubelet.crt").read_text())
    assert shown.fingerprint == fingerprint(der)
    assert serving(tmp_path).fingerprint == shown.fingerprint
    assert shown.address == "127.0.0.1"


def test_certificate_flags_come_in_pairs_and_are_checked(tmp_path: Path) -> None:
    certificate, key = ensure_self_signed(tmp_path, "mine", ("localhost",), SystemClock().now())
    given = (f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}")
    assert serving(tmp_path, *given).fingerprint.startswith("sha256:")
    wrong = (given[:1], (*given, "--rotate-server-certificates"), (given[0], f"--tls-private-key-file={certificate}"))
    for one in wrong:
        with pytest.raises(StartupError):
            serving(tmp_path, *one)


def test_certificate_is_renewed_before_it_expires(tmp_path: Path) -> None:
    now = SystemClock().now()
    certificate, _ = ensure_self_signed(tmp_path, "mine", ("localhost",), now)
    assert [needs_rotation(certificate, now + timedelta(days=days)) for days in (0, 290, 300)] == [False, False, True]
    assert needs_rotation(tmp_path / "none", now)


def test_bootstrap_kubeconfig_becomes_the_nodes(tmp_path: Path) -> None:
    cluster = {"server": "https://10.0.0.1:6443", "certificate-authority": "ca.crt"}
    found = {
        "clusters": [{"name": "other"}, {"name": "c", "cluster": cluster}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "current-context": "x",
    }
    made = kubeconfig_of(found, tmp_path / "bootstrap.conf", Path("/keys/current.pem"))
    assert made["clusters"][0]["cluster"] == {**cluster, "certificate-authority": str(tmp_path / "ca.crt")}
    assert "secret" not in yaml.safe_dump(made)
    assert made["users"][0]["user"] == {
        "client-certificate": "/keys/current.pem",
        "client-key": "/keys/current.pem",
    }


class Signer:
    """API server that signs or denies certificate requests after a delay."""

    def __init__(self, *, denied: bool = False) -> None:
        self._denied = denied
        self._asked: CertificateSigningRequest | None = None
        self._is_answered = False

    async def create(self, made: CertificateSigningRequest) -> CertificateSigningRequest:
        self._asked = bootstrap.CertificateSigningRequest(
            metadata=bootstrap.ObjectMeta(name="csr-1", resource_version="5"), spec=made.spec
        )
        return self._asked

    async def get(self, kind: Any, name: str) -> CertificateSigningRequest:
        assert self._asked is not None
        if not self._is_answered:
            return self._asked
        denied = CertificateSigningRequestCondition(type="Denied", status="True", message="no")
        status = (
            CertificateSigningRequestStatus(conditions=(denied,))
            if self._denied
            else CertificateSigningRequestStatus(certificate=b"signed\n")
        )
        return CertificateSigningRequest(metadata=self._asked.metadata, spec=self._asked.spec, status=status)

    async def watch(self, kind: Any, *, fields: str, resource_version: str) -> AsyncIterator[tuple[Any, ...]]:
        assert (fields, resource_version) == ("metadata.name=csr-1", "5")
        yield (WatchEvent("BOOKMARK", None, "6"),)
        self._is_answered = True
        yield (WatchEvent("MODIFIED", await self.get(kind, "csr-1"), "7"),)


def test_certificate_is_awaited_and_stored_with_its_key() -> None:
    signer: Any = Signer()
    made = asyncio.run(request_certificate(signer, "w1", bootstrap.CLIENT_SIGNER))
    assert made.startswith(b"signed\n-----BEGIN PRIVATE KEY-----")
    assert signer._asked.spec.usages == ("digital signature", "client auth")


def test_denied_request_is_reported() -> None:
    signer: Any = Signer(denied=True)
    with pytest.raises(CertificateNotIssued, match="csr-1 was denied: no"):
        asyncio.run(request_certificate(signer, "w1", bootstrap.SERVING_SIGNER, ("w1", "10.0.0.1")))


def test_requests_have_node_name_and_addresses() -> None:
    from cryptography import x509

    _, pem = new_request("w1", ("w1", "10.0.0.1"))
    request = x509.load_pem_x509_csr(pem)
    assert request.subject.rfc4514_string() == "CN=system:node:w1,O=system:nodes"
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(one.value) for one in names] == ["w1", "10.0.0.1"]
    assert life_of(b"nothing") is None


# Access.


class ReviewServer:
    """API server with one token, whose user may do everything."""

    async def create(self, review: Any) -> Any:
        import msgspec

        if isinstance(review, TokenReview):
            known = review.spec.token == "known"
            user = {"username": "robot"} if known else {}
            return msgspec.convert({"status": {"authenticated": known, "user": user}}, TokenReview)
        assert isinstance(review, SubjectAccessReview)
        return msgspec.convert({"status": {"allowed": review.spec.user == "robot"}}, SubjectAccessReview)


@pytest.mark.parametrize(
    ("rules", "token", "outcome"),
    [
        (AccessRules(), "known", 200),
        (AccessRules(), "unknown", 401),
        (AccessRules(), "", 401),
        (AccessRules(webhook_authentication=False), "known", 401),
        (AccessRules(anonymous=True), "", 403),
        (AccessRules(anonymous=True), "unknown", 401),
        (AccessRules(anonymous=True, always_allow=True), "", 200),
    ],
)
def test_port_admits_clients_by_flags_and_api_server(rules: AccessRules, token: str, outcome: int) -> None:
    client: Any = ReviewServer()
    headers = {"authorization": f"Bearer {token}"} if token else {}

    async def ask() -> int:
        try:
            await KubeletAccess(client, SystemClock(), rules).check(Request("GET", "/pods", "", headers), "w1")
        except AccessDenied as denied:
            return denied.status
        return 200

    assert asyncio.run(ask()) == outcome


class AnsweringNodes:
    """Nodes that answer every request with its path."""

    def can_reach(self, node: str) -> bool:
        return True

    async def send_request(self, node: str, request: NodeRequest) -> NodeResponse:
        return NodeResponse(200, request.path.encode())


def respond(handler: KubeletHandler | ReadOnlyHandler, path: str, method: str = "GET") -> int:
    async def ask() -> int:
        return (await handler.handle(Request(method, path, "", {}))).status

    return asyncio.run(ask())


def test_read_only_port_serves_nothing_that_acts_or_is_secret() -> None:
    nodes: Any = AnsweringNodes()
    handler = ReadOnlyHandler("w1", nodes, lambda *_: None)
    for path in ("/healthz", "/pods", "/stats/summary", "/metrics", "/metrics/cadvisor"):
        assert respond(handler, path) == 200
    for path in (
        "/containerLogs/ns/p/c",
        "/exec/ns/p/c",
        "/run/ns/p/c",
        "/configz",
        "/flagz",
        "/logs/",
        "/runningpods",
    ):
        assert respond(handler, path) == 404
    assert respond(handler, "/pods", "POST") == 404


def test_debugging_handlers_can_be_turned_off() -> None:
    nodes: Any = AnsweringNodes()
    rules = AccessRules(anonymous=True, always_allow=True, has_debugging=False)
    client: Any = ReviewServer()
    handler = KubeletHandler("w1", nodes, lambda *_: None, KubeletAccess(client, SystemClock(), rules))
    for path in ("/exec/ns/p/c", "/%65xec/ns/p/c", "/containerLogs/ns/p/c", "/run/ns/p/c", "/portForward/ns/p"):
        assert respond(handler, path, "POST") == 405
    assert respond(handler, "/pods") == 200
