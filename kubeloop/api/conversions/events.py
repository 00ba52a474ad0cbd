# SPDX-License-Identifier: Apache-2.0
"""Conversion of Events between the core group and events.k8s.io: the same object under different field names.

Both share their common parts, which is safe because objects are never changed in place.
"""

from __future__ import annotations

from kubeloop.api.generated import core_v1, events_v1


def to_events(event: core_v1.Event) -> events_v1.Event:
    """Convert a core event to events.k8s.io."""
    series = event.series
    return events_v1.Event(
        metadata=event.metadata,
        event_time=event.event_time,
        series=None
        if series is None
        else events_v1.EventSeries(count=series.count, last_observed_time=series.last_observed_time),
        reporting_controller=event.reporting_component,
        reporting_instance=event.reporting_instance,
        action=event.action,
        reason=event.reason,
        regarding=event.involved_object,
        related=event.related,
        note=event.message,
        type=event.type,
        deprecated_source=event.source,
        deprecated_first_timestamp=event.first_timestamp,
        deprecated_last_timestamp=event.last_timestamp,
        deprecated_count=event.count,
    )


def to_core(event: events_v1.Event) -> core_v1.Event:
    """Convert an event of events.k8s.io to the core group, in which it is stored."""
    series = event.series
    return core_v1.Event(
        metadata=event.metadata,
        event_time=event.event_time,
        series=None
        if series is None
        else core_v1.EventSeries(count=series.count, last_observed_time=series.last_observed_time),
        reporting_component=event.reporting_controller,
        reporting_instance=event.reporting_instance,
        action=event.action,
        reason=event.reason,
        involved_object=event.regarding,
        related=event.related,
        message=event.note,
        type=event.type,
        source=event.deprecated_source,
        first_timestamp=event.deprecated_first_timestamp,
        last_timestamp=event.deprecated_last_timestamp,
        count=event.deprecated_count,
    )
