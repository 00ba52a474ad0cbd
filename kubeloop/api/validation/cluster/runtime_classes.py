# SPDX-License-Identifier: Apache-2.0
"""Validation of runtime classes."""

from __future__ import annotations

from kubeloop.api.generated import core_v1, node_v1
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, duplicate, required
from kubeloop.api.validation.pods.containers.compute_resources import validate_requirements
from kubeloop.api.validation.pods.scheduling import validate_tolerations
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last, validate_immutable
from kubeloop.api.validation.shared.formats import validate_short_name
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.objectmeta import validate_labels
from kubeloop.api.validation.shared.rules import ValidationRules


def _validate_class(obj: node_v1.RuntimeClass) -> FieldErrors:
    return sort_generated_last(_class_errors(obj))


def _class_errors(obj: node_v1.RuntimeClass, is_declared: bool = True) -> FieldErrors:
    """Return the errors; without `is_declared`, that of the handler's form is not one of declarative validation."""
    if not obj.handler:
        errors = mark_generated([required(FieldPath("handler"))])
    else:
        errors = validate_short_name(obj.handler, FieldPath("handler"))
        errors = mark_generated(errors) if is_declared else errors
    if obj.overhead is not None:
        # Overhead follows the rules of a container's limits, as upstream's errors show.
        limits = core_v1.ResourceRequirements(limits=obj.overhead.pod_fixed)
        errors += validate_requirements(limits, frozenset(), FieldPath("overhead"))
    if obj.scheduling is not None:
        errors += validate_labels(obj.scheduling.node_selector, FieldPath("scheduling").child("nodeSelector"))
        errors += _validate_tolerations(obj.scheduling.tolerations, FieldPath("scheduling").child("tolerations"))
    return errors


def _validate_tolerations(tolerations: tuple[core_v1.Toleration, ...], path: FieldPath) -> FieldErrors:
    errors = validate_tolerations(tolerations, path)
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(tolerations):
        key = (toleration.key, toleration.operator, toleration.value, toleration.effect)
        if key in seen:
            errors.append(duplicate(path.index(index), to_internal(toleration)))
        seen.add(key)
    return errors


def _validate_update(new: node_v1.RuntimeClass, old: node_v1.RuntimeClass) -> FieldErrors:
    changed = validate_immutable(new.handler, old.handler, FieldPath("handler"))
    return sort_generated_last(changed + _class_errors(new, is_declared=not changed))


RUNTIME_CLASS = ValidationRules(_validate_class, _validate_update)
