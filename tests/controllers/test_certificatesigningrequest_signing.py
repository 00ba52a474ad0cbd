# SPDX-License-Identifier: Apache-2.0
"""Approved requests are signed, as their signers' rules allow."""

from __future__ import annotations

import ipaddress
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest
from kubeloop.controllers import InvalidControllers
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.disabled_controller import DisabledController
from kubeloop.controllers.certificatesigningrequest_signing import wire
from kubeloop.testing import Cluster
from tests.controllers.certificate_requests import (
    API_CLIENT,
    CLIENT,
    KEY,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    NODE,
    SERVER,
    approve,
    authority_in,
    certificate_of,
    find,
    pem_request,
    signing_request,
)
from tests.controllers.permissions import start_as

ACCOUNT = "certificate-controller"
DNS = x509.DNSName("n1.example")
ADDRESS = x509.IPAddress(ipaddress.ip_address("10.0.0.1"))
EMAIL = x509.RFC822Name("a@b.example")
URI = x509.UniformResourceIdentifier("spiffe://a/b")


@pytest.fixture
def plane(cluster: Cluster, tmp_path: Path) -> Cluster:
    certificate, key = authority_in(tmp_path / "ca", cluster.clock.now())
    start_as(cluster, ACCOUNT, wire, cluster_signing_cert_file=certificate, cluster_signing_key_file=key)
    return cluster


def authority_of(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())


def signed(cluster: Cluster, **request: Any) -> x509.Certificate | None:
    cluster.client.create(signing_request(**request))
    approve(cluster)
    cluster.advance(1)
    return certificate_of(cluster)


