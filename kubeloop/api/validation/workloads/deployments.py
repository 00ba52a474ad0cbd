# SPDX-License-Identifier: Apache-2.0
"""Validation of Deployments and ReplicaSets."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import (
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from kubeloop.api.generated.core_v1 import PodTemplateSpec, ReplicationControllerStatus
from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.pods.templates import validate_template
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    validate_int_or_percent,
    validate_nonnegative,
    validate_not_more_than_100_percent,
)
from kubeloop.api.validation.workloads.shared import (
    ABOVE_REPLICAS,
    int_or_percent_value,
    is_empty_selector,
    labels_mismatch_error,
    matcher_of,
    validate_collision_count,
    validate_counts_at_most,
    validate_long_running,
    validate_nonnegative_counts,
    validate_selector_unchanged,
)

_SPEC: Final = FieldPath("spec")
_DEPLOYMENT_COUNTS: Final = (
    ("observed_generation", "observedGeneration"), ("replicas", "replicas"), ("updated_replicas", "updatedReplicas"),
    ("ready_replicas", "readyReplicas"), ("available_replicas", "availableReplicas"),
    ("unavailable_replicas", "unavailableReplicas"), ("terminating_replicas", "terminatingReplicas"),
    ("collision_count", "collisionCount"),
)  # fmt: skip
_DEPLOYMENT_PARTS: Final = (
    ("updated_replicas", "updatedReplicas"), ("ready_replicas", "readyReplicas"),
    ("available_replicas", "availableReplicas"),
)  # fmt: skip
_REPLICA_PARTS: Final = (
    ("fully_labeled_replicas", "fullyLabeledReplicas"), ("ready_replicas", "readyReplicas"),
    ("available_replicas", "availableReplicas"),
)  # fmt: skip
_REPLICA_COUNTS: Final = (
    ("replicas", "replicas"), *_REPLICA_PARTS, ("observed_generation", "observedGeneration")
)  # fmt: skip
_AVAILABLE: Final = (("available_replicas", "availableReplicas"),)
_ABOVE_READY: Final = "cannot be greater than readyReplicas"


def _validate_selected_template(
    selector: LabelSelector | None, template: PodTemplateSpec, path: FieldPath
) -> FieldErrors:
    """Validate a selector, and the template whose pods it must select."""
    at = path.child("selector")
    errors: FieldErrors = []
    if selector is None:
        errors.append(required(at))
    else:
        errors += validate_label_selector(selector, at)
        if is_empty_selector(selector):
            errors.append(invalid(at, to_internal(selector), "empty selector is invalid for deployment"))
    matcher = matcher_of(selector)
    if matcher is None:
        return [*errors, invalid(at, to_internal(selector), "invalid label selector")]
    if not matcher.is_empty and not matcher.matches(template.metadata.labels):
        errors += labels_mismatch_error(template.metadata.labels, path.child("template"))
    errors += validate_template(template, path.child("template"))
    return errors + validate_long_running(template, "ReplicaSet", path.child("template"))


def _validate_deployment_spec(spec: DeploymentSpec) -> FieldErrors:
    errors = validate_nonnegative(spec.replicas, _SPEC.child("replicas"))
    errors += _validate_selected_template(spec.selector, spec.template, _SPEC)
    errors += _validate_strategy(spec.strategy, _SPEC.child("strategy"))
    errors += validate_nonnegative(spec.min_ready_seconds, _SPEC.child("minReadySeconds"))
    errors += validate_nonnegative(spec.revision_history_limit, _SPEC.child("revisionHistoryLimit"))
    seconds = spec.progress_deadline_seconds
    if seconds is not None:
        at = _SPEC.child("progressDeadlineSeconds")
        errors += validate_nonnegative(seconds, at)
        if seconds <= spec.min_ready_seconds:
            errors.append(invalid(at, seconds, "must be greater than minReadySeconds"))
    return errors


def _validate_strategy(strategy: DeploymentStrategy, path: FieldPath) -> FieldErrors:
    at = path.child("rollingUpdate")
    if strategy.type == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [] if strategy.rolling_update is None else [forbidden(at, detail)]
    if strategy.type != "RollingUpdate":
        return [not_supported(path, to_internal(_with_zeros(strategy)), ("Recreate", "RollingUpdate"))]
    # Defaults complete a rolling update.
    return _validate_rolling(strategy.rolling_update, at) if strategy.rolling_update is not None else []


def _with_zeros(strategy: DeploymentStrategy) -> DeploymentStrategy:
    """Return a strategy whose absent numbers are zero, as they are internally."""
    rolling = strategy.rolling_update
    if rolling is None:
        return strategy
    numbers = {"max_unavailable": rolling.max_unavailable or 0, "max_surge": rolling.max_surge or 0}
    return replace(strategy, rolling_update=replace(rolling, **numbers))


def _validate_rolling(rolling: RollingUpdateDeployment, path: FieldPath) -> FieldErrors:
    unavailable = 0 if rolling.max_unavailable is None else rolling.max_unavailable
    surge = 0 if rolling.max_surge is None else rolling.max_surge
    at = path.child("maxUnavailable")
    errors = validate_int_or_percent(unavailable, at) + validate_int_or_percent(surge, path.child("maxSurge"))
    if int_or_percent_value(unavailable) == 0 and int_or_percent_value(surge) == 0:
        errors.append(invalid(at, unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + validate_not_more_than_100_percent(unavailable, at)


def _validate_deployment(obj: Deployment) -> FieldErrors:
    return _validate_deployment_spec(obj.spec)


def _validate_deployment_update(new: Deployment, old: Deployment) -> FieldErrors:
    return _validate_deployment_spec(new.spec) + validate_selector_unchanged(new.spec.selector, old.spec.selector)


def _validate_deployment_status(new: Deployment, old: Deployment) -> FieldErrors:
    status = new.status
    errors = validate_nonnegative_counts(status, _DEPLOYMENT_COUNTS)
    errors += validate_counts_at_most(status, _DEPLOYMENT_PARTS, status.replicas, ABOVE_REPLICAS)
    errors += validate_counts_at_most(status, _AVAILABLE, status.ready_replicas, _ABOVE_READY)
    return errors + validate_collision_count(status.collision_count, old.status.collision_count)


def _validate_replica_set_spec(spec: ReplicaSetSpec) -> FieldErrors:
    errors = validate_nonnegative(spec.replicas, _SPEC.child("replicas"))
    errors += validate_nonnegative(spec.min_ready_seconds, _SPEC.child("minReadySeconds"))
    return errors + _validate_selected_template(spec.selector, spec.template, _SPEC)


def _validate_replica_set(obj: ReplicaSet) -> FieldErrors:
    return _validate_replica_set_spec(obj.spec)


def _validate_replica_set_update(new: ReplicaSet, old: ReplicaSet) -> FieldErrors:
    return _validate_replica_set_spec(new.spec) + validate_selector_unchanged(new.spec.selector, old.spec.selector)


def validate_replica_counts(status: ReplicaSetStatus | ReplicationControllerStatus) -> FieldErrors:
    """Validate the replica counts in the status of a ReplicaSet or ReplicationController."""
    errors = validate_nonnegative_counts(status, _REPLICA_COUNTS)
    errors += validate_counts_at_most(status, _REPLICA_PARTS, status.replicas, ABOVE_REPLICAS)
    return errors + validate_counts_at_most(status, _AVAILABLE, status.ready_replicas, _ABOVE_READY)


def _validate_replica_set_status(new: ReplicaSet, old: ReplicaSet) -> FieldErrors:
    errors = validate_nonnegative_counts(new.status, (("terminating_replicas", "terminatingReplicas"),))
    return validate_replica_counts(new.status) + errors


DEPLOYMENT = ValidationRules(_validate_deployment, _validate_deployment_update, {"status": _validate_deployment_status})
REPLICA_SET = ValidationRules(
    _validate_replica_set, _validate_replica_set_update, {"status": _validate_replica_set_status}
)
