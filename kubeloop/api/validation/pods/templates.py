# SPDX-License-Identifier: Apache-2.0
"""Validation of pod templates, on their own and inside workloads."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.core_v1 import PodTemplate, PodTemplateSpec
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden
from kubeloop.api.validation.pods.annotations import validate_pod_annotations, validate_profiles_match
from kubeloop.api.validation.pods.spec import validate_pod_spec
from kubeloop.api.validation.shared.objectmeta import validate_annotations, validate_labels
from kubeloop.api.validation.shared.rules import ValidationRules

_TEMPLATE: Final = FieldPath("template")
_NO_EPHEMERAL: Final = "ephemeral containers not allowed in pod template"


def validate_template(template: PodTemplateSpec, path: FieldPath) -> FieldErrors:
    """Validate a pod template."""
    meta, spec = template.metadata, path.child("spec")
    errors = validate_labels(meta.labels, path.child("labels")) if meta.labels else []
    if meta.annotations:
        errors += validate_annotations(meta.annotations, path.child("annotations"))
        errors += validate_pod_annotations(meta.annotations, template.spec, path.child("annotations"))
        errors += validate_profiles_match(meta, template.spec, spec)
    errors += validate_pod_spec(template.spec, spec)
    if template.spec.ephemeral_containers:
        errors.append(forbidden(spec.child("ephemeralContainers"), _NO_EPHEMERAL))
    return errors


def _validate_pod_template(obj: PodTemplate) -> FieldErrors:
    return validate_template(obj.template, _TEMPLATE)


def _validate_pod_template_update(new: PodTemplate, old: PodTemplate) -> FieldErrors:
    return validate_template(new.template, _TEMPLATE)


POD_TEMPLATE = ValidationRules(_validate_pod_template, _validate_pod_template_update)
