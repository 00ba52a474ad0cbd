# SPDX-License-Identifier: Apache-2.0
"""Event correlator: aggregation, deduplication and spam filter by client-go's rules for core events.

An event passes three filters: many that differ only in their message become one "combined" event; one that was
seen before raises the count of the first; and a source that exceeds its rate for one object is ignored for a while.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from kubeloop.api.generated.core_v1 import Event, ObjectReference
from kubeloop.api.scalars.wire import Time
from kubeloop.clock import Clock

REMEMBERED: Final = 4096
# This many messages for one reason within so long are combined.
SIMILAR_EVENTS: Final = 10
SIMILAR_SECONDS: Final = 600.0
# Burst of events of one source about an object, and one more every five minutes.
SPAM_BURST: Final = 25
SPAM_REFILL_PER_SECOND: Final = 1 / 300
COMBINED: Final = "(combined from similar events): "

_Key = tuple[str, ...]
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class EventWrite:
    """Correlated event: to be created, or patched onto the existing one."""

    event: Event
    patch: dict[str, Any] | None = None


class EventCorrelator:
    """Correlation state of one source of events."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._similar: _LRUCache[_Similar] = _LRUCache()
        self._observed: _LRUCache[_Observed] = _LRUCache()
        self._allowances: _LRUCache[_SpamBucket] = _LRUCache()

    def correlate(self, event: Event) -> EventWrite | None:
        """Return the write for an event; None if it is dropped."""
        event, key = self._aggregate(event)
        write = self._count(event, key)
        return write if self._is_allowed(event) else None

    def _aggregate(self, event: Event) -> tuple[Event, _Key]:
        now = self._clock.monotonic()
        key = (*_spam_key(event), event.reason, event.reporting_component, event.reporting_instance)
        similar = self._similar.get(key)
        if similar is None or now - similar.last > SIMILAR_SECONDS:
            similar = _Similar()
        similar.messages[event.message] = None
        similar.last = now
        self._similar.put(key, similar)
        if len(similar.messages) < SIMILAR_EVENTS:
            return event, (*key, event.involved_object.field_path, event.message)
        similar.messages.pop(next(iter(similar.messages)))
        return msgspec.structs.replace(event, message=COMBINED + event.message), key

    def _count(self, event: Event, key: _Key) -> EventWrite:
        seen = self._observed.get(key)
        if seen is None:
            self._observed.put(key, _Observed(event.metadata.name, event.first_timestamp, event.count))
            return EventWrite(event)
        seen.count += 1
        self._observed.put(key, seen)
        meta = msgspec.structs.replace(event.metadata, name=seen.name)
        event = msgspec.structs.replace(event, metadata=meta, first_timestamp=seen.first, count=seen.count)
        patch = {"count": event.count, "lastTimestamp": event.last_timestamp, "message": event.message}
        return EventWrite(event, patch)

    def _is_allowed(self, event: Event) -> bool:
        now, key = self._clock.monotonic(), _spam_key(event)
        allowance = self._allowances.get(key) or _SpamBucket(now)
        allowance.tokens = min(SPAM_BURST, allowance.tokens + (now - allowance.since) * SPAM_REFILL_PER_SECOND)
        allowance.since = now
        self._allowances.put(key, allowance)
        if allowance.tokens < 1:
            return False
        allowance.tokens -= 1
        return True


@dataclass(slots=True)
class _Similar:
    """Messages seen for one reason, oldest first; fewer than are combined."""

    messages: dict[str, None] = field(default_factory=dict)
    last: float = 0.0


@dataclass(slots=True)
class _Observed:
    """Event on the server that equal ones are counted on."""

    name: str
    first: Time | None
    count: int


@dataclass(slots=True)
class _SpamBucket:
    """Token bucket."""

    since: float
    tokens: float = SPAM_BURST


class _LRUCache(Generic[V]):
    """LRU cache of bounded size."""

    def __init__(self) -> None:
        self._entries: OrderedDict[_Key, V] = OrderedDict()

    def get(self, key: _Key) -> V | None:
        return self._entries.get(key)

    def put(self, key: _Key, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > REMEMBERED:
            self._entries.popitem(last=False)


def _spam_key(event: Event) -> _Key:
    about: ObjectReference = event.involved_object
    return (
        event.source.component,
        event.source.host,
        about.kind,
        about.namespace,
        about.name,
        about.uid,
        about.api_version,
        event.type,
    )
