# SPDX-License-Identifier: Apache-2.0
"""Counters of service account tokens in use, and of the cache of tokens that other servers are asked about."""

from __future__ import annotations

from typing import Final

from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry, MetricValue

_CACHE: Final = "authentication_token_cache_"
_CACHE_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class ServiceAccountTokenMetrics:
    """Uses of valid tokens: bound ones, those older than their holder should keep them, and legacy ones."""

    def __init__(self, registry: MetricRegistry) -> None:
        def counter(name: str) -> MetricValue:
            return registry.counter(f"serviceaccount_{name}_total").with_labels()

        self.valid = counter("valid_tokens")
        self.stale = counter("stale_tokens")
        self.legacy = counter("legacy_tokens")
        self.legacy_auto = counter("legacy_auto_token_uses")
        self.legacy_manual = counter("legacy_manual_token_uses")
        self.invalid_legacy_auto = counter("invalid_legacy_auto_token_uses")


class TokenCacheMetrics:
    """Lookups of tokens: answered from the cache (hits) or by other servers (misses)."""

    def __init__(self, registry: MetricRegistry, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self._requests = registry.counter(f"{_CACHE}request_total", "status")
        self._durations = registry.histogram(f"{_CACHE}request_duration_seconds", "status", bounds=_CACHE_BOUNDS)
        self._fetches = registry.counter(f"{_CACHE}fetch_total", "status")
        active = registry.gauge(f"{_CACHE}active_fetch_count", "status")
        self.blocked = active.with_labels("blocked")  # requests that wait for a fetch
        self.in_flight = active.with_labels("in_flight")

    def observe(self, since: float, *, hit: bool) -> None:
        """Count a lookup since a reading of the monotonic clock."""
        status = "hit" if hit else "miss"
        self._requests.with_labels(status).value += 1
        self._durations.with_labels(status).observe(self.monotonic() - since)

    def count_fetch(self, *, ok: bool) -> None:
        """Count an answer of another server: that there is a user or none, or an error."""
        self._fetches.with_labels("ok" if ok else "error").value += 1
