# SPDX-License-Identifier: Apache-2.0
"""Validation of projected files: secrets, config maps, the downward API, tokens, certificates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubeloop.api.generated import core_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    quote,
    required,
    too_long,
)
from kubeloop.api.meta.name_rules import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_user_id,
    validate_domain_prefixed_key,
)
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.pods.volumes.downward_api import VOLUME_FIELDS, validate_field_ref, validate_resource_ref
from kubeloop.api.validation.pods.volumes.file_paths import validate_local_non_reserved_path
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.objectmeta import ANNOTATIONS_MAX, total_size
from kubeloop.api.validation.shared.scalars import validate_file_mode

_CONFLICT: Final = "conflicting duplicate paths"
_KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_DAY: Final = 24 * 60 * 60
_TOKEN_MIN: Final = 10 * 60
_TOKEN_MAX: Final = 1 << 32
_SIGNER_MAX: Final = 253 + 1 + 253 + 1 + 63


def validate_user_id(user: int | None, path: FieldPath) -> FieldErrors:
    """Validate the user ID of a file's owner."""
    return [] if user is None else [invalid(path, user, message) for message in check_user_id(user)]


def validate_keyed_files(source: Any, name: str, name_field: str, path: FieldPath) -> FieldErrors:
    """Validate a Secret or ConfigMap volume: its name, and the keys that become files."""
    errors = [] if name else [required(path.child(name_field))]
    errors += validate_file_mode(source.default_mode, path.child("defaultMode"))
    errors += validate_user_id(source.default_user, path.child("defaultUser"))
    for index, item in enumerate(source.items):
        errors += _key_to_path(item, path.child("items").index(index))
    return errors


def _key_to_path(item: core_v1.KeyToPath, path: FieldPath) -> FieldErrors:
    errors = [] if item.key else [required(path.child("key"))]
    if not item.path:
        errors.append(required(path.child("path")))
    errors += validate_local_non_reserved_path(item.path, path.child("path"))
    errors += validate_file_mode(item.mode, path.child("mode"))
    return errors + validate_user_id(item.user, path.child("user"))


def validate_downward_api(source: core_v1.DownwardAPIVolumeSource, path: FieldPath) -> FieldErrors:
    """Validate a downward API volume."""
    errors = validate_file_mode(source.default_mode, path.child("defaultMode"))
    errors += validate_user_id(source.default_user, path.child("defaultUser"))
    for file in source.items:
        errors += _downward_file(file, path)
    return errors


