# SPDX-License-Identifier: Apache-2.0
"""Progress of the responders of an Eviction: one after the other is active, by priority, until it has finished.

Inactive ─▶ Active ─▶ Interrupted, Canceled or Completed. A responder reports its progress in its own status. It stays
active until it reports its end, or has not been heard of for 20 minutes, or the eviction itself has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kubeloop.api.generated.lifecycle_v1alpha1 import EvictionStatus, ResponderStatus, TargetResponder
from kubeloop.api.meta.field_path import FieldError, FieldErrors, FieldPath, forbidden, invalid, required
from kubeloop.api.scalars.times import parse_time
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.scalars import IMMUTABLE

FIRST_FREE_PRIORITY: Final = 1000
RESERVED_PRIORITY: Final = "priorities 0-999 are reserved for responders with *.k8s.io suffix"
_ASSIGNED_PRIORITIES: Final = {"imperative-eviction.k8s.io/evictor": 100}
_MAX_RESPONDERS: Final = 11
_HEARTBEAT_DEADLINE: Final = timedelta(minutes=20)
_TIME_SKEW: Final = timedelta(seconds=30)
_MAX_EXPECTED: Final = timedelta(days=3650)
_TARGETS: Final = FieldPath("status").child("targetResponders")
_RESPONDERS: Final = FieldPath("status").child("responders")
_FINAL_STATES: Final = ("Canceled", "Completed", "Interrupted")
_PRESENT: Final = "must be set to the present time"


def validate_target_responders(new: EvictionStatus, old: EvictionStatus, is_final: bool, now: datetime) -> FieldErrors:
    """Validate the states of the responders; `is_final` says that the eviction has ended."""
    targets, names = new.target_responders, {one.name for one in new.target_responders}
    if old.target_responders:
        if len(targets) != len(old.target_responders):
            return [invalid(_TARGETS, to_internal(targets), "must preserve the same length and the same keys")]
        if any(one.name not in names for one in old.target_responders):
            return [invalid(_TARGETS, to_internal(targets), "must preserve the same keys")]
    if len(targets) > _MAX_RESPONDERS or len(names) != len(targets):  # reported by the declarative rules
        return []
    indexes = {one.name: index for index, one in enumerate(targets)}
    statuses = {one.name: one for one in new.responders}
    progress = _Progress(_sorted(targets), _sorted(old.target_responders), is_final)
    errors: FieldErrors = []
    for position, target in enumerate(progress.new):
        path = _TARGETS.index(indexes[target.name])
        status = statuses.get(target.name)
        if status is None:
            text = f'"{target.name}" has to be tracked in {_RESPONDERS} first'
            errors.append(invalid(path, to_internal(target), text))
            continue
        errors += _validate_priority(target, path.child("priority"))
        state = path.child("state")
        expected, why = progress.expected_states(position)
        if target.state not in expected:
            text = f"must be one of: {', '.join(sorted(expected))}, because {why}"
            errors.append(invalid(state, target.state, text))
        else:
            errors += _validate_end(target, status, state, None if is_final else now)
    return errors


def validate_responder_statuses(new: EvictionStatus, old: EvictionStatus, now: datetime) -> FieldErrors:
    """Validate what the responders report: each once it is active, about itself."""
    statuses, states = new.responders, {one.name: one.state for one in new.target_responders}
    names = {one.name for one in statuses}
    if len(new.target_responders) != len(statuses):
        text = "must be the same length as status.targetResponders and contain the same keys"
        return [invalid(_RESPONDERS, to_internal(statuses), text)]
    if any(name not in names for name in states):
        return [invalid(_RESPONDERS, to_internal(statuses), "must contain the same keys as status.targetResponders")]
    if len(statuses) > _MAX_RESPONDERS or len(names) != len(statuses):  # reported by the declarative rules
        return []
    before = {one.name: one for one in old.responders}
    errors: FieldErrors = []
    for index, status in enumerate(statuses):
        is_active, previous = states[status.name] == "Active", before.get(status.name)
        if previous is not None and status != previous and not is_active:
            errors.append(invalid(_RESPONDERS.index(index), to_internal(status), IMMUTABLE))
        else:
            errors += _Report(status, previous or ResponderStatus(), _RESPONDERS.index(index), now).validate(is_active)
    return errors


@dataclass(frozen=True, slots=True)
class _Progress:
    """New and old responders in the order in which they become active."""

    new: Sequence[TargetResponder]
    old: Sequence[TargetResponder]
    is_final: bool

    def expected_states(self, position: int) -> tuple[Sequence[str], str]:
        """Return the states that a responder may have now, and the reason."""
        active = next((index for index, one in enumerate(self.old) if one.state == "Active"), -1)
        has_changed = active >= 0 and self.new[active].state != "Active"
        all_processed = self.is_final or (bool(self.old) and self.old[-1].state in _FINAL_STATES)
        if position < active or (self.old and active < 0 and all_processed):
            return (self.old[position].state,), "final state is immutable"
        if active >= 0 and position == active:
            if has_changed:
                return _FINAL_STATES, "this responder must reach a final state"
            if self.is_final:
                return _FINAL_STATES, "the eviction request has finished processing"
            return ("Active",), "the eviction request stays active"
        if (position == 0 and not self.old) or (position == active + 1 and has_changed):
            if self.is_final:
                return ("Inactive",), "the eviction request has finished processing"
            return ("Active",), "this responder is next in line"
        return ("Inactive",), "the previously active has not finished processing"


def _validate_priority(target: TargetResponder, path: FieldPath) -> FieldErrors:
    priority, assigned = target.priority, _ASSIGNED_PRIORITIES.get(target.name)
    if priority is None or priority < 0:
        return []
    if assigned is None:
        return [invalid(path, priority, RESERVED_PRIORITY)] if priority < FIRST_FREE_PRIORITY else []
    if priority != assigned:
        return [invalid(path, priority, f"core k8s responder is expected to have priority: {assigned}")]
    return []


def _validate_end(
    target: TargetResponder, status: ResponderStatus, path: FieldPath, now: datetime | None
) -> FieldErrors:
    """Validate that a responder ends with a reason; without a time, the eviction has ended."""
    errors: FieldErrors = []
    if target.state != "Active" and now is not None and _is_alive(status, now):
        fields = f"{_RESPONDERS.child('heartbeatTime')} or {_RESPONDERS.child('completionTime')}"
        text = f"must stay Active because the responder is in progress and it should report {fields}"
        errors.append(forbidden(path, text))
    if target.state == "Completed" and status.completion_time is None:
        field = _RESPONDERS.child("completionTime")
        text = f"cannot become Completed because the responder didn't report {field}"
        errors.append(invalid(path, target.state, text))
    return errors


def _is_alive(status: ResponderStatus, now: datetime) -> bool:
    """Return True if a responder has begun, not finished, and was heard of recently."""
    if status.start_time is None or status.completion_time is not None:
        return False
    heartbeat = parse_time(status.heartbeat_time or status.start_time)
    return now < heartbeat + _HEARTBEAT_DEADLINE - _TIME_SKEW


@dataclass(frozen=True, slots=True)
class _Report:
    """Status that a responder reports, and the one before."""

    new: ResponderStatus
    old: ResponderStatus
    path: FieldPath
    now: datetime

    def validate(self, is_active: bool) -> FieldErrors:
        """Validate the times; changes of those that are fixed are reported by the declarative rules."""
        found = (self._start(is_active), *self._heartbeat(), self._expected(), self._completion())
        return [one for one in found if one is not None]

    def _start(self, is_active: bool) -> FieldError | None:
        new, old, path = self.new.start_time, self.old.start_time, self.path.child("startTime")
        if old is not None and old != new:
            return None
        if new is None:
            return required(path, "is required for an active responder") if is_active else None
        return invalid(path, new, _PRESENT) if new != old and not self._is_present(new) else None

    def _heartbeat(self) -> tuple[FieldError | None, FieldError | None]:
        new, old, path = self.new.heartbeat_time, self.old.heartbeat_time, self.path.child("heartbeatTime")
        missing = required(path, "is required once set") if old is not None and new is None else None
        if new is None or new == old:
            return missing, None
        if self.new.start_time is None:
            return missing, self._too_early(path, new)
        if old is not None and parse_time(new) < parse_time(old):
            return missing, invalid(path, new, "cannot be decreased")
        if parse_time(new) < parse_time(self.new.start_time):
            return missing, self._before_start(path, new)
        return missing, None if self._is_present(new) else invalid(path, new, _PRESENT)

    def _expected(self) -> FieldError | None:
        new, path = self.new.expected_completion_time, self.path.child("expectedCompletionTime")
        if new is None or new == self.old.expected_completion_time:
            return None
        if self.new.start_time is None:
            return self._too_early(path, new)
        if parse_time(new) < parse_time(self.new.start_time):
            return self._before_start(path, new)
        if parse_time(new) < self.now - _TIME_SKEW:
            return invalid(path, new, "cannot be set to the past time")
        if parse_time(new) > self.now + _MAX_EXPECTED:
            return invalid(path, new, "must complete within 10 years")
        return None

    def _completion(self) -> FieldError | None:
        new, old, path = self.new.completion_time, self.old.completion_time, self.path.child("completionTime")
        if new is None or (old is not None and old != new):
            return None
        if self.new.start_time is None:
            return self._too_early(path, new)
        if parse_time(new) < parse_time(self.new.start_time):
            return self._before_start(path, new)
        return invalid(path, new, _PRESENT) if new != old and not self._is_present(new) else None

    def _is_present(self, moment: str) -> bool:
        return abs(parse_time(moment) - self.now) < _TIME_SKEW

    def _too_early(self, path: FieldPath, moment: str) -> FieldError:
        return invalid(path, moment, f"cannot be set before {self.path.child('startTime')} is set")

    def _before_start(self, path: FieldPath, moment: str) -> FieldError:
        return invalid(path, moment, f"must occur after {self.path.child('startTime')}")


def _sorted(responders: Sequence[TargetResponder]) -> list[TargetResponder]:
    """Return responders by descending priority, then by the labels of their domain, the last one first."""
    return sorted(responders, key=_order)


def _order(responder: TargetResponder) -> tuple[bool, int, list[str], str]:
    domain, _, key = responder.name.partition("/")
    return responder.priority is None, -(responder.priority or 0), domain.split(".")[::-1], key