def test_approved_request_gets_the_requested_certificate(plane: Cluster, tmp_path: Path) -> None:
    made = signed(plane, request=pem_request("jane", ("devs", "ops")))
    assert made is not None
    made.verify_directly_issued_by(authority_of(tmp_path / "ca"))
    assert made.public_key() == KEY.public_key()
    assert [one.value for one in made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["jane"]
    organizations = {one.value for one in made.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
    assert organizations == {"devs", "ops"}
    assert made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    usage = made.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.digital_signature
    assert not usage.value.key_encipherment
    purposes = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_unapproved_request_gets_no_certificate(plane: Cluster) -> None:
    plane.client.create(signing_request())
    plane.advance(3600)
    assert certificate_of(plane) is None


def test_denied_request_gets_no_certificate(plane: Cluster) -> None:
    plane.client.create(signing_request())
    approve(plane, decision="Denied")
    plane.advance(60)
    assert certificate_of(plane) is None


def test_request_for_another_signer_is_ignored(plane: Cluster) -> None:
    assert signed(plane, signer="example.com/mine") is None


def test_failed_request_gets_no_certificate(plane: Cluster) -> None:
    plane.client.create(signing_request())
    failed = {"type": "Failed", "status": "True", "reason": "Test"}
    patch = {"status": {"conditions": [failed]}}
    plane.client.patch(CertificateSigningRequest, "csr", patch, subresource="status")
    approve(plane)
    plane.advance(60)
    assert certificate_of(plane) is None


@pytest.mark.parametrize(
    ("asked", "days"), [(None, 365), (3 * 86400, 3), (400 * 86400, 365)], ids=["nothing", "less", "more than there is"]
)
def test_requested_duration_is_honored_within_limits(plane: Cluster, asked: int | None, days: int) -> None:
    made = signed(plane, **({} if asked is None else {"expirationSeconds": asked}))
    assert made is not None
    assert made.not_valid_after_utc - made.not_valid_before_utc == timedelta(days=days)
    assert made.not_valid_before_utc <= plane.clock.now() - timedelta(minutes=5)


def test_backdating_does_not_shorten_a_short_certificate(plane: Cluster) -> None:
    made = signed(plane, expirationSeconds=600)
    assert made is not None
    assert made.not_valid_after_utc - made.not_valid_before_utc == timedelta(minutes=15)


def test_certificate_never_outlives_its_ca(cluster: Cluster, tmp_path: Path) -> None:
    certificate, key = authority_in(tmp_path / "ca", cluster.clock.now(), timedelta(hours=2))
    start_as(cluster, ACCOUNT, wire, cluster_signing_cert_file=certificate, cluster_signing_key_file=key)
    made = signed(cluster)
    assert made is not None
    assert made.not_valid_after_utc == authority_of(tmp_path / "ca").not_valid_after_utc


def test_expired_ca_signs_nothing_until_replaced(cluster: Cluster, tmp_path: Path) -> None:
    certificate, key = authority_in(tmp_path / "ca", cluster.clock.now(), timedelta(seconds=-30))
    start_as(cluster, ACCOUNT, wire, cluster_signing_cert_file=certificate, cluster_signing_key_file=key)
    assert signed(cluster) is None
    authority_in(tmp_path / "ca", cluster.clock.now())
    cluster.advance(60)
    assert certificate_of(cluster) is not None


@pytest.mark.parametrize(
    ("request_", "usages", "why"),
    [
        (pem_request(**NODE, alternatives=[DNS, ADDRESS]), SERVER, ""),
        (pem_request(**NODE, alternatives=[ADDRESS]), (*SERVER, "key encipherment"), ""),
        (pem_request("system:node:n1", ("devs",), [DNS]), SERVER, "subject organization is not system:nodes"),
        (pem_request(**NODE), SERVER, "DNS or IP subjectAltName is required"),
        (pem_request(**NODE, alternatives=[DNS, EMAIL]), SERVER, "Email subjectAltNames are not allowed"),
        (pem_request(**NODE, alternatives=[DNS, URI]), SERVER, "URI subjectAltNames are not allowed"),
        (pem_request(**NODE, alternatives=[DNS]), CLIENT,
         "usages did not match [digital signature key encipherment server auth]"),
        (pem_request("n1", ("system:nodes",), [DNS]), SERVER, "subject common name does not begin with system:node:"),
    ],
)  # fmt: skip
def test_serving_signer_only_signs_for_nodes(
    plane: Cluster, request_: bytes, usages: tuple[str, ...], why: str
) -> None:
    check(plane, request_, KUBELET_SERVING, usages, why)


@pytest.mark.parametrize(
    ("request_", "usages", "why"),
    [
        (pem_request(**NODE), CLIENT, ""),
        (pem_request(**NODE), (*CLIENT, "key encipherment"), ""),
        (pem_request("system:node:n1", ("devs",)), CLIENT, "subject organization is not system:nodes"),
        (pem_request(**NODE, alternatives=[DNS]), CLIENT, "DNS subjectAltNames are not allowed"),
        (pem_request(**NODE, alternatives=[EMAIL]), CLIENT, "Email subjectAltNames are not allowed"),
        (pem_request(**NODE, alternatives=[ADDRESS]), CLIENT, "IP subjectAltNames are not allowed"),
        (pem_request(**NODE, alternatives=[URI]), CLIENT, "URI subjectAltNames are not allowed"),
        (pem_request("n1", ("system:nodes",)), CLIENT, "subject common name does not begin with system:node:"),
        (pem_request(**NODE), SERVER, "usages did not match [client auth digital signature key encipherment]"),
    ],
)
def test_kubelet_client_signer_rejects_other_names(
    plane: Cluster, request_: bytes, usages: tuple[str, ...], why: str
) -> None:
    check(plane, request_, KUBELET_CLIENT, usages, why)


@pytest.mark.parametrize(
    ("usages", "why"),
    [
        (("client auth",), ""),
        (("digital signature", "key encipherment", "client auth"), ""),
        (("digital signature", "server auth"), "invalid usage for client certificate: server auth"),
        (("digital signature",), "missing required usage for client certificate: client auth"),
    ],
)
def test_client_signer_only_signs_client_usages(plane: Cluster, usages: tuple[str, ...], why: str) -> None:
    check(plane, pem_request(), API_CLIENT, usages, why)


def check(plane: Cluster, request: bytes, signer: str, usages: tuple[str, ...], why: str) -> None:
    made = signed(plane, request=request, signer=signer, usages=usages)
    told = [(one.reason, one.message) for one in find(plane).status.conditions if one.type == "Failed"]
    assert (made is not None, told) == (not why, [("SignerValidationFailure", why)] if why else [])


def test_subject_alternative_names_are_signed(plane: Cluster) -> None:
    request = pem_request(**NODE, alternatives=[DNS, ADDRESS])
    made = signed(plane, request=request, signer=KUBELET_SERVING, usages=SERVER)
    assert made is not None
    assert list(made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == [DNS, ADDRESS]


def test_signers_have_separate_files_and_do_not_sign_without(cluster: Cluster, tmp_path: Path) -> None:
    certificate, key = authority_in(tmp_path / "ca", cluster.clock.now())
    flags = {
        "cluster_signing_kube_apiserver_client_cert_file": certificate,
        "cluster_signing_kube_apiserver_client_key_file": key,
    }
    start_as(cluster, ACCOUNT, wire, **flags)
    assert signed(cluster) is not None
    other = signing_request("node", pem_request(**NODE), KUBELET_CLIENT)
    cluster.client.create(other)
    approve(cluster, "node")
    cluster.advance(60)
    assert certificate_of(cluster, "node") is None


def test_controller_is_idle_without_files(cluster: Cluster) -> None:
    assert isinstance(wire(cluster.context), DisabledController)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"kubelet_client_cert": "ca.crt"}, "given together"),
        ({"kubelet_client_cert": "ca.crt", "kubelet_client_key": "none"}, "unable to read"),
        ({"cert": "ca.crt", "key": "ca.crt"}, "must contain one private key"),
        ({"cert": "ca.key", "key": "ca.key"}, "must contain one certificate"),
        ({"cert": "ca.crt", "key": "ca.key", "kubelet_client_cert": "ca.crt"}, "at the same time"),
    ],
)
def test_unusable_files_are_reported_at_start(
    cluster: Cluster, tmp_path: Path, flags: dict[str, str], why: str
) -> None:
    authority_in(tmp_path, cluster.clock.now())
    config: dict[str, Any] = {f"cluster_signing_{name}_file": str(tmp_path / file) for name, file in flags.items()}
    with pytest.raises(InvalidControllers, match=why):
        wire(replace(cluster.context, config=ManagerConfig(**config)))


