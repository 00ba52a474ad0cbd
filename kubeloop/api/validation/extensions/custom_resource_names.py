"""Validation of the names of a custom resource: plural, singular, kinds, short names, categories."""

from __future__ import annotations

from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinitionNames
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid
from kubeloop.api.meta.name_rules import check_dns1035_label


def validate_names(names: CustomResourceDefinitionNames, path: FieldPath) -> FieldErrors:
    """Validate the names of a custom resource."""
    errors: FieldErrors = []
    for field, value in (("plural", names.plural), ("singular", names.singular)):
        if value:
            errors += _validate_label(value, path.child(field))
    for field, value in (("kind", names.kind), ("listKind", names.list_kind)):
        messages = check_dns1035_label(value.lower()) if value else []
        if messages:
            detail = f"may have mixed case, but should otherwise match: {','.join(messages)}"
            errors.append(invalid(path.child(field), value, detail))
    for field, values in (("shortNames", names.short_names), ("categories", names.categories)):
        for index, value in enumerate(values):
            errors += _validate_label(value, path.child(field).index(index))
    if names.kind and names.kind == names.list_kind:
        errors.append(invalid(path.child("listKind"), names.list_kind, "kind and listKind may not be the same"))
    return errors


def _validate_label(value: str, path: FieldPath) -> FieldErrors:
    messages = check_dns1035_label(value)
    return [invalid(path, value, ",".join(messages))] if messages else []
