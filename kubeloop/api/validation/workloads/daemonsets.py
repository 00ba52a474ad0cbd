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
from kubeloop.api.meta.field_path import FieldErrors, Path, invalid, not_supported, required
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.pods.templates import validate_template
from kubeloop.api.validation.shared.go_values import internal
from kubeloop.api.validation.shared.rules import Rules
from kubeloop.api.validation.shared.scalars import (
    IMMUTABLE,
    int_or_percent,
    not_negative,
    not_over_hundred_percent,
)
from kubeloop.api.validation.workloads.shared import (
    is_empty,
    labels_mismatch,
    matcher_of,
    no_negative_counts,
    not_decremented,
    selector_unchanged,
    validate_long_running,
    whole_or_percent,
)

_SPEC: Final = Path("spec")
_COUNTS: Final = (
    ("current_number_scheduled", "currentNumberScheduled"), ("number_misscheduled", "numberMisscheduled"),
    ("desired_number_scheduled", "desiredNumberScheduled"), ("number_ready", "numberReady"),
    ("observed_generation", "observedGeneration"), ("updated_number_scheduled", "updatedNumberScheduled"),
    ("number_available", "numberAvailable"), ("number_unavailable", "numberUnavailable"),
    ("collision_count", "collisionCount"),
)  # fmt: skip
_DATA: Final = Path("data")


def _validate_spec(spec: DaemonSetSpec) -> FieldErrors:
    errors = validate_label_selector(spec.selector, _SPEC.child("selector"))
    matcher = matcher_of(spec.selector)
    labels = spec.template.metadata.labels
    if matcher is not None and not matcher.matches(labels):
        errors += labels_mismatch(labels, _SPEC.child("template"))
    if spec.selector is not None and is_empty(spec.selector):
        detail = "empty selector is invalid for daemonset"
        errors.append(invalid(_SPEC.child("selector"), internal(spec.selector), detail))
    errors += validate_template(spec.template, _SPEC.child("template"))
    errors += validate_long_running(spec.template, "DaemonSet", _SPEC.child("template"))
    errors += not_negative(spec.min_ready_seconds, _SPEC.child("minReadySeconds"))
    errors += _validate_strategy(spec.update_strategy, _SPEC.child("updateStrategy"))
    return errors + not_negative(spec.revision_history_limit, _SPEC.child("revisionHistoryLimit"))


def _validate_strategy(strategy: DaemonSetUpdateStrategy, path: Path) -> FieldErrors:
    if strategy.type == "OnDelete":
        return []
    if strategy.type != "RollingUpdate":
        return [not_supported(path, internal(strategy), ("RollingUpdate", "OnDelete"))]
    if strategy.rolling_update is None:
        return [required(path.child("rollingUpdate"))]
    return _validate_rolling(strategy.rolling_update, path.child("rollingUpdate"))


def _validate_rolling(rolling: RollingUpdateDaemonSet, path: Path) -> FieldErrors:
    """Validate maxUnavailable and maxSurge, exactly one of which must be positive."""
    unavailable, surge = rolling.max_unavailable or 0, rolling.max_surge or 0
    missing, more = path.child("maxUnavailable"), path.child("maxSurge")
    errors = int_or_percent(unavailable, missing) + int_or_percent(surge, more)
    errors += not_over_hundred_percent(unavailable, missing) + not_over_hundred_percent(surge, more)
    if whole_or_percent(unavailable) and whole_or_percent(surge):
        errors.append(invalid(more, surge, "may not be set when maxUnavailable is non-zero"))
    elif not whole_or_percent(unavailable) and not whole_or_percent(surge):
        errors.append(required(missing, "cannot be 0 when maxSurge is 0"))
    return errors


def _validate_daemon_set(obj: DaemonSet) -> FieldErrors:
    return _validate_spec(obj.spec)


def _validate_update(new: DaemonSet, old: DaemonSet) -> FieldErrors:
    return selector_unchanged(new.spec.selector, old.spec.selector) + _validate_spec(new.spec)


def _validate_status(new: DaemonSet, old: DaemonSet) -> FieldErrors:
    errors = no_negative_counts(new.status, _COUNTS)
    return errors + not_decremented(new.status.collision_count, old.status.collision_count)


def _validate_revision(obj: ControllerRevision) -> FieldErrors:
    errors = not_negative(obj.revision, Path("revision"))
    raw = bytes(obj.data)
    data = msgspec.json.decode(raw) if raw else None
    if data is None:
        errors.append(required(_DATA, "data is mandatory"))
    elif not isinstance(data, dict):
        errors.append(required(_DATA, "data must be a valid JSON object"))
    return errors


def _validate_revision_update(new: ControllerRevision, old: ControllerRevision) -> FieldErrors:
    errors = not_negative(new.revision, Path("revision"))
    # Compared as text: a revision is immutable as written.
    if bytes(new.data) != bytes(old.data):
        errors.append(invalid(_DATA, msgspec.Raw(msgspec.json.format(bytes(new.data), indent=-1)), IMMUTABLE))
    return errors


DAEMON_SET = Rules(_validate_daemon_set, _validate_update, {"status": _validate_status})
CONTROLLER_REVISION = Rules(_validate_revision, _validate_revision_update)
