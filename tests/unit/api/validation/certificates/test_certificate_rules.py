# SPDX-License-Identifier: Apache-2.0
"""Rules of certificate requests, pod certificates and trust bundles."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates, updates
from tests.unit.api.validation.manifests import altered
from tests.unit.api.validation.messages import DNS_SUBDOMAIN

KEY = ec.derive_private_key(7, ec.SECP256R1())


def request(encoding: Encoding = Encoding.PEM) -> str:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jane")])
    signed = x509.CertificateSigningRequestBuilder().subject_name(name).sign(KEY, hashes.SHA256())
    return b64encode(signed.public_bytes(encoding)).decode()


GROUP = ".certificates.k8s.io"
NAMES = {"podName": "p", "serviceAccountName": "s", "nodeName": "n"}
UIDS = {"podUID": "u", "serviceAccountUID": "u", "nodeUID": "u"}
SIGNED = {"signerName": "example.com/s", "maxExpirationSeconds": 3600, "stubPKCS10Request": request(Encoding.DER)}
POD_REQUEST = {"spec": {**SIGNED, **NAMES, **UIDS}}
SIGNING_REQUEST = {"spec": {"request": request(), "signerName": "example.com/s", "usages": ["client auth"]}}
DECISION = {"type": "Approved", "status": "True"}
CONDITION = {"type": "Issued", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def conditions(*conditions: dict[str, str]) -> dict[str, Any]:
    return {"status.conditions": list(conditions)}


CASES = [
    *creates("podcertificaterequests" + GROUP, POD_REQUEST, [
        ({"spec.stubPKCS10Request": None},
            ["spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) "
             "must be set"]),
        ({"spec.unverifiedUserAnnotations": {"a": "b"}},
            ['spec.unverifiedUserAnnotations: Invalid value: "a": must be a domain-prefixed key (such as '
             '"acme.io/foo")']),
        ({"spec.unverifiedUserAnnotations": {"example.com/a": "b" * 262144}},
            ["spec.unverifiedUserAnnotations: Too long: may not be more than 262144 bytes"]),
        ({"spec.podName": "P_"}, ['spec.podName: Invalid value: "P_": ' + DNS_SUBDOMAIN]),
        ({"spec.serviceAccountName": "S_"}, ['spec.serviceAccountName: Invalid value: "S_": ' + DNS_SUBDOMAIN]),
        ({"spec.nodeName": "N_"}, ['spec.nodeName: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        ({"spec.podUID": ""}, ['spec.podUID: Invalid value: "": must not be empty']),
        ({"spec.nodeUID": "u" * 129}, ["spec.nodeUID: Too long: may not be more than 128 bytes"]),
        ({"spec.maxExpirationSeconds": 3599},
            ["spec.maxExpirationSeconds: Invalid value: 3599: must be in the range [3600, 7862400]"]),
        ({"spec.stubPKCS10Request": "YQ=="}, ["spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"]),
        ({"spec.stubPKCS10Request": "A" * 13656},
            ["spec.stubPKCS10Request: Too long: may not be more than 10240 bytes"]),
    ], ALL_FEATURES),
    *updates("podcertificaterequests" + GROUP, POD_REQUEST, [
        ({}, conditions({**CONDITION, "type": "T"}),
            ['status.conditions.[0].type: Unsupported value: "T": supported values: "Issued", "Denied", "Failed"']),
        ({}, conditions(CONDITION, {**CONDITION, "type": "Denied"}),
            ['status.conditions.[1].type: Invalid value: "Denied": There may be at most one condition with type '
             '"Issued", "Denied", or "Failed"']),
        ({}, conditions({**CONDITION, "status": "False"}),
            ['status.conditions.[0].status: Unsupported value: "False": supported values: "True"']),
        ({}, conditions(CONDITION),
            ['status.certificateChain: Invalid value: "": issued certificate chain must contain at least one '
             "certificate"]),
        ({}, {**conditions(CONDITION), "status.certificateChain": "c" * 102401},
            ["status.certificateChain: Too long: may not be more than 102400 bytes"]),
        ({}, {**conditions({**CONDITION, "type": "Denied"}), "status.certificateChain": "c"},
            ["status: Invalid value: non-condition status fields must be empty when denying or failing the "
             "PodCertificateRequest"]),
        ({}, {"status.certificateChain": "c"},
            ['status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed"']),
        (conditions({**CONDITION, "type": "Denied"}), conditions({**CONDITION, "type": "Failed"}),
            ["status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"]),
    ], "status", ALL_FEATURES),
    *updates("certificatesigningrequests" + GROUP, SIGNING_REQUEST, [
        ({}, conditions({**DECISION, "type": ""}), ["status.conditions[0].type: Required value"]),
        ({}, conditions({**DECISION, "status": "False"}),
            ['status.conditions[0].status: Unsupported value: "False": supported values: "True"']),
        ({}, conditions(DECISION, DECISION), ['status.conditions[1].type: Duplicate value: "Approved"']),
        ({}, conditions(DECISION, {**DECISION, "type": "Denied"}),
            ['status.conditions: Invalid value: "{conditions[{\\"type\\": \\"Approved\\"}], '
             'conditions[{\\"type\\": \\"Denied\\"}]}": must specify at most one of: `conditions[{"type": '
             '"Approved"}]`, `conditions[{"type": "Denied"}]`']),
    ], "approval"),
    *updates("certificatesigningrequests" + GROUP, SIGNING_REQUEST, [
        ({}, conditions({"type": "T", "status": "S"}),
            ['status.conditions[0].status: Unsupported value: "S": supported values: "False", "True", "Unknown"']),
        ({}, conditions({"type": "T", "status": ""}), ["status.conditions[0].status: Required value"]),
        ({}, {"status.certificate": "YQ=="},
            ['status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE '
             "PEM block"]),
    ], "status"),
    *creates("clustertrustbundles" + GROUP, {"spec": {}}, [
        ({}, ['spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided']),
        ({"spec.trustBundle": "b" * 1048577}, ["spec.trustBundle: Too long: may not be more than 1048576 bytes"]),
        ({"metadata": {"name": "a:b"}},
            [('metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in '
             "its name"),
             'spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided']),
        ({"metadata": {"name": "B_"}},
            ['metadata.name: Invalid value: "B_": ' + DNS_SUBDOMAIN,
             'spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided']),
        ({"spec.signerName": "example.com/s"},
            [('metadata.name: Invalid value: "x": ClusterTrustBundle for signerName example.com/s must be named '
             "with prefix example.com:s:"),
             'spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided']),
        ({"spec.signerName": "s", "metadata": {"name": "s:b"}},
            [('spec.signerName: Invalid value: "s": must be a fully qualified domain and path of the form '
             "'example.com/signer-name'"),
             'spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided']),
        ({"spec.trustBundle": "-----BEGIN KEY-----\nYQ==\n-----END KEY-----\n"},
            ['spec.trustBundle: Invalid value: "<value omitted>": entry 0 has bad block type: KEY']),
        ({"spec.trustBundle": "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"},
            ['spec.trustBundle: Invalid value: "<value omitted>": entry 0 does not parse as X.509']),
        ({"spec.trustBundle": "-----BEGIN CERTIFICATE-----\na: b\n\nYQ==\n-----END CERTIFICATE-----\n"},
            ['spec.trustBundle: Invalid value: "<value omitted>": entry 0 has PEM block headers']),
    ], ALL_FEATURES),
    *updates("clustertrustbundles" + GROUP, {"spec": {}}, [
        ({}, {"spec.trustBundle": "b"},
            ['spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided']),
        ({}, {"spec.signerName": "example.com/s", "metadata": {"name": "example.com:s:x"}},
            ['metadata.name: Invalid value: "example.com:s:x": field is immutable',
             'spec.signerName: Invalid value: "example.com/s": field is immutable']),
    ], "", ALL_FEATURES),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_requests_are_reported(case: Case) -> None:
    assert case.found() == case.errors


def test_the_spec_of_a_pod_certificate_request_is_immutable() -> None:
    new = altered(POD_REQUEST, {"spec.nodeName": "m"})
    (error,) = Case("podcertificaterequests" + GROUP, new, [], POD_REQUEST, features=ALL_FEATURES).found()
    assert error == (
        'spec: Invalid value: {"SignerName":"example.com/s","PodName":"p","PodUID":"u","ServiceAccountName":"s",'
        '"ServiceAccountUID":"u","NodeName":"m","NodeUID":"u","MaxExpirationSeconds":3600,"PKIXPublicKey":null,'
        f'"ProofOfPossession":null,"StubPKCS10Request":"{SIGNED["stubPKCS10Request"]}",'
        '"UnverifiedUserAnnotations":null}: field is immutable'
    )
