# SPDX-License-Identifier: Apache-2.0
"""Validation tests of certificate requests, trust bundles and pod certificates."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from kubeloop.api.validation.certificates.pem import pem_blocks
from tests.unit.api.validation.manifests import altered, create_problems, update_problems

REQUESTS = "certificatesigningrequests.certificates.k8s.io"
BUNDLES = "clustertrustbundles.certificates.k8s.io"
POD_REQUESTS = "podcertificaterequests.certificates.k8s.io"
NOW = "2026-01-31T09:30:00Z"
SUBJECT = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jane")])
KEY = ec.derive_private_key(7, ec.SECP256R1())


@cache
def csr(encoding: Encoding = Encoding.PEM) -> str:
    request = x509.CertificateSigningRequestBuilder().subject_name(SUBJECT).sign(KEY, hashes.SHA256())
    return base64.b64encode(request.public_bytes(encoding)).decode()


@cache
def certificate(authority: bool) -> str:
    begin = datetime(2026, 1, 1)
    builder = x509.CertificateBuilder().subject_name(SUBJECT).issuer_name(SUBJECT).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(begin).not_valid_after(begin + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def request(**spec: Any) -> dict[str, Any]:
    return {"spec": {"request": csr(), "signerName": "example.com/signer", "usages": ["client auth"], **spec}}


def test_a_signed_request_passes() -> None:
    assert create_problems(REQUESTS, request()) == []
    assert create_problems(REQUESTS, {**request(), "metadata": {"name": "Any_Name:goes"}}) == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"request": ""}, 'spec.request: Invalid value: "": PEM block type must be CERTIFICATE REQUEST'),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["any", "any"]}, 'spec.usages[1]: Duplicate value: "any"'),
        ({"signerName": ""}, "spec.signerName: Required value"),
        (
            {"signerName": "kubernetes.io/legacy-unknown"},
            'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": '
            "the legacy signerName is not allowed via this API version",
        ),
        (
            {"expirationSeconds": 599},
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
        ),
    ],
)
def test_a_request_with_one_bad_field(spec: dict[str, Any], problem: str) -> None:
    assert create_problems(REQUESTS, request(**spec)) == [problem]


def test_unknown_usage_lists_the_known_ones() -> None:
    (problem,) = create_problems(REQUESTS, request(usages=["fun"]))
    assert problem.startswith('spec.usages[0]: Unsupported value: "fun": supported values: "any", "cert sign", ')


def decided(*types: str, **status: Any) -> dict[str, Any]:
    conditions = [{"type": name, "status": "True", "reason": "R"} for name in types]
    return {**request(), "status": {"conditions": conditions, **status}}


@pytest.mark.parametrize(
    ("old", "new", "subresource", "problem"),
    [
        ((), ("Approved",), "", 'Forbidden: updates may not add a condition of type "Approved"'),
        ((), ("Denied",), "status", 'Forbidden: updates may not add a condition of type "Denied"'),
        (("Approved",), (), "approval", 'Forbidden: updates may not remove a condition of type "Approved"'),
        (("Failed",), (), "status", 'Forbidden: updates may not remove a condition of type "Failed"'),
        (
            (),
            ("Approved", "Denied"),
            "approval",
            r'Invalid value: "{conditions[{\"type\": \"Approved\"}], conditions[{\"type\": \"Denied\"}]}": '
            'must specify at most one of: `conditions[{"type": "Approved"}]`, `conditions[{"type": "Denied"}]`',
        ),
    ],
)
def test_conditions_are_set_once_by_approval_only(
    old: tuple[str, ...], new: tuple[str, ...], subresource: str, problem: str
) -> None:
    found = update_problems(REQUESTS, decided(*old), decided(*new), subresource)
    assert found == [f"status.conditions: {problem}"]


def test_an_approval_passes() -> None:
    assert update_problems(REQUESTS, decided(), decided("Approved"), "approval") == []


def test_condition_status_is_never_false() -> None:
    new = altered(decided("Approved"), {"status.conditions.0.status": "False"})
    problem = 'status.conditions[0].status: Unsupported value: "False": supported values: "True"'
    assert update_problems(REQUESTS, decided(), new, "approval") == [problem]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_certificate_is_set_once() -> None:
    issued = decided(certificate=encoded(certificate(False)))
    assert update_problems(REQUESTS, decided(), issued, "status") == []
    assert update_problems(REQUESTS, decided(), issued) == [
        "status.certificate: Forbidden: updates may not set certificate content"
    ]
    assert update_problems(REQUESTS, issued, decided(), "status") == [
        "status.certificate: Forbidden: updates may not modify existing certificate content"
    ]
    assert update_problems(REQUESTS, decided(), decided(certificate=encoded("junk")), "status") == [
        'status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block'
    ]


def bundle(text: str, name: str = "x", signer: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"trustBundle": text, "signerName": signer}}


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: "", "at least one trust anchor must be provided"),
        (lambda: certificate(False), "entry 0 does not have the CA bit set"),
        (lambda: certificate(True) * 2, "duplicate trust anchor (indices [0 1])"),
        (lambda: certificate(True).replace("CERTIFICATE", "KEY"), "entry 0 has bad block type: KEY"),
        (lambda: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "entry 0 does not parse as X.509"),
    ],
)
def test_bundle_contains_ca_certificates(make: Any, problem: str) -> None:
    found = create_problems(BUNDLES, bundle(make()))
    assert found == [f'spec.trustBundle: Invalid value: "<value omitted>": {problem}']


def test_bundle_name_has_its_signer_prefix() -> None:
    signer = "example.com/signer"
    assert create_problems(BUNDLES, bundle(certificate(True), "example.com:signer:a", signer)) == []
    assert create_problems(BUNDLES, bundle(certificate(True), "a", signer)) == [
        'metadata.name: Invalid value: "a": ClusterTrustBundle for signerName example.com/signer '
        "must be named with prefix example.com:signer:"
    ]
    assert create_problems(BUNDLES, bundle(certificate(True), "a:b")) == [
        'metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name'
    ]


def pod_request(**spec: Any) -> dict[str, Any]:
    names = {f"{kind}{suffix}": "x" for kind in ("pod", "serviceAccount", "node") for suffix in ("Name", "UID")}
    whole = {**names, "signerName": "example.com/s", "maxExpirationSeconds": 3600, **spec}
    return {"spec": {"stubPKCS10Request": csr(Encoding.DER), **whole}}


def test_pod_certificate_request_passes() -> None:
    assert create_problems(POD_REQUESTS, pod_request()) == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"podUID": ""}, 'spec.podUID: Invalid value: "": must not be empty'),
        ({"nodeUID": "u" * 129}, "spec.nodeUID: Too long: may not be more than 128 bytes"),
        (
            {"maxExpirationSeconds": 60},
            "spec.maxExpirationSeconds: Invalid value: 60: must be in the range [3600, 7862400]",
        ),
        (
            {"stubPKCS10Request": ""},
            "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
        ),
        ({"stubPKCS10Request": "AAAA"}, "spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"),
    ],
)
def test_pod_certificate_request_with_one_bad_field(spec: dict[str, Any], problem: str) -> None:
    assert create_problems(POD_REQUESTS, pod_request(**spec)) == [problem]


def outcome(*types: str, **status: Any) -> dict[str, Any]:
    conditions = [{"type": name, "status": "True", "reason": "R", "lastTransitionTime": NOW} for name in types]
    return {**pod_request(), "status": {"conditions": conditions, **status}}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (outcome(), outcome("Odd"), 'status.conditions.[0].type: Unsupported value: "Odd": supported values: '
         '"Issued", "Denied", "Failed"'),
        (outcome("Denied"), outcome("Failed"), "status: Invalid value: immutable after PodCertificateRequest is "
         "issued, denied, or failed"),
        (outcome(), outcome("Denied", notAfter=NOW), "status: Invalid value: non-condition status fields must be "
         "empty when denying or failing the PodCertificateRequest"),
        (outcome(), outcome(notAfter=NOW), 'status: Invalid value: status is immutable unless transitioning to '
         '"Issued", "Denied", or "Failed"'),
        (outcome(), outcome("Issued"), 'status.certificateChain: Invalid value: "": issued certificate chain must '
         'contain at least one certificate'),
    ],
)  # fmt: skip
def test_pod_certificate_request_has_one_terminal_condition(
    old: dict[str, Any], new: dict[str, Any], problem: str
) -> None:
    assert update_problems(POD_REQUESTS, old, new, "status") == [problem]


def test_issued_certificate_has_times() -> None:
    moments = {"notBefore": NOW, "notAfter": NOW, "beginRefreshAt": NOW}
    new = outcome("Issued", certificateChain=certificate(False), **moments)
    assert update_problems(POD_REQUESTS, outcome(), new, "status") == []
    missing = update_problems(POD_REQUESTS, outcome(), altered(new, {"status.notAfter": None}), "status")
    assert missing == ["status.notAfter: Required value: must be present and consistent with the issued certificate"]


def test_pem_blocks_are_found_among_other_text() -> None:
    text = b"intro\n-----BEGIN A-----\nK: v\n\nAAAA\n-----END A-----\nmore\n-----BEGIN B-----\n!\n-----END B-----\n"
    assert [(block.type, block.has_headers, block.content) for block in pem_blocks(text)] == [("A", True, b"\0\0\0")]
