# SPDX-License-Identifier: Apache-2.0
"""Validation of PodCertificateRequests, which kubelets create for pods.

Upstream also requires an issued certificate to begin within minutes of the server's clock; these rules have no clock.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kubeloop.api.generated.certificates_v1 import (
    PodCertificateRequest,
    PodCertificateRequestSpec,
    PodCertificateRequestStatus,
)
from kubeloop.api.meta.field_path import (
    OMITTED,
    FieldErrors,
    FieldPath,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeloop.api.meta.name_rules import validate_domain_prefixed_key
from kubeloop.api.validation.certificates.pem import pem_blocks
from kubeloop.api.validation.certificates.x509 import certificate_error
from kubeloop.api.validation.pods.volumes.projected_volumes import validate_signer_name
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.meta_conditions import validate_conditions
from kubeloop.api.validation.shared.objectmeta import ANNOTATIONS_MAX, byte_length, total_size
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import IMMUTABLE, validate_dns_subdomain

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_CHAIN: Final = _STATUS.child("certificateChain")
_UID_MAX: Final = 128
_SHORTEST: Final = 3600
_LONGEST: Final = 91 * 24 * 3600
_LONGEST_OF_KUBERNETES: Final = 24 * 3600
_REQUEST_MAX: Final = 10 * 1024
_CHAIN_MAX: Final = 100 * 1024
_OUTCOMES: Final = ("Issued", "Denied", "Failed")


def _validate_create(obj: PodCertificateRequest) -> FieldErrors:
    spec = obj.spec
    errors = validate_signer_name(spec.signer_name, _SPEC.child("signerName"))
    errors += _validate_annotations(spec, _SPEC.child("unverifiedUserAnnotations"))
    for kind, name, uid in (
        ("pod", spec.pod_name, spec.pod_uid),
        ("serviceAccount", spec.service_account_name, spec.service_account_uid),
        ("node", spec.node_name, spec.node_uid),
    ):
        errors += validate_dns_subdomain(name, _SPEC.child(f"{kind}Name"))
        errors += _validate_uid(uid, _SPEC.child(f"{kind}UID"))
    if spec.max_expiration_seconds is not None:
        errors += _validate_lifetime(spec.max_expiration_seconds, spec.signer_name)
    return errors + _validate_request(spec.stub_pkcs10_request)


def _validate_annotations(spec: PodCertificateRequestSpec, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for key in spec.unverified_user_annotations:
        errors += validate_domain_prefixed_key(path, key.lower())
    if total_size(spec.unverified_user_annotations) > ANNOTATIONS_MAX:
        errors.append(too_long(path, ANNOTATIONS_MAX))
    return errors


def _validate_uid(uid: str, path: FieldPath) -> FieldErrors:
    if not uid:
        return [invalid(path, uid, "must not be empty")]
    return [too_long(path, _UID_MAX)] if byte_length(uid) > _UID_MAX else []


def _validate_lifetime(seconds: int, signer: str) -> FieldErrors:
    host = signer.partition("/")[0]
    own = host == "kubernetes.io" or host.endswith(".kubernetes.io")
    longest = _LONGEST_OF_KUBERNETES if own else _LONGEST
    if _SHORTEST <= seconds <= longest:
        return []
    return [invalid(_SPEC.child("maxExpirationSeconds"), seconds, f"must be in the range [{_SHORTEST}, {longest}]")]


def _validate_request(request: bytes) -> FieldErrors:
    path = _SPEC.child("stubPKCS10Request")
    if not request:
        detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
        return [invalid(_SPEC, OMITTED, detail)]
    if len(request) > _REQUEST_MAX:
        return [too_long(path, _REQUEST_MAX)]
    value, problem = _key_problem(request)
    return [invalid(path, value, problem)] if problem else []


def _key_problem(request: bytes) -> tuple[object, str]:
    """Return the value to show and the reason why the key of a DER request is invalid."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    try:
        parsed = x509.load_der_x509_csr(request)
        key, valid = parsed.public_key(), parsed.is_signature_valid
    except Exception:  # the library raises many kinds for content it can't read
        return OMITTED, "must be a valid PKCS#10 CSR"
    if isinstance(key, ec.EllipticCurvePublicKey):
        if not isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1):
            return f"curve {key.curve.name}", "elliptic public keys must use curve P256, P384, or P521"
    elif isinstance(key, rsa.RSAPublicKey):
        if key.key_size not in (3072, 4096):
            return f"{key.key_size}-bit modulus", "RSA keys must have modulus size 3072 or 4096"
    elif not isinstance(key, ed25519.Ed25519PublicKey):
        return OMITTED, "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
    return OMITTED, "" if valid else "invalid signature"


