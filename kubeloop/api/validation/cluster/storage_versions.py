# SPDX-License-Identifier: Apache-2.0
"""Validation of StorageVersions: the versions in which each API server encodes, decodes and serves."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.apiserverinternal_v1alpha1 import ServerStorageVersion, StorageVersion, StorageVersionStatus
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, duplicate, invalid, required
from kubeloop.api.meta.name_rules import check_dns1035_label, check_dns1123_subdomain
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_dns_subdomain, validate_qualified_name

_STATUS: Final = FieldPath("status")
_EMPTY: Final = "must be non-empty"
_FORM: Final = (
    "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyVersion')"
)


def _validate_create(obj: StorageVersion) -> FieldErrors:
    return _validate_status(obj.status)


def _validate_status_update(new: StorageVersion, old: StorageVersion) -> FieldErrors:
    return _validate_status(new.status)


def _validate_status(status: StorageVersionStatus) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, server in enumerate(status.storage_versions):
        at = _STATUS.child("storageVersions").index(index)
        if server.api_server_id in seen:
            errors.append(duplicate(at.child("apiServerID"), server.api_server_id))
        seen.add(server.api_server_id)
        errors += _validate_server(server, at)
    return errors + _validate_common(status) + _validate_conditions(status)


def _validate_server(server: ServerStorageVersion, path: FieldPath) -> FieldErrors:
    errors = validate_dns_subdomain(server.api_server_id, path.child("apiServerID"))
    errors += _version(server.encoding_version, path.child("encodingVersion"))
    known = path.child("decodableVersions")
    for index, version in enumerate(server.decodable_versions):
        errors += _version(version, known.index(index))
    if server.encoding_version not in server.decodable_versions:
        detail = f"decodableVersions must include encodingVersion {server.encoding_version}"
        errors.append(invalid(known, server.decodable_versions or None, detail))
    for index, version in enumerate(server.served_versions):
        at = path.child("servedVersions").index(index)
        errors += _version(version, at)
        if version not in server.decodable_versions:
            all_known = f"[{' '.join(server.decodable_versions)}]"
            detail = f"individual served version : {version} must be included in decodableVersions : {all_known}"
            errors.append(invalid(at, version, detail))
    return errors


def _validate_common(status: StorageVersionStatus) -> FieldErrors:
    stored = {server.encoding_version for server in status.storage_versions}
    common, told = (stored.pop() if len(stored) == 1 else None), status.common_encoding_version
    at = _STATUS.child("commonEncodingVersion")
    if common == told:
        return []
    if common is None:
        detail = (
            "should be nil if servers do not agree on the same encoding version, or if there is no server reporting "
            "the supported versions yet"
        )
        return [invalid(at, told, detail)]
    word = "the common" if told is None else "the actual common"
    return [invalid(at, told, f"{word} encoding version is {common}")]


def _validate_conditions(status: StorageVersionStatus) -> FieldErrors:
    errors: FieldErrors = []
    seen: dict[str, int] = {}
    for index, condition in enumerate(status.conditions):
        at = _STATUS.index(index)
        if condition.type in seen:
            where = f"conditions[{seen[condition.type]}]"
            detail = f"the type of the condition is not unique, it also appears in {where}"
            errors.append(invalid(at.child("type"), condition.type, detail))
        seen[condition.type] = index
        errors += validate_qualified_name(condition.type, at.child("type")) + validate_qualified_name(
            condition.status, at.child("status")
        )
        for name in ("reason", "message"):
            if not getattr(condition, name):
                errors.append(required(at.child(name)))
    return errors


def _version(value: str, path: FieldPath) -> FieldErrors:
    """Validate a version, with or without its group."""
    messages = _version_messages(value)
    return [invalid(path, value, ",".join(messages))] if messages else []


def _version_messages(value: str) -> list[str]:
    *groups, version = value.split("/")
    if len(groups) > 1:
        return [_FORM]
    messages = [
        f"group part: {message}"
        for group in groups
        for message in (check_dns1123_subdomain(group) if group else [_EMPTY])
    ]
    return messages + [
        f"version part: {message}" for message in (check_dns1035_label(version) if version else [_EMPTY])
    ]


STORAGE_VERSION = ValidationRules(_validate_create, subresources={"status": _validate_status_update})