STEPS = st.sampled_from(["approve", "deny", "wait", "conflict", "refuse", "drop watches"])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(STEPS, st.integers(0, 2)), max_size=12))
def test_only_approved_requests_are_signed(taken: list[tuple[str, int]]) -> None:
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        certificate, key = authority_in(Path(folder), cluster.clock.now())
        config = ManagerConfig(cluster_signing_cert_file=certificate, cluster_signing_key_file=key)
        cluster.start(wire(replace(cluster.context, config=config)))
        for number in range(3):
            cluster.client.create(signing_request(f"r{number}"))
        decided: dict[str, str] = {}
        for step, number in taken:
            name = f"r{number}"
            match step:
                case "approve" | "deny" if name not in decided:
                    decided[name] = step
                    approve(cluster, name, "Approved" if step == "approve" else "Denied")
                case "wait":
                    cluster.advance(number)
                case "conflict":
                    cluster.faults.conflict("patch")
                case "refuse":
                    cluster.faults.fail("patch")
                case "drop watches":
                    cluster.faults.drop_watches()
            for one in range(3):
                assert not find(cluster, f"r{one}").status.certificate or decided.get(f"r{one}") == "approve"
        cluster.faults.clear()
        cluster.advance(60)
        certified = {f"r{one}" for one in range(3) if find(cluster, f"r{one}").status.certificate}
        assert certified == {name for name, decision in decided.items() if decision == "approve"}
