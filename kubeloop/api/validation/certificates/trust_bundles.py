# SPDX-License-Identifier: Apache-2.0
"""Validation of ClusterTrustBundles: their signer's name, and that their certificates are CAs."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.certificates_v1 import ClusterTrustBundle
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, too_long
from kubeloop.api.meta.name_rules import check_dns1123_subdomain
from kubeloop.api.validation.certificates.pem import pem_blocks
from kubeloop.api.validation.certificates.x509 import certificate_error, is_ca
from kubeloop.api.validation.pods.volumes.projected_volumes import validate_signer_name
from kubeloop.api.validation.shared.objectmeta import METADATA, byte_length
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_unchanged

_SIGNER: Final = FieldPath("spec").child("signerName")
_BUNDLE: Final = FieldPath("spec").child("trustBundle")
_MAX_SIZE: Final = 1024 * 1024
_OMITTED: Final = "<value omitted>"


def _validate_create(obj: ClusterTrustBundle) -> FieldErrors:
    return _validate_owner(obj) + _validate_anchors(obj.spec.trust_bundle)


def _validate_update(new: ClusterTrustBundle, old: ClusterTrustBundle) -> FieldErrors:
    errors = _validate_owner(new)
    if new.spec.trust_bundle != old.spec.trust_bundle:
        errors += _validate_anchors(new.spec.trust_bundle)
    return errors + validate_unchanged(new.spec.signer_name, old.spec.signer_name, _SIGNER)


def _validate_owner(obj: ClusterTrustBundle) -> FieldErrors:
    """Validate that a bundle's name has its signer's as a prefix, so that bundles can't be forged."""
    name, signer = obj.metadata.name, obj.spec.signer_name
    messages = _name_messages(name, signer) if name else []
    errors = [invalid(METADATA.child("name"), name, message) for message in messages]
    return errors + validate_signer_name(signer, _SIGNER) if signer else errors


def _name_messages(name: str, signer: str) -> list[str]:
    if not signer:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return check_dns1123_subdomain(name)
    prefix = f"{signer.replace('/', ':')}:"
    if not name.startswith(prefix):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"]
    return check_dns1123_subdomain(name.removeprefix(prefix))


def _validate_anchors(bundle: str) -> FieldErrors:
    if byte_length(bundle) > _MAX_SIZE:
        return [too_long(_BUNDLE, _MAX_SIZE)]
    problems: list[str] = []
    positions: dict[bytes, list[int]] = {}
    for index, block in enumerate(pem_blocks(bundle.encode(errors="replace"))):
        if block.type != "CERTIFICATE":
            problems.append(f"entry {index} has bad block type: {block.type}")
        elif block.has_headers:
            problems.append(f"entry {index} has PEM block headers")
        elif certificate_error(block.content):
            problems.append(f"entry {index} does not parse as X.509")
        elif not is_ca(block.content):
            problems.append(f"entry {index} does not have the CA bit set")
        positions.setdefault(block.content, []).append(index)
    if not problems:
        problems = _repeated(positions) if positions else ["at least one trust anchor must be provided"]
    return [invalid(_BUNDLE, _OMITTED, problem) for problem in problems]


def _repeated(positions: dict[bytes, list[int]]) -> list[str]:
    shown = (" ".join(map(str, indexes)) for indexes in positions.values() if len(indexes) > 1)
    return [f"duplicate trust anchor (indices [{indexes}])" for indexes in shown]


CLUSTER_TRUST_BUNDLE = ValidationRules(_validate_create, _validate_update)
