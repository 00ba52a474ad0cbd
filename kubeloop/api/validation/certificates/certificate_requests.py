# SPDX-License-Identifier: Apache-2.0
"""Validation of CertificateSigningRequests, their approval and the status set by signers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubeloop.api.generated.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
)
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.validation.certificates.pem import pem_blocks
from kubeloop.api.validation.certificates.x509 import certificate_error, signing_request_error
from kubeloop.api.validation.pods.volumes.projected_volumes import validate_signer_name
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last
from kubeloop.api.validation.shared.meta_conditions import CONDITION_STATUSES
from kubeloop.api.validation.shared.rules import ValidationRules

_SPEC: Final = FieldPath("spec")
_CONDITIONS: Final = FieldPath("status").child("conditions")
_CERTIFICATE: Final = FieldPath("status").child("certificate")
_LEGACY_SIGNER: Final = "kubernetes.io/legacy-unknown"
_MIN_SECONDS: Final = 600
_APPROVAL: Final = ("Approved", "Denied")
_ONLY_TRUE: Final = (*_APPROVAL, "Failed")
_BOTH: Final = 'conditions[{"type": "Approved"}], conditions[{"type": "Denied"}]'
_USAGES: Final = frozenset((
    "signing", "digital signature", "content commitment", "key encipherment", "key agreement", "data encipherment",
    "cert sign", "crl sign", "encipher only", "decipher only", "any", "server auth", "client auth", "code signing",
    "email protection", "s/mime", "ipsec end system", "ipsec tunnel", "ipsec user", "timestamping", "ocsp signing",
    "microsoft sgc", "netscape sgc",
))  # fmt: skip


@dataclass(frozen=True)
class _Leniency:
    """Violations that an update may keep because the stored request has them."""

    both_decisions: bool = False
    legacy_signer: bool = False
    repeated_conditions: bool = False
    nameless_conditions: bool = False
    any_certificate: bool = False
    repeated_usages: bool = False
    unknown_usages: bool = False


def _leniency_of(new: CertificateSigningRequest, old: CertificateSigningRequest) -> _Leniency:
    types = [condition.type for condition in old.status.conditions]
    usages = old.spec.usages
    return _Leniency(
        both_decisions=set(_APPROVAL) <= set(types),
        legacy_signer=old.spec.signer_name == _LEGACY_SIGNER,
        repeated_conditions=len(set(types)) < len(types),
        nameless_conditions="" in types,
        any_certificate=new.status.certificate == old.status.certificate
        or bool(_chain_problem(old.status.certificate)),
        repeated_usages=len(set(usages)) < len(usages),
        unknown_usages=not _USAGES.issuperset(usages),
    )


def _validate_create(obj: CertificateSigningRequest) -> FieldErrors:
    return _validate_request(obj, _Leniency())


def _validate_request(obj: CertificateSigningRequest, lenient: _Leniency) -> FieldErrors:
    errors = _validate_spec(obj.spec, lenient)
    errors += _validate_conditions(obj.status.conditions, lenient)
    if not lenient.any_certificate and (problem := _chain_problem(obj.status.certificate)):
        errors.append(invalid(_CERTIFICATE, "<certificate data>", problem))
    return errors


def _validate_spec(spec: CertificateSigningRequestSpec, lenient: _Leniency) -> FieldErrors:
    errors: FieldErrors = []
    if problem := signing_request_error(spec.request):
        errors.append(invalid(_SPEC.child("request"), spec.request, problem))
    errors += _validate_usages(spec.usages, lenient)
    at = _SPEC.child("signerName")
    if spec.signer_name == _LEGACY_SIGNER and not lenient.legacy_signer:
        errors.append(invalid(at, spec.signer_name, "the legacy signerName is not allowed via this API version"))
    else:
        errors += validate_signer_name(spec.signer_name, at)
    if spec.expiration_seconds is not None and spec.expiration_seconds < _MIN_SECONDS:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid(_SPEC.child("expirationSeconds"), spec.expiration_seconds, detail))
    return errors


def _validate_usages(usages: tuple[str, ...], lenient: _Leniency) -> FieldErrors:
    path = _SPEC.child("usages")
    errors: FieldErrors = [] if usages else [required(path)]
    for index, usage in enumerate(usages):
        if usage not in _USAGES and not lenient.unknown_usages:
            errors.append(not_supported(path.index(index), usage, _USAGES))
        if usage in usages[:index] and not lenient.repeated_usages:
            errors.append(duplicate(path.index(index), usage))
    return errors


def _chain_problem(data: bytes) -> str:
    """Return the reason why the data is no certificate chain; empty data is valid."""
    if not data:
        return ""
    blocks = list(pem_blocks(data))
    for block in blocks:
        if block.type != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.type}"'
        if block.has_headers:
            return "no PEM block headers are permitted"
        if problem := certificate_error(block.content):
            return problem
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"


def _validate_conditions(conditions: tuple[CertificateSigningRequestCondition, ...], lenient: _Leniency) -> FieldErrors:
    errors: FieldErrors = []
    types = [condition.type for condition in conditions]
    for index, condition in enumerate(conditions):
        at = _CONDITIONS.index(index)
        if not condition.type and not lenient.nameless_conditions:
            errors.append(required(at.child("type")))
        allowed = frozenset(("True",)) if condition.type in _ONLY_TRUE else CONDITION_STATUSES
        if not condition.status:
            errors.append(required(at.child("status")))
        elif condition.status not in allowed:
            errors.append(not_supported(at.child("status"), condition.status, allowed))
        if condition.type in types[:index] and not lenient.repeated_conditions:
            errors.append(duplicate(at.child("type"), condition.type))
    if set(_APPROVAL) <= set(types) and not lenient.both_decisions:
        choices = ", ".join(f"`{choice}`" for choice in _BOTH.split(", "))
        errors += mark_generated([invalid(_CONDITIONS, f"{{{_BOTH}}}", f"must specify at most one of: {choices}")])
    return errors


def _validate_change(
    new: CertificateSigningRequest, old: CertificateSigningRequest, approving: bool = False, signing: bool = False
) -> FieldErrors:
    errors = _validate_request(new, _leniency_of(new, old))
    for kind in _ONLY_TRUE:
        before, after = _of_type(old, kind), _of_type(new, kind)
        if len(after) < len(before):
            errors.append(forbidden(_CONDITIONS, f'updates may not remove a condition of type "{kind}"'))
        elif kind in _APPROVAL and not approving and after != before:
            verb = "add" if len(after) > len(before) else "modify"
            errors.append(forbidden(_CONDITIONS, f'updates may not {verb} a condition of type "{kind}"'))
    if new.status.certificate != old.status.certificate:
        if not signing:
            errors.append(forbidden(_CERTIFICATE, "updates may not set certificate content"))
        elif old.status.certificate:
            errors.append(forbidden(_CERTIFICATE, "updates may not modify existing certificate content"))
    return sort_generated_last(errors)


def _of_type(obj: CertificateSigningRequest, kind: str) -> list[CertificateSigningRequestCondition]:
    return [condition for condition in obj.status.conditions if condition.type == kind]


def _validate_update(new: CertificateSigningRequest, old: CertificateSigningRequest) -> FieldErrors:
    return _validate_change(new, old)


def _validate_status(new: CertificateSigningRequest, old: CertificateSigningRequest) -> FieldErrors:
    return _validate_change(new, old, signing=True)


def _validate_approval(new: CertificateSigningRequest, old: CertificateSigningRequest) -> FieldErrors:
    return _validate_change(new, old, approving=True)


CERTIFICATE_SIGNING_REQUEST = ValidationRules(
    _validate_create, _validate_update, {"status": _validate_status, "approval": _validate_approval}
)
