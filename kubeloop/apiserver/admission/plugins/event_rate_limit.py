# SPDX-License-Identifier: Apache-2.0
"""EventRateLimit: limits the rate of events by server, namespace, user, or source and object."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Event
from kubeloop.api.meta.field_path import FieldError, FieldPath, invalid, not_supported
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes
from kubeloop.clock import Clock

_DEFAULT_CACHE_SIZE: Final = 4096
_SERVER: Final = "Server"


class EventLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Limit of one type."""

    type: str = ""
    qps: int = 0
    burst: int = 0
    cache_size: int = 0


class EventRateLimitConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """Configuration file of the plugin."""

    kind: str = ""
    api_version: str = ""
    limits: tuple[EventLimit, ...] = ()

    def validate(self) -> Iterator[FieldError]:
        """Yield the errors of the configuration."""
        path = FieldPath("limits")
        if not self.limits:
            yield invalid(path, None, "must not be empty")
        for index, limit in enumerate(self.limits):
            yield from _validate_limit(limit, path.index(index))


class EventRateLimit(AdmissionPlugin):
    """Rejects events above the configured rates."""

    name = "EventRateLimit"
    resources = frozenset({"events"})
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, config: EventRateLimitConfiguration, clock: Clock) -> None:
        self._enforcers = [_LimitEnforcer(limit, clock) for limit in config.limits]

    def validate(self, attempt: Attributes) -> None:
        """Take a token from the bucket of each limit; reject the event if one is empty."""
        if attempt.dry_run:
            return
        reached = [text for enforcer in self._enforcers if (text := enforcer.accept(attempt))]
        if reached:
            raise errors.TooManyRequests(f"Too many requests: {_aggregate(reached)}")


class _LimitEnforcer:
    """Token buckets of one limit, least recently used first."""

    def __init__(self, limit: EventLimit, clock: Clock) -> None:
        self._limit = limit
        self._key_of = _KEYS[limit.type]
        self._monotonic = clock.monotonic
        self._size = 1 if limit.type == _SERVER else limit.cache_size or _DEFAULT_CACHE_SIZE
        # Time at which each bucket is full again.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def accept(self, attempt: Attributes) -> str:
        """Take a token; returns an error text if there is none."""
        key, now = self._key_of(attempt), self._monotonic()
        full_at = max(self._full_at.pop(key, now), now)
        after = full_at + 1 / self._limit.qps
        accepted = (after - now) * self._limit.qps <= self._limit.burst + 1e-6
        self._full_at[key] = after if accepted else full_at
        if len(self._full_at) > self._size:
            self._full_at.popitem(last=False)
        return "" if accepted else f"limit reached on type {self._limit.type} for key {key}"


def _source_and_object(attempt: Attributes) -> str:
    event = attempt.obj
    assert isinstance(event, Event)
    about = event.involved_object
    source = (event.source.component, event.source.host)
    return "".join((*source, about.kind, about.namespace, about.name, about.uid, about.api_version))


_KEYS: Final[dict[str, Callable[[Attributes], str]]] = {
    _SERVER: lambda attempt: "",
    "Namespace": lambda attempt: attempt.namespace,
    "User": lambda attempt: attempt.user.name,
    "SourceAndObject": _source_and_object,
}


def _validate_limit(limit: EventLimit, path: FieldPath) -> Iterator[FieldError]:
    if limit.type not in _KEYS:
        yield not_supported(path.child("type"), limit.type, sorted(_KEYS))
    if limit.burst <= 0:
        yield invalid(path.child("burst"), limit.burst, "must be positive")
    if limit.qps <= 0:
        yield invalid(path.child("qps"), limit.qps, "must be positive")
    if limit.type != _SERVER and limit.cache_size < 0:
        yield invalid(path.child("cacheSize"), limit.cache_size, "must not be negative")


def _aggregate(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
