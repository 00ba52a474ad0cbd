# SPDX-License-Identifier: Apache-2.0
"""Printers of eviction requests and evictions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kubeloop.api.scalars.times import human_duration, parse_time
from kubeloop.apiserver.response.tables.model import AGE, NAME, Cells, Printer, column, wide_column
from kubeloop.apiserver.response.tables.text import NONE, format_age, format_age_since, format_shortened

if TYPE_CHECKING:
    from kubeloop.api.generated.lifecycle_v1alpha1 import (
        Eviction,
        EvictionPodReference,
        EvictionRequest,
        EvictionRequestPodReference,
        ResponderStatus,
        TargetResponder,
    )
    from kubeloop.api.generated.meta_v1 import Condition

_UNSET = "<unset>"
_UNKNOWN = "<unknown>"
_PROCESSED = ("Canceled", "Interrupted", "Completed")


def _request_cells(request: EvictionRequest, now: datetime) -> Cells:
    spec, status = request.spec, request.status
    state = _state(status.observed_generation, status.conditions)
    target = _target(spec.target.pod)
    return [request.metadata.name, *target, state, spec.requester, spec.intent, format_age(request, now)]


def _eviction_cells(eviction: Eviction, now: datetime) -> Cells:
    status = eviction.status
    targets = status.target_responders
    active = _last(targets, ("Active",)) or _last(targets, _PROCESSED)
    begun = sum(one.state in ("Active", *_PROCESSED) for one in targets)
    report = next((one for one in status.responders if active is not None and one.name == active.name), None)
    progress, finish, heartbeat, message = _report_cells(active, report, now)
    return [
        eviction.metadata.name,
        *_target(eviction.spec.target.pod),
        _state(status.observed_generation, status.conditions),
        f"{_UNSET if active is None else active.name} ({begun}/{len(targets)})",
        progress,
        finish,
        _requesters(eviction),
        format_age(eviction, now),
        heartbeat,
        message,
    ]


def _target(pod: EvictionPodReference | EvictionRequestPodReference | None) -> tuple[str, str]:
    return (_UNSET, _UNSET) if pod is None else (pod.name, "Pod")


def _state(observed: int | None, conditions: Sequence[Condition]) -> str:
    true = {one.type: one for one in conditions if one.status == "True"}
    for kind in ("TargetEvicted", "Failed"):
        if kind in true:
            return f"{kind} ({true[kind].reason})"
    return "Progressing" if observed else "Pending"


def _last(targets: Sequence[TargetResponder], states: Sequence[str]) -> TargetResponder | None:
    return next((one for one in reversed(targets) if one.state in states), None)


def _report_cells(
    active: TargetResponder | None, report: ResponderStatus | None, now: datetime
) -> tuple[str, str, str, str]:
    """Return the progress of a responder, its expected end, its last sign of life and its message."""
    if active is None or report is None:
        return _UNSET, _UNKNOWN, _UNSET, _UNSET
    heartbeat = _UNSET if report.heartbeat_time is None else f"{format_age_since(report.heartbeat_time, now)} ago"
    message = (report.message or "").strip() or _UNSET
    if active.state in _PROCESSED:
        progress = active.state
        if progress == "Completed" and report.completion_time is not None:
            progress = f"Completed ({format_age_since(report.completion_time, now)} ago)"
        return progress, "-", heartbeat, message
    if report.start_time is None:
        return active.state, _UNKNOWN, heartbeat, message
    progress = f"Started ({format_age_since(report.start_time, now)} ago)"
    return progress, _expected(report.expected_completion_time, now), heartbeat, message


def _expected(moment: str | None, now: datetime) -> str:
    if moment is None:
        return _UNKNOWN
    left = (parse_time(moment) - now).total_seconds()
    return f"in {human_duration(left)}" if left > 0 else f"{human_duration(-left)} ago"


def _requesters(eviction: Eviction) -> str:
    requesters = eviction.status.requesters
    names = sorted(one.name for one in requesters if one.intent != "Withdrawn")
    if names:
        return format_shortened(names, 1)
    return "<withdrawn>" if requesters else NONE


_TARGET = (column("Target", "Name of the object."), column("Target Type", "Kind of the object."))
_STATUS = column("Status", "State of the eviction.")

EVICTION_REQUEST = Printer(
    columns=(
        NAME,
        *_TARGET,
        _STATUS,
        column("Requester", "Name of the requester."),
        column("Intent", "Eviction or Withdrawn."),
        AGE,
    ),
    cells=_request_cells,
)
EVICTION = Printer(
    columns=(
        NAME,
        *_TARGET,
        _STATUS,
        column("Active Responder", "Responder that is or was last active, and how many have been."),
        column("Responder Status", "Progress of that responder."),
        column("Responder Expected Finish", "Time at which the responder expects to finish."),
        column("Requesters", "Requesters that have not withdrawn."),
        AGE,
        wide_column("Responder Heartbeat", "Time since the last sign of life."),
        wide_column("Responder Status Message", "Message of the responder."),
    ),
    cells=_eviction_cells,
)
