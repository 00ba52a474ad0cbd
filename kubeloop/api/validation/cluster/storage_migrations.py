# SPDX-License-Identifier: Apache-2.0
"""Validation of storage version migrations."""

from __future__ import annotations

import re
from typing import Final

from kubeloop.api.generated.storagemigration_v1 import StorageVersionMigration
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, required
from kubeloop.api.meta.name_rules import check_dns1035_label, check_dns1123_subdomain
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.meta_conditions import shown_conditions, validate_conditions
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import IMMUTABLE, validate_unchanged

_RESOURCE: Final = FieldPath("spec").child("resource")
_CONDITIONS: Final = FieldPath("status").child("conditions")
_VERSION: Final = FieldPath("status").child("resourceVersion")


def _validate_migration(obj: StorageVersionMigration) -> FieldErrors:
    target = obj.spec.resource
    errors: FieldErrors = []
    if not target.resource:
        errors.append(required(_RESOURCE.child("resource"), "resource is required to be set"))
    elif messages := check_dns1035_label(target.resource):
        errors.append(invalid(_RESOURCE.child("resource"), target.resource, ",".join(messages)))
    if target.group and (messages := check_dns1123_subdomain(target.group)):
        errors.append(invalid(_RESOURCE.child("group"), target.group, ",".join(messages)))
    return errors


def _validate_update(new: StorageVersionMigration, old: StorageVersionMigration) -> FieldErrors:
    target = new.spec.resource
    shown = ordered_object({"Resource": {"group": target.group, "resource": target.resource}})
    return _validate_migration(new) + validate_unchanged(new.spec, old.spec, FieldPath("spec"), shown)


def _validate_status(new: StorageVersionMigration, old: StorageVersionMigration) -> FieldErrors:
    version = new.status.resource_version
    errors: FieldErrors = []
    if version and not re.fullmatch("[1-9][0-9]*", version):
        errors.append(invalid(_VERSION, version, f"resource version is not well formed: {version}"))
    errors += validate_conditions(new.status.conditions, _CONDITIONS)
    if old.status.resource_version not in ("", version):
        errors.append(invalid(_VERSION, version, IMMUTABLE))
    shown = shown_conditions(new.status.conditions)
    if _is_true(new, "Succeeded") and _is_true(new, "Failed"):
        detail = "Both success and failed conditions cannot be true at the same time"
        errors.append(invalid(_CONDITIONS, shown, detail))
    for name, word in (("Succeeded", "Success"), ("Failed", "Failed")):
        if _is_true(old, name) and not _is_true(new, name):
            detail = f"{word} condition cannot be set to false once it is true"
            errors.append(invalid(_CONDITIONS, shown, detail))
    return errors


def _is_true(obj: StorageVersionMigration, name: str) -> bool:
    return next((one.status == "True" for one in obj.status.conditions if one.type == name), False)


STORAGE_VERSION_MIGRATION = ValidationRules(_validate_migration, _validate_update, {"status": _validate_status})
