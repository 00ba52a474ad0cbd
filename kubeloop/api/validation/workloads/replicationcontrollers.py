# SPDX-License-Identifier: Apache-2.0
"""Validation of ReplicationControllers."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.core_v1 import ReplicationController, ReplicationControllerSpec
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, required
from kubeloop.api.validation.pods.templates import validate_template
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_nonnegative
from kubeloop.api.validation.workloads.deployments import validate_replica_counts
from kubeloop.api.validation.workloads.shared import labels_mismatch_error, validate_long_running

_SPEC: Final = FieldPath("spec")


def _validate_spec(spec: ReplicationControllerSpec) -> FieldErrors:
    errors: FieldErrors = [] if spec.selector else [required(_SPEC.child("selector"))]
    replicas = _SPEC.child("replicas")
    errors += mark_generated(
        [required(replicas)] if spec.replicas is None else validate_nonnegative(spec.replicas, replicas)
    )
    errors += mark_generated(validate_nonnegative(spec.min_ready_seconds, _SPEC.child("minReadySeconds")))
    path, template = _SPEC.child("template"), spec.template
    if template is None:
        return sort_generated_last([*errors, required(path)])
    labels = template.metadata.labels
    if not spec.selector.items() <= labels.items():
        errors += labels_mismatch_error(labels, path)
    errors += validate_template(template, path)
    return sort_generated_last(errors + validate_long_running(template, "ReplicationController", path))


def _validate_controller(obj: ReplicationController) -> FieldErrors:
    return _validate_spec(obj.spec)


def _validate_update(new: ReplicationController, old: ReplicationController) -> FieldErrors:
    return _validate_spec(new.spec)


def _validate_status(new: ReplicationController, old: ReplicationController) -> FieldErrors:
    return validate_replica_counts(new.status)


REPLICATION_CONTROLLER = ValidationRules(_validate_controller, _validate_update, {"status": _validate_status})
