# SPDX-License-Identifier: Apache-2.0
"""Validation of CustomResourceDefinitions without schemas: names, versions, conversion, columns, scale.

Upstream moves fields that all versions share above the versions before it validates, so errors of a definition
with one version are found at `spec.subresources` and not below `spec.versions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from kubeloop.api import codec
from kubeloop.api.generated import apiextensions_v1
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid, required
from kubeloop.api.meta.name_rules import check_dns1035_label, check_dns1123_subdomain
from kubeloop.api.validation.extensions.custom_resource_schemas import VersionSchemas
from kubeloop.api.validation.extensions.webhook_client import validate_client_config
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.objectmeta import METADATA, byte_length
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_enum, validate_unchanged

Definition = apiextensions_v1.CustomResourceDefinition
Spec = apiextensions_v1.CustomResourceDefinitionSpec
Version = apiextensions_v1.CustomResourceDefinitionVersion

_SPEC: Final = FieldPath("spec")
_VERSIONS: Final = _SPEC.child("versions")
_STORED: Final = FieldPath("status").child("storedVersions")
_APPROVAL: Final = "api-approved.kubernetes.io"
_PULL: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_WARNING_MAX: Final = 256
_NO_WEBHOOK: Final = "should not be set when strategy is not set to Webhook"


def _validate_create(obj: Definition) -> FieldErrors:
    errors: FieldErrors = []
    for field, name in (("generateName", obj.metadata.generate_name), ("name", obj.metadata.name)):
        if name and name != f"{obj.spec.names.plural}.{obj.spec.group}":
            errors.append(invalid(METADATA.child(field), name, 'must be spec.names.plural+"."+spec.group'))
    errors += _validate_spec(obj.spec, any_review_version=False)
    errors += _validate_stored(obj) + _validate_approval(obj)
    if obj.spec.preserve_unknown_fields:
        errors.append(_no_preserving())
    return errors


def _validate_update(new: Definition, old: Definition) -> FieldErrors:
    known = _review_versions(old.spec)
    errors = _validate_spec(new.spec, any_review_version=bool(known) and not set(known) & set(_REVIEW_VERSIONS))
    if any(one.type == "Established" and one.status == "True" for one in old.status.conditions or ()):
        errors += validate_unchanged(new.spec.scope, old.spec.scope, _SPEC.child("scope"))
        errors += validate_unchanged(new.spec.names.kind, old.spec.names.kind, _SPEC.child("names", "kind"))
    errors += validate_unchanged(new.spec.group, old.spec.group, _SPEC.child("group"))
    errors += validate_unchanged(new.spec.names.plural, old.spec.names.plural, _SPEC.child("names", "plural"))
    errors += _validate_status(new, old) + _validate_stored(new)
    if _approval_problem(new)[0] != _approval_problem(old)[0]:
        errors += _validate_approval(new)
    if new.spec.preserve_unknown_fields and not old.spec.preserve_unknown_fields:
        errors.append(_no_preserving())
    return errors


def _validate_status(new: Definition, old: Definition) -> FieldErrors:
    return _validate_names(new.status.accepted_names, FieldPath("status").child("acceptedNames"))


def _no_preserving() -> Any:
    detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    return invalid(_SPEC.child("preserveUnknownFields"), True, detail)


def _validate_spec(spec: Spec, any_review_version: bool) -> FieldErrors:
    errors = _validate_group(spec.group, _SPEC.child("group"))
    errors += validate_enum(spec.scope, ("Cluster", "Namespaced"), _SPEC.child("scope"))
    if spec.preserve_unknown_fields and any(_has_default(codec.to_plain(one.schema)) for one in spec.versions or ()):
        detail = "must be false in order to use defaults in the schema"
        errors.append(invalid(_SPEC.child("preserveUnknownFields"), True, detail))
    versions = spec.versions or ()
    parts = _VersionParts(versions)
    errors += _validate_versions(versions, parts)
    for name, value in (
        ("plural", spec.names.plural), ("singular", spec.names.singular),
        ("kind", spec.names.kind), ("listKind", spec.names.list_kind),
    ):  # fmt: skip
        if not value:
            errors.append(required(_SPEC.child("names", name)))
    errors += _validate_names(spec.names, _SPEC.child("names"))
    errors += parts.validate_shared()
    return errors + _validate_conversion(spec, any_review_version, _SPEC.child("conversion"))


def _has_default(schema: Any) -> bool:
    """Return True if a schema, or one within it, has a default."""
    if isinstance(schema, list):
        return any(map(_has_default, schema))
    if not isinstance(schema, dict):
        return False
    inner = [*schema.get("properties", {}).values(), *schema.get("patternProperties", {}).values()]
    inner += [one for key, one in schema.items() if key not in ("properties", "patternProperties", "enum", "example")]
    return "default" in schema or any(map(_has_default, inner))


def _validate_group(group: str, path: FieldPath) -> FieldErrors:
    if not group:
        return [required(path)]
    if messages := check_dns1123_subdomain(group):
        return [invalid(path, group, ",".join(messages))]
    return [] if "." in group else [invalid(path, group, "should be a domain with at least one dot")]


def _validate_versions(versions: tuple[Version, ...], parts: _VersionParts) -> FieldErrors:
    errors: FieldErrors = [
        required(_VERSIONS.index(index).child("schema", "openAPIV3Schema"))
        for index, version in enumerate(versions)
        if version.schema is None or version.schema.open_apiv3_schema is None
    ]
    for index, version in enumerate(versions):
        at = _VERSIONS.index(index)
        if messages := check_dns1035_label(version.name):
            errors.append(invalid(at.child("name"), version.name, ",".join(messages)))
        problems = _warning_problems(version)
        errors += [invalid(at.child("deprecationWarning"), version.deprecation_warning, one) for one in problems]
        errors += parts.validate_own(index, at)
    if len({version.name for version in versions}) < len(versions):
        errors.append(invalid(_VERSIONS, _shown(versions), "must contain unique version names"))
    if sum(version.storage for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(invalid(_VERSIONS, _shown(versions), detail))
    if versions and versions[0].name and (messages := check_dns1035_label(versions[0].name)):
        # Upstream has the name of the first version in a field of its own, too.
        errors.append(invalid(_SPEC.child("version"), versions[0].name, ",".join(messages)))
    return errors


def _warning_problems(version: Version) -> list[str]:
    warning = version.deprecation_warning
    if warning is None:
        return []
    if not version.deprecated:
        return ["can only be set for deprecated versions"]
    problems = [f"must be <= {_WARNING_MAX} characters long"] if byte_length(warning) > _WARNING_MAX else []
    if not warning:
        problems.append("must not be an empty string")
    odd = next((index for index, char in enumerate(warning) if not char.isprintable()), None)
    if odd is not None:
        where = byte_length(warning[:odd])
        problems.append(f"must only contain printable UTF-8 characters; non-printable character found at index {where}")
    return problems


class _VersionParts:
    """Schemas, subresources, columns and selectable fields: upstream keeps those that all versions share above them."""

    def __init__(self, versions: tuple[Version, ...]) -> None:
        self._versions = versions
        self._schemas = VersionSchemas(versions)
        self._shares_columns = _are_equal([one.additional_printer_columns for one in versions])
        self._shares_subresources = _are_equal([one.subresources for one in versions])

    def validate_own(self, index: int, path: FieldPath) -> FieldErrors:
        """Validate what one version does not share with the others."""
        errors = self._schemas.validate_own_schema(index, path)
        errors += [] if self._shares_subresources else self._validate_subresources(index, path)
        errors += [] if self._shares_columns else self._validate_columns(index, path)
        return errors + self._schemas.validate_own_fields(index, path)

    def validate_shared(self) -> FieldErrors:
        """Validate what all versions share."""
        errors = self._schemas.validate_shared_schema()
        if self._versions and self._shares_subresources:
            errors += self._validate_subresources(0, _SPEC)
        if self._versions and self._shares_columns:
            errors += self._validate_columns(0, _SPEC)
        return errors + self._schemas.validate_shared_fields()

    def _validate_subresources(self, index: int, path: FieldPath) -> FieldErrors:
        found = self._versions[index].subresources
        scale = found.scale if found is not None else None
        return _validate_scale(scale, path.child("subresources")) if scale is not None else []

    def _validate_columns(self, index: int, path: FieldPath) -> FieldErrors:
        errors: FieldErrors = []
        for position, column in enumerate(self._versions[index].additional_printer_columns):
            errors += _validate_column(column, path.child("additionalPrinterColumns").index(position))
        return errors


def _are_equal(parts: Sequence[object]) -> bool:
    return all(one == parts[0] for one in parts)


def _validate_column(column: apiextensions_v1.CustomResourceColumnDefinition, path: FieldPath) -> FieldErrors:
    types, formats = ",".join(_COLUMN_TYPES), ",".join(_COLUMN_FORMATS)
    errors: FieldErrors = [] if column.name else [required(path.child("name"))]
    if not column.type:
        errors.append(required(path.child("type"), f"must be one of {types}"))
    elif column.type not in _COLUMN_TYPES:
        errors.append(invalid(path.child("type"), column.type, f"must be one of {types}"))
    if column.format and column.format not in _COLUMN_FORMATS:
        errors.append(invalid(path.child("format"), column.format, f"must be one of {formats}"))
    if not column.json_path:
        return [*errors, required(path.child("JSONPath"))]
    return errors + _validate_json_path(column.json_path, path.child("JSONPath"))


def _validate_json_path(text: str, path: FieldPath) -> FieldErrors:
    return [] if text.startswith(".") else [invalid(path, text, "must be a simple json path starting with .")]


def _validate_scale(scale: apiextensions_v1.CustomResourceSubresourceScale, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for name, text, root in (
        ("scale.specReplicasPath", scale.spec_replicas_path, ".spec"),
        ("scale.statusReplicasPath", scale.status_replicas_path, ".status"),
    ):
        if not text:
            errors.append(required(path.child(name)))
        elif found := _validate_json_path(text, path.child(name)):
            errors += found
        elif not text.startswith(f"{root}."):
            errors.append(invalid(path.child(name), text, f"should be a json path under {root}"))
    if selector := scale.label_selector_path:
        at = path.child("scale.labelSelectorPath")
        errors += _validate_json_path(selector, at)
        if selector.startswith(".") and not selector.startswith((".spec.", ".status.")):
            errors.append(invalid(at, selector, "should be a json path under either .spec or .status"))
    return errors


def _shown(versions: tuple[Version, ...]) -> object:
    """Return versions as upstream shows them, without the shared fields."""
    nothing = {"Schema": None, "Subresources": None, "AdditionalPrinterColumns": None, "SelectableFields": None}
    shown = [
        ordered_object({
            "Name": one.name, "Served": one.served, "Storage": one.storage, "Deprecated": one.deprecated,
            "DeprecationWarning": one.deprecation_warning, **nothing,
        })
        for one in versions
    ]  # fmt: skip
    return shown or None


def _review_versions(spec: Spec) -> tuple[str, ...]:
    webhook = spec.conversion.webhook if spec.conversion is not None else None
    return (webhook.conversion_review_versions or ()) if webhook is not None else ()


def _validate_conversion(spec: Spec, any_review_version: bool, path: FieldPath) -> FieldErrors:
    conversion = spec.conversion
    if conversion is None:
        return []
    errors = validate_enum(conversion.strategy, ("None", "Webhook"), path.child("strategy"))
    client, at = conversion.webhook.client_config if conversion.webhook else None, path.child("webhookClientConfig")
    versions = _review_versions(spec)
    if conversion.strategy != "Webhook":
        if client is not None:
            errors.append(forbidden(at, _NO_WEBHOOK))
        if versions:
            errors.append(forbidden(path.child("conversionReviewVersions"), _NO_WEBHOOK))
        return errors
    if spec.preserve_unknown_fields:
        detail = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid(path.child("strategy"), conversion.strategy, detail))
    if client is None:
        errors.append(required(at, "required when strategy is set to Webhook"))
    else:
        errors += validate_client_config(client, at)
    return errors + _validate_review_versions(versions, any_review_version, path.child("conversionReviewVersions"))


def _validate_review_versions(versions: tuple[str, ...], any_version: bool, path: FieldPath) -> FieldErrors:
    if not versions:
        return [required(path)]
    errors: FieldErrors = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(invalid(path.index(index), version, "duplicate version"))
            continue
        errors += [invalid(path.index(index), version, message) for message in check_dns1035_label(version)]
    if not any_version and not set(versions) & set(_REVIEW_VERSIONS):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"))
    return errors


def _validate_stored(obj: Definition) -> FieldErrors:
    """Validate status.storedVersions: each must be a version in the spec, because data may be stored in it."""
    stored = obj.status.stored_versions or ()
    if not stored:
        return [invalid(_STORED, None, "must have at least one stored version")]
    errors: FieldErrors = []
    names = [version.name for version in obj.spec.versions or ()]
    for index, name in enumerate(stored):
        if name not in names:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} from status.storedVersions"
            )
            errors.append(invalid(_STORED.index(index), name, detail))
    return errors


def _validate_approval(obj: Definition) -> FieldErrors:
    """Validate the approval annotation that groups of the Kubernetes community require."""
    group = obj.spec.group
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    at = METADATA.child("annotations").key(_APPROVAL)
    state, detail = _approval_problem(obj)
    if state == "missing":
        return [required(at, detail)]
    return [invalid(at, obj.metadata.annotations[_APPROVAL], detail)] if state == "invalid" else []


def _approval_problem(obj: Definition) -> tuple[str, str]:
    annotation = obj.metadata.annotations.get(_APPROVAL, "")
    wanted = f'protected groups must have approval annotation "{_APPROVAL}"'
    if not annotation:
        return "missing", f"{wanted}, {_PULL}"
    if annotation.startswith("unapproved"):
        return "bypassed", ""
    try:
        url = urlsplit(annotation)
    except ValueError:
        url = None
    if url is not None and url.scheme and url.netloc:
        return "approved", ""
    return "invalid", f'{wanted} with either a URL or a reason starting with "unapproved", {_PULL}'


def _validate_names(names: apiextensions_v1.CustomResourceDefinitionNames, path: FieldPath) -> FieldErrors:
    """Validate plural, singular, kinds, short names and categories."""
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


CUSTOM_RESOURCE_DEFINITION = ValidationRules(_validate_create, _validate_update, {"status": _validate_status})
