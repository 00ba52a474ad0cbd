# SPDX-License-Identifier: Apache-2.0
"""Printer of Events, of the core group and of events.k8s.io."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kubeloop.apiserver.response.tables.model import Cells, Printer, column, wide_column
from kubeloop.apiserver.response.tables.text import format_age_since

if TYPE_CHECKING:
    from kubeloop.api.generated.core_v1 import Event as CoreEvent
    from kubeloop.api.generated.core_v1 import EventSource, ObjectReference
    from kubeloop.api.generated.events_v1 import Event


class _EventFields(msgspec.Struct, frozen=True):
    """Fields that the two versions name differently."""

    about: ObjectReference
    message: str
    source: EventSource
    controller: str
    first: str | None
    last: str | None
    count: int


def _core_fields_of(event: CoreEvent) -> _EventFields:
    return _EventFields(
        event.involved_object,
        event.message,
        event.source,
        event.reporting_component,
        event.first_timestamp,
        event.last_timestamp,
        event.count,
    )


def _fields_of(event: Event) -> _EventFields:
    return _EventFields(
        event.regarding,
        event.note,
        event.deprecated_source,
        event.reporting_controller,
        event.deprecated_first_timestamp,
        event.deprecated_last_timestamp,
        event.deprecated_count,
    )


def _cells(event: Any, facts: _EventFields, now: datetime) -> Cells:
    about = facts.about
    first = facts.first or event.event_time
    last = facts.last or first
    count = facts.count or 1
    if event.series:
        last, count = event.series.last_observed_time, event.series.count
    component = facts.source.component or facts.controller
    instance = facts.source.host or event.reporting_instance
    return [
        format_age_since(last, now),
        event.type,
        event.reason,
        f"{about.kind.lower()}/{about.name}" if about.name else about.kind.lower(),
        about.field_path,
        f"{component}, {instance}" if instance else component,
        facts.message.strip(),
        format_age_since(first, now),
        count,
        event.metadata.name,
    ]


def _core_cells(event: CoreEvent, now: datetime) -> Cells:
    return _cells(event, _core_fields_of(event), now)


def _event_cells(event: Event, now: datetime) -> Cells:
    return _cells(event, _fields_of(event), now)


_COLUMNS = (
    column("Last Seen", "Time since the last occurrence."),
    column("Type", "Normal or Warning."),
    column("Reason", "Reason code."),
    column("Object", "Object of the event."),
    wide_column("Subobject", "Field path within the object."),
    wide_column("Source", "Component that reported the event."),
    column("Message", "Human-readable message."),
    wide_column("First Seen", "Time since the first occurrence."),
    wide_column("Count", "Number of occurrences."),
    column("Name", "Name of the event.", format="name", wide=True),
)
CORE_EVENT = Printer(columns=_COLUMNS, cells=_core_cells)
EVENT = Printer(columns=_COLUMNS, cells=_event_cells)
