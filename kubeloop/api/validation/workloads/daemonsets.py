# SPDX-License-Identifier: Apache-2.0
"""Validation of DaemonSets and ControllerRevisions."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeloop.api.generated.apps_v1 import (
    ControllerRevision,
    DaemonSet,
    DaemonSetSpec,
    DaemonSetUpdateStrategy,
    RollingUpdateDaemonSet,
)
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, not_supported, required
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.pods.templates import validate_template
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    IMMUTABLE,
    validate_int_or_percent,
    validate_nonnegative,
    validate_not_more_than_100_percent,
)
from kubeloop.api.validation.workloads.shared import (
    int_or_percent_value,
    is_empty_selector,
    labels_mismatch_error,
    matcher_of,
    validate_collision_count,
    validate_long_running,
    validate_nonnegative_counts,
    validate_selector_unchanged,
)

_SPEC: Final = FieldPath("spec")
_COUNTS: Final = (
    ("current_number_scheduled", "currentNumberScheduled"), ("number_misscheduled", "numberMisscheduled"),
    ("desired_number_scheduled", "desiredNumberScheduled"), ("number_ready", "numberReady"),
    ("observed_generation", "observedGeneration"), ("updated_number_scheduled", "updatedNumberScheduled"),
    ("number_available", "numberAvailable"), ("number_unavailable", "numberUnavailable"),
    ("collision_count", "collisionCount"),
)  # fmt: skip
_DATA: Final = FieldPath("data")


def _validate_spec(spec: DaemonSetSpec) -> FieldErrors:
    errors = validate_label_selector(spec.selector, _SPEC.child("selector"))
    matcher = matcher_of(spec.selector)
    labels = spec.template.metadata.labels
    if matcher is not None and not matcher.matches(labels):
        errors += labels_mismatch_error(labels, _SPEC.child("template"))
    if spec.selector is not None and is_empty_selector(spec.selector):
        detail = "empty selector is invalid for daemonset"
        errors.append(invalid(_SPEC.child("selector"), to_internal(spec.selector), detail))
    errors += validate_template(spec.template, _SPEC.child("template"))
    errors += validate_long_running(spec.template, "DaemonSet", _SPEC.child("template"))
    errors += validate_nonnegative(spec.min_ready_seconds, _SPEC.child("minReadySeconds"))
    errors += _validate_strategy(spec.update_strategy, _SPEC.child("updateStrategy"))
    return errors + validate_nonnegative(spec.revision_history_limit, _SPEC.child("revisionHistoryLimit"))


def _validate_strategy(strategy: DaemonSetUpdateStrategy, path: FieldPath) -> FieldErrors:
    if strategy.type == "OnDelete":
        return []
    if strategy.type != "RollingUpdate":
        return [not_supported(path, to_internal(strategy), ("RollingUpdate", "OnDelete"))]
    # Defaults complete a rolling update.
    rolling = strategy.rolling_update
    return _validate_rolling(rolling, path.child("rollingUpdate")) if rolling is not None else []


def _validate_rolling(rolling: RollingUpdateDaemonSet, path: FieldPath) -> FieldErrors:
    """Validate maxUnavailable and maxSurge, exactly one of which must be positive."""
    unavailable = 0 if rolling.max_unavailable is None else rolling.max_unavailable
    surge = 0 if rolling.max_surge is None else rolling.max_surge
    missing, more = path.child("maxUnavailable"), path.child("maxSurge")
    errors = validate_int_or_percent(unavailable, missing) + validate_int_or_percent(surge, more)
    errors += validate_not_more_than_100_percent(unavailable, missing) + validate_not_more_than_100_percent(surge, more)
    if int_or_percent_value(unavailable) and int_or_percent_value(surge):
        errors.append(invalid(more, surge, "may not be set when maxUnavailable is non-zero"))
    elif not int_or_percent_value(unavailable) and not int_or_percent_value(surge):
        errors.append(required(missing, "cannot be 0 when maxSurge is 0"))
    return errors


def _validate_daemon_set(obj: DaemonSet) -> FieldErrors:
    return _validate_spec(obj.spec)


def _validate_update(new: DaemonSet, old: DaemonSet) -> FieldErrors:
    return validate_selector_unchanged(new.spec.selector, old.spec.selector) + _validate_spec(new.spec)


def _validate_status(new: DaemonSet, old: DaemonSet) -> FieldErrors:
    errors = validate_nonnegative_counts(new.status, _COUNTS)
    return errors + validate_collision_count(new.status.collision_count, old.status.collision_count)


def _validate_revision(obj: ControllerRevision) -> FieldErrors:
    errors = validate_nonnegative(obj.revision, FieldPath("revision"))
    raw = bytes(obj.data)
    data = msgspec.json.decode(raw) if raw else None
    if data is None:
        errors.append(required(_DATA, "data is mandatory"))
    elif not isinstance(data, dict):
        errors.append(required(_DATA, "data must be a valid JSON object"))
    return errors


def _validate_revision_update(new: ControllerRevision, old: ControllerRevision) -> FieldErrors:
    errors = validate_nonnegative(new.revision, FieldPath("revision"))
    # Compared as text: a revision is immutable as written.
    if bytes(new.data) != bytes(old.data):
        errors.append(invalid(_DATA, msgspec.Raw(msgspec.json.format(bytes(new.data), indent=-1)), IMMUTABLE))
    return errors


DAEMON_SET = ValidationRules(_validate_daemon_set, _validate_update, {"status": _validate_status})
CONTROLLER_REVISION = ValidationRules(_validate_revision, _validate_revision_update)
