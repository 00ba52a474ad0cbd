# SPDX-License-Identifier: Apache-2.0
"""Validation of Events.

Upstream is lenient with events of the core group and strict with those of `events.k8s.io`. Both are
stored alike, so the stored kind gets the lenient rules, and the struct of the newer kind gets the strict ones.
"""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.generated import core_v1, events_v1
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, required
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_qualified_name, validate_unchanged

_NAMESPACE: Final = FieldPath("involvedObject").child("namespace")
_SHORT: Final = 128
_MESSAGE_MAX: Final = 1024
_UNSET: Final = "needs to be unset"


def _validate_lenient(
    namespace: str, involved: core_v1.ObjectReference, texts: dict[str, str], controller: str, has_time: bool
) -> FieldErrors:
    """Validate the involved object's namespace; events with an eventTime also need a reporting controller."""
    mismatch: FieldErrors = [invalid(_NAMESPACE, involved.namespace, "does not match event.namespace")]
    if not has_time:
        own = namespace in ("", "default") if not involved.namespace else namespace == involved.namespace
        return [] if own else mismatch
    errors = [] if involved.namespace or namespace in ("default", "kube-system") else mismatch
    path = FieldPath(controller)
    if not texts[controller]:
        errors.append(required(path))
    errors += validate_qualified_name(texts[controller], path)
    for name in ("reportingInstance", "action", "reason"):
        if not texts[name]:
            errors.append(required(FieldPath(name)))
        errors += _validate_length(texts[name], name, _SHORT)
    return errors + _validate_length(texts["message"], "message", _MESSAGE_MAX)


def _validate_length(text: str, name: str, most: int) -> FieldErrors:
    if len(text.encode(errors="surrogatepass")) <= most:
        return []
    return [invalid(FieldPath(name), "", f"can have at most {most} characters")]


def _validate_event(event: core_v1.Event) -> FieldErrors:
    texts = {
        "reportingComponent": event.reporting_component,
        "reportingInstance": event.reporting_instance,
        "action": event.action,
        "reason": event.reason,
        "message": event.message,
    }
    has_time = event.event_time is not None
    return _validate_lenient(event.metadata.namespace, event.involved_object, texts, "reportingComponent", has_time)


def _validate_event_update(new: core_v1.Event, old: core_v1.Event) -> FieldErrors:
    return _validate_event(new)


def _validate_lenient_of_strict(event: events_v1.Event) -> FieldErrors:
    texts = {
        "reportingController": event.reporting_controller,
        "reportingInstance": event.reporting_instance,
        "action": event.action,
        "reason": event.reason,
        "message": event.note,
    }
    has_time = event.event_time is not None
    return _validate_lenient(event.metadata.namespace, event.regarding, texts, "reportingController", has_time)


def _validate_strict(event: events_v1.Event) -> FieldErrors:
    errors = _validate_lenient_of_strict(event) + _validate_series(event)
    if event.event_time is None:
        errors.append(required(FieldPath("eventTime")))
    if event.type not in ("Normal", "Warning"):
        errors.append(invalid(FieldPath("type"), "", f"has invalid value: {event.type}"))
    source = event.deprecated_source
    for name, present in (
        ("firstTimestamp", event.deprecated_first_timestamp is not None),
        ("lastTimestamp", event.deprecated_last_timestamp is not None),
        ("count", event.deprecated_count != 0),
        ("source", bool(source.component or source.host)),
    ):
        if present:
            errors.append(invalid(FieldPath(name), "", _UNSET))
    return errors


def _validate_series(event: events_v1.Event) -> FieldErrors:
    if event.series is None:
        return []
    errors: FieldErrors = []
    if event.series.count < 2:
        errors.append(invalid(FieldPath("series.count"), "", "should be at least 2"))
    if event.series.last_observed_time is None:
        errors.append(required(FieldPath("series.lastObservedTime")))
    return errors


# Attributes that an update can't change, with upstream's internal names.
_FIXED: Final = (
    ("regarding", "involvedObject"), ("reason", "reason"), ("note", "message"), ("deprecated_source", "source"),
    ("deprecated_first_timestamp", "firstTimestamp"), ("deprecated_last_timestamp", "lastTimestamp"),
    ("deprecated_count", "count"), ("type", "type"), ("event_time", "eventTime"), ("action", "action"),
    ("related", "related"), ("reporting_controller", "reportingController"),
    ("reporting_instance", "reportingInstance"),
)  # fmt: skip


def _validate_strict_update(new: events_v1.Event, old: events_v1.Event) -> FieldErrors:
    errors = _validate_lenient_of_strict(new)
    if new.series != old.series:
        errors += _validate_series(new)
    for attribute, name in _FIXED:
        value: Any = getattr(new, attribute)
        errors += validate_unchanged(value, getattr(old, attribute), FieldPath(name), _shown(value))
    return errors


def _shown(value: Any) -> Any:
    return to_internal(value) if isinstance(value, core_v1.ObjectReference | core_v1.EventSource) else value


EVENT = ValidationRules(_validate_event, _validate_event_update)
STRICT_EVENT = ValidationRules(_validate_strict, _validate_strict_update)