def _validate_update(new: PodCertificateRequest, old: PodCertificateRequest) -> FieldErrors:
    return [] if new.spec == old.spec else [invalid(_SPEC, _shown(new.spec), IMMUTABLE)]


def _shown(spec: PodCertificateRequestSpec) -> object:
    """Return a spec as upstream shows it: with fields of older versions, in its own order."""
    return ordered_object({
        "SignerName": spec.signer_name, "PodName": spec.pod_name, "PodUID": spec.pod_uid,
        "ServiceAccountName": spec.service_account_name, "ServiceAccountUID": spec.service_account_uid,
        "NodeName": spec.node_name, "NodeUID": spec.node_uid, "MaxExpirationSeconds": spec.max_expiration_seconds,
        "PKIXPublicKey": None, "ProofOfPossession": None, "StubPKCS10Request": spec.stub_pkcs10_request or None,
        "UnverifiedUserAnnotations": dict(sorted(spec.unverified_user_annotations.items())) or None,
    })  # fmt: skip


def _validate_status(new: PodCertificateRequest, old: PodCertificateRequest) -> FieldErrors:
    errors = _validate_outcomes(new) + validate_conditions(new.status.conditions, _STATUS.child("conditions"))
    if errors:
        return errors
    if _outcome(old):
        detail = "immutable after PodCertificateRequest is issued, denied, or failed"
        return _same_status(new.status, old.status, detail)
    if _outcome(new) in ("Denied", "Failed"):
        detail = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
        return _same_status(new.status, PodCertificateRequestStatus(conditions=new.status.conditions), detail)
    if _outcome(new) == "Issued":
        return _validate_issued(new.status)
    detail = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
    return _same_status(new.status, old.status, detail)


def _same_status(
    status: PodCertificateRequestStatus, expected: PodCertificateRequestStatus, detail: str
) -> FieldErrors:
    same = msgspec.structs.asdict(status) == msgspec.structs.asdict(expected)
    return [] if same else [invalid(_STATUS, OMITTED, detail)]


def _validate_outcomes(obj: PodCertificateRequest) -> FieldErrors:
    errors: FieldErrors = []
    known = 0
    for index, condition in enumerate(obj.status.conditions):
        at = _STATUS.child("conditions", f"[{index}]")
        if condition.type not in _OUTCOMES:
            errors.append(not_supported(at.child("type"), condition.type, _OUTCOMES))
            continue
        known += 1
        if known > 1:
            detail = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(invalid(at.child("type"), condition.type, detail))
        if condition.status != "True":
            errors.append(not_supported(at.child("status"), condition.status, ("True",)))
    return errors


def _outcome(obj: PodCertificateRequest) -> str:
    return next((one.type for one in obj.status.conditions if one.type in _OUTCOMES and one.status == "True"), "")


def _validate_issued(status: PodCertificateRequestStatus) -> FieldErrors:
    chain = status.certificate_chain
    if byte_length(chain) > _CHAIN_MAX:
        return [too_long(_CHAIN, _CHAIN_MAX)]
    if problem := _chain_problem(chain):
        return [invalid(_CHAIN, chain, problem)]
    consistent = "must be present and consistent with the issued certificate"
    inside = "must be present and in the range [notbefore+10min, notafter-10min]"
    moments = (
        ("notBefore", status.not_before, consistent),
        ("notAfter", status.not_after, consistent),
        ("beginRefreshAt", status.begin_refresh_at, inside),
    )
    return [required(_STATUS.child(name), detail) for name, moment, detail in moments if moment is None]


def _chain_problem(chain: str) -> str:
    blocks = list(pem_blocks(chain.encode(errors="replace")))
    if not blocks:
        return "issued certificate chain must contain at least one certificate"
    for position, block in enumerate(blocks):
        if block.type != "CERTIFICATE":
            # Upstream spells the word differently for those that follow.
            word = "CERTFICATE" if position else "CERTIFICATE"
            return f"issued certificate chain must consist entirely of {word} PEM blocks"
        if certificate_error(block.content):
            whose = "intermediate" if position else "leaf"
            return f"{whose} certificate does not parse as valid X.509"
    return ""


POD_CERTIFICATE_REQUEST = ValidationRules(_validate_create, _validate_update, {"status": _validate_status})
