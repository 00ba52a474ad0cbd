# SPDX-License-Identifier: Apache-2.0
"""Validation of access reviews."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.authorization_v1 import ResourceAttributes
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldError, FieldPath
from kubeloop.api.meta.name_rules import check_qualified_name
from kubeloop.apiserver.registry.existing_object import plain_entry

_SPEC = FieldPath("spec")
_ATTRIBUTES = _SPEC.child("resourceAttributes")
_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def review_errors(review: Any) -> list[FieldError]:
    """Return the field errors of a SubjectAccessReview."""
    return _subject_errors(review.spec) + _metadata_errors(review.metadata, "must be empty")


def self_review_errors(review: Any) -> list[FieldError]:
    """Return the field errors of a SelfSubjectAccessReview."""
    found = _attributes_errors(review.spec) + _selector_errors(review.spec.resource_attributes)
    return found + _metadata_errors(review.metadata, "must be empty")


def local_review_errors(review: Any) -> list[FieldError]:
    """Return the field errors of a LocalSubjectAccessReview."""
    spec, meta = review.spec, review.metadata
    found = _subject_errors(spec)
    found += _metadata_errors(meta, "must be empty except for namespace", allowed_namespace=meta.namespace)
    asked = spec.resource_attributes
    if asked is not None and asked.namespace != meta.namespace:
        path = _ATTRIBUTES.child("namespace")
        found.append(field_path.invalid(path, asked.namespace, "must match metadata.namespace"))
    if spec.non_resource_attributes is not None:
        path = _SPEC.child("nonResourceAttributes")
        found.append(field_path.invalid(path, _shown_path(spec), "disallowed on this kind of request"))
    return found


def _subject_errors(spec: Any) -> list[FieldError]:
    found = _attributes_errors(spec)
    if not spec.user and not spec.groups:
        found.append(field_path.invalid(_SPEC.child("user"), "", "at least one of user or group must be specified"))
    return found + _selector_errors(spec.resource_attributes)


def _attributes_errors(spec: Any) -> list[FieldError]:
    if (spec.resource_attributes is None) != (spec.non_resource_attributes is None):
        return []
    told = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    return [field_path.invalid(_SPEC, _shown_path(spec), told)]


def _shown_path(spec: Any) -> dict[str, str] | None:
    """Return non-resource attributes under upstream's internal field names, as its messages show them."""
    asked = spec.non_resource_attributes
    return None if asked is None else {"Path": asked.path, "Verb": asked.verb}


def _metadata_errors(meta: ObjectMeta, told: str, allowed_namespace: str = "") -> list[FieldError]:
    if msgspec.structs.replace(meta, managed_fields=()) == ObjectMeta(namespace=allowed_namespace):
        return []
    return [field_path.invalid(FieldPath("metadata"), _shown_metadata(meta), told)]


def _shown_metadata(meta: ObjectMeta) -> msgspec.Raw:
    """Return the metadata in upstream's order: name first, managedFields last."""
    plain: dict[str, Any] = codec.to_plain(meta)
    plain.pop("managedFields", None)
    shown = {name: plain.pop(name) for name in ("name", "generateName", "namespace") if name in plain} | plain
    shown["managedFields"] = [plain_entry(entry) for entry in meta.managed_fields]
    return msgspec.Raw(msgspec.json.encode(shown))


def _selector_errors(asked: ResourceAttributes | None) -> list[FieldError]:
    if asked is None:
        return []
    found: list[FieldError] = []
    for name, selector in (("fieldSelector", asked.field_selector), ("labelSelector", asked.label_selector)):
        if selector is not None:
            found += _one_selector(selector, _ATTRIBUTES.child(name), labels=name == "labelSelector")
    return found


def _one_selector(selector: Any, path: FieldPath, *, labels: bool) -> list[FieldError]:
    found: list[FieldError] = []
    if selector.raw_selector and selector.requirements:
        told = "may not specified at the same time as requirements"
        found.append(field_path.invalid(path.child("rawSelector"), selector.raw_selector, told))
    if not selector.raw_selector and not selector.requirements:
        told = f"when {path} is specified, requirements or rawSelector is required"
        found.append(field_path.required(path.child("requirements"), told))
    for index, requirement in enumerate(selector.requirements):
        found += _requirement_errors(requirement, path.child("requirements").index(index), labels)
    return found


def _requirement_errors(requirement: Any, path: FieldPath, labels: bool) -> list[FieldError]:
    """Return the errors of a requirement; unknown operators pass, as a newer client may send them."""
    found: list[FieldError] = []
    if requirement.operator in _WITH_VALUES and not requirement.values:
        found.append(field_path.required(path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
    if requirement.operator in _WITHOUT_VALUES and requirement.values:
        told = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        found.append(field_path.forbidden(path.child("values"), told))
    if labels:
        problems = check_qualified_name(requirement.key)
        found += [field_path.invalid(path.child("key"), requirement.key, problem) for problem in problems]
    elif not requirement.key:
        found.append(field_path.required(path.child("key"), "must be specified"))
    return found