def _downward_file(file: core_v1.DownwardAPIVolumeFile, path: FieldPath) -> FieldErrors:
    errors = [] if file.path else [required(path.child("path"))]
    errors += validate_local_non_reserved_path(file.path, path.child("path"))
    if file.field_ref is not None:
        errors += validate_field_ref(file.field_ref, VOLUME_FIELDS, path.child("fieldRef"))
        if file.resource_field_ref is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", detail))
    elif file.resource_field_ref is not None:
        errors += validate_resource_ref(file.resource_field_ref, path.child("resourceFieldRef"), in_volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    errors += validate_file_mode(file.mode, path.child("mode"))
    return errors + validate_user_id(file.user, path.child("user"))


def validate_projected(source: core_v1.ProjectedVolumeSource, path: FieldPath) -> FieldErrors:
    """Validate a projected volume."""
    errors = validate_file_mode(source.default_mode, path.child("defaultMode"))
    errors += validate_user_id(source.default_user, path.child("defaultUser"))
    projection = _Projection(path)
    for index, one in enumerate(source.sources or ()):
        errors += projection.validate(one, path.child("sources").index(index))
    return errors


class _Projection:
    """Validates the sources of one volume, whose files may not overlap."""

    def __init__(self, path: FieldPath) -> None:
        self._path = path
        self._taken: set[str] = set()

    def validate(self, source: core_v1.VolumeProjection, path: FieldPath) -> FieldErrors:
        kinds: tuple[tuple[str, Any, Callable[[Any, FieldPath], FieldErrors]], ...] = (
            ("secret", source.secret, self._keyed),
            ("configMap", source.config_map, self._keyed),
            ("downwardAPI", source.downward_api, self._downward),
            ("serviceAccountToken", source.service_account_token, self._token),
            ("clusterTrustBundle", source.cluster_trust_bundle, self._trust_bundle),
            ("podCertificate", source.pod_certificate, self._certificate),
        )
        errors: FieldErrors = []
        present = 0
        for name, part, rule in kinds:
            if part is not None:
                present += 1
                errors += rule(part, path.child(name))
        if present > 1:
            errors.append(forbidden(path, "may not specify more than 1 volume type per source"))
        return errors

    def _take(self, target: str, shown: str) -> FieldErrors:
        if target in self._taken:
            return [invalid(self._path, shown, _CONFLICT)]
        self._taken.add(target)
        return []

    def _keyed(self, part: Any, path: FieldPath) -> FieldErrors:
        errors = [] if part.name else [required(path.child("name"))]
        for index, item in enumerate(part.items):
            errors += _key_to_path(item, path.child("items").index(index))
            if item.path:
                errors += self._take(item.path, part.name)
        return errors

    def _downward(self, part: core_v1.DownwardAPIProjection, path: FieldPath) -> FieldErrors:
        errors: FieldErrors = []
        for file in part.items:
            errors += _downward_file(file, path)
            if file.path:
                errors += self._take(file.path, file.path)
        return errors

    def _token(self, part: core_v1.ServiceAccountTokenProjection, path: FieldPath) -> FieldErrors:
        errors: FieldErrors = []
        at, seconds = path.child("expirationSeconds"), part.expiration_seconds
        # Defaults set a missing duration.
        if seconds is not None and seconds < _TOKEN_MIN:
            errors.append(invalid(at, seconds, "may not specify a duration less than 10 minutes"))
        elif seconds is not None and seconds > _TOKEN_MAX:
            errors.append(invalid(at, seconds, "may not specify a duration larger than 2^32 seconds"))
        if not part.path:
            errors.append(required(self._path.child("path")))
        else:
            errors += validate_local_non_reserved_path(part.path, self._path.child("path"))
        return errors + validate_user_id(part.user, path.child("user"))

    def _trust_bundle(self, part: core_v1.ClusterTrustBundleProjection, path: FieldPath) -> FieldErrors:
        errors = _trust_bundle_choice(part, path)
        if not part.path:
            errors.append(required(path.child("path")))
        errors += validate_user_id(part.user, path.child("user"))
        errors += validate_local_non_reserved_path(part.path, path.child("path"))
        return errors + self._take(part.path, part.path)

    def _certificate(self, part: core_v1.PodCertificateProjection, path: FieldPath) -> FieldErrors:
        errors = validate_signer_name(part.signer_name, path.child("signerName"))
        errors += _user_annotations(part, path.child("userAnnotations"))
        errors += validate_user_id(part.user, path.child("user"))
        if part.key_type not in _KEY_TYPES:
            errors.append(not_supported(path.child("keyType"), part.key_type, _KEY_TYPES))
        errors += _certificate_lifetime(part, path.child("maxExpirationSeconds"))
        files = (
            ("credentialBundlePath", part.credential_bundle_path),
            ("keyPath", part.key_path),
            ("certificateChainPath", part.certificate_chain_path),
        )
        for name, target in files:
            if target:
                errors += validate_local_non_reserved_path(target, path.child(name)) + self._take(target, target)
        if not any(target for _, target in files):
            detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
            errors.append(required(path, detail))
        return errors


def _trust_bundle_choice(part: core_v1.ClusterTrustBundleProjection, path: FieldPath) -> FieldErrors:
    if part.name is not None and part.signer_name is not None:
        shown = {
            "Name": part.name, "SignerName": part.signer_name, "LabelSelector": part.label_selector,
            "Optional": part.optional, "Path": part.path, "User": part.user,
        }  # fmt: skip
        return [invalid(path, ordered_object(shown), "only one of name and signerName may be used")]
    if part.name is not None:
        errors = [] if part.name else [required(path.child("name"), "must be a valid object name")]
        for message in check_trust_bundle_name(part.name):
            detail = f"not a valid clustertrustbundlename: {message}"
            errors.append(invalid(path.child("name"), part.name, detail))
        if part.label_selector is not None:
            detail = "labelSelector must be unset if name is specified"
            errors.append(invalid(path.child("labelSelector"), part.label_selector, detail))
        return errors
    if part.signer_name is not None:
        at = path.child("signerName")
        errors = [] if part.signer_name else [required(at, "must be a valid signer name")]
        errors += validate_signer_name(part.signer_name, at)
        return errors + validate_label_selector(part.label_selector, path.child("labelSelector"))
    return [required(path, "either name or signerName must be specified")]


def check_trust_bundle_name(name: str) -> list[str]:
    """Validate the name of a ClusterTrustBundle, prefixed by its signer's name with colons for slashes."""
    return check_dns1123_subdomain(name.rpartition(":")[2])


def validate_signer_name(name: str, path: FieldPath) -> FieldErrors:
    """Validate a signer's name: a domain, a slash, and a dotted name."""
    if not name:
        return [required(path)]
    segments = name.split("/")
    if len(segments) != 2:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, name, detail)]
    domain, rest = segments
    errors: FieldErrors = [too_long(path, 253)] if len(domain) > 253 else []
    labels = domain.split(".")
    for label in labels:
        if messages := check_dns1123_label(label):
            errors += [invalid(path, domain, f"validating label {quote(label)}: {message}") for message in messages]
            break
    if len(labels) < 2:
        detail = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(path, domain, detail))
    for label in rest.split("."):
        if messages := check_dns1123_subdomain(label):
            errors += [invalid(path, rest, f"validating label {quote(label)}: {message}") for message in messages]
            break
    if len(name) > _SIGNER_MAX:
        errors.append(too_long(path, _SIGNER_MAX))
    return errors


def _user_annotations(part: core_v1.PodCertificateProjection, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for key in part.user_annotations:
        errors += validate_domain_prefixed_key(path, key.lower())
    if total_size(part.user_annotations) > ANNOTATIONS_MAX:
        errors.append(too_long(path, ANNOTATIONS_MAX))
    return errors


def _certificate_lifetime(part: core_v1.PodCertificateProjection, path: FieldPath) -> FieldErrors:
    seconds = part.max_expiration_seconds
    if seconds is None:
        return []
    host = part.signer_name.partition("/")[0]
    longest = _DAY if host == "kubernetes.io" or host.endswith(".kubernetes.io") else 91 * _DAY
    if seconds < 3600:
        return [invalid(path, seconds, "if provided, maxExpirationSeconds must be >= 3600")]
    if seconds > longest:
        return [invalid(path, seconds, f"if provided, maxExpirationSeconds must be <= {longest}")]
    return []
