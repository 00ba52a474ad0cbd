# SPDX-License-Identifier: Apache-2.0
"""Validation of APIServices: their group, version and service."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.apiregistration_v1 import APIService
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, not_supported, quote, required
from kubeloop.api.meta.name_rules import (
    check_dns1035_label,
    check_path_segment_name,
    check_port_number,
)
from kubeloop.api.validation.shared.objectmeta import METADATA
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import check_errors, validate_dns_subdomain

_SPEC: Final = FieldPath("spec")
_SERVICE: Final = _SPEC.child("service")
_MAX_GROUP_PRIORITY: Final = 20000
_MAX_VERSION_PRIORITY: Final = 1000
_STATUSES: Final = ("True", "False", "Unknown")


def _validate_api_service(obj: APIService) -> FieldErrors:
    spec, meta = obj.spec, obj.metadata
    errors: FieldErrors = []
    expected = f"{spec.version}.{spec.group}"
    for field, name in (("generateName", meta.generate_name), ("name", meta.name)):
        if name and name != expected and not check_path_segment_name(name):
            detail = f'must be `spec.version+"."+spec.group`: {quote(expected)}'
            errors.append(invalid(METADATA.child(field), name, detail))
    if spec.group:
        errors += validate_dns_subdomain(spec.group, _SPEC.child("group"))
    elif spec.version != "v1":
        detail = "only v1 may have an empty group and it better be legacy kube"
        errors.append(required(_SPEC.child("group"), detail))
    errors += check_errors(check_dns1035_label, spec.version, _SPEC.child("version"))
    for field, value, maximum in (
        ("groupPriorityMinimum", spec.group_priority_minimum, _MAX_GROUP_PRIORITY),
        ("versionPriority", spec.version_priority, _MAX_VERSION_PRIORITY),
    ):
        if not 0 < value <= maximum:
            errors.append(invalid(_SPEC.child(field), value, f"must be positive and less than {maximum}"))
    return errors + (_validate_local(obj) if spec.service is None else _validate_remote(obj))


def _validate_local(obj: APIService) -> FieldErrors:
    """Validate an APIService of this server itself, which has no TLS options."""
    errors: FieldErrors = []
    if obj.spec.ca_bundle:
        shown = f"{len(obj.spec.ca_bundle)} bytes"
        errors.append(invalid(_SPEC.child("caBundle"), shown, "local APIServices may not have a caBundle"))
    if obj.spec.insecure_skip_tls_verify:
        detail = "local APIServices may not have insecureSkipTLSVerify"
        errors.append(invalid(_SPEC.child("insecureSkipTLSVerify"), True, detail))
    return errors


def _validate_remote(obj: APIService) -> FieldErrors:
    service = obj.spec.service
    errors: FieldErrors = []
    if service is None or not service.namespace:
        errors.append(required(_SERVICE.child("namespace")))
    if service is None or not service.name:
        errors.append(required(_SERVICE.child("name")))
    port = (service.port if service is not None else None) or 0
    if messages := check_port_number(port):
        errors.append(invalid(_SERVICE.child("port"), port, f"port is not valid: {', '.join(messages)}"))
    if obj.spec.insecure_skip_tls_verify and obj.spec.ca_bundle:
        detail = "may not be true if caBundle is present"
        errors.append(invalid(_SPEC.child("insecureSkipTLSVerify"), True, detail))
    return errors


def _validate_update(new: APIService, old: APIService) -> FieldErrors:
    return _validate_api_service(new)


def _validate_status(new: APIService, old: APIService) -> FieldErrors:
    path = FieldPath("status").child("conditions")
    return [
        not_supported(path.index(index).child("status"), condition.status, _STATUSES)
        for index, condition in enumerate(new.status.conditions)
        if condition.status not in _STATUSES
    ]


API_SERVICE = ValidationRules(_validate_api_service, _validate_update, {"status": _validate_status})
