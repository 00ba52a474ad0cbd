# SPDX-License-Identifier: Apache-2.0
"""Metrics of envelope encryption, under upstream's names: data keys, key IDs, and calls of KMS plugins.

Key IDs and the server's identity are shown as hashes, because they may be confidential.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry, MetricValue, exponential_bounds

_ENVELOPE: Final = "apiserver_envelope_encryption_"
_STORAGE: Final = "apiserver_storage_"
_CALL_BOUNDS: Final = exponential_bounds(0.0001, 2, 20)
_GENERATION_BOUNDS: Final = exponential_bounds(5e-6, 2, 14)
_KEY_LABELS: Final = ("transformation_type", "provider_name", "key_id_hash", "apiserver_id_hash")
_MAX_KEYS: Final = 100  # as upstream: the series of older keys are dropped

TransformationType: TypeAlias = Literal["from_storage", "to_storage"]
_KeyUse: TypeAlias = tuple[str, str, str]


class EnvelopeMetrics:
    """Metrics of all KMS providers of one server."""

    def __init__(self, registry: MetricRegistry, clock: Clock, server_id: str = "") -> None:
        counter, gauge, histogram = registry.counter, registry.gauge, registry.histogram
        self._clock = clock
        self.monotonic = clock.monotonic
        self._server = key_hash(server_id)
        self._uses: dict[_KeyUse, tuple[MetricValue, MetricValue]] = {}
        self._status_keys: dict[tuple[str, str], MetricValue] = {}
        self.cache_misses = counter(f"{_STORAGE}envelope_transformation_cache_misses_total").with_labels()
        self._generations = histogram(f"{_STORAGE}data_key_generation_duration_seconds", bounds=_GENERATION_BOUNDS)
        self.generation_failures = counter(f"{_STORAGE}data_key_generation_failures_total").with_labels()
        self.observe_generation = self._generations.with_labels().observe
        self._totals = counter(f"{_ENVELOPE}key_id_hash_total", *_KEY_LABELS)
        self._last_uses = gauge(f"{_ENVELOPE}key_id_hash_last_timestamp_seconds", *_KEY_LABELS)
        self._last_statuses = gauge(f"{_ENVELOPE}key_id_hash_status_last_timestamp_seconds", *_KEY_LABELS[1:])
        self._invalid_keys = counter(f"{_ENVELOPE}invalid_key_id_from_status_total", "provider_name", "error")
        self._cache_sizes = gauge(f"{_ENVELOPE}dek_source_cache_size", "provider_name")
        self._calls = histogram(
            f"{_ENVELOPE}kms_operations_latency_seconds",
            "provider_name",
            "method_name",
            "grpc_status_code",
            bounds=_CALL_BOUNDS,
        )

    def count_use(self, kind: TransformationType, provider: str, key_id: str) -> None:
        """Count a value that was encrypted or decrypted under a key of the plugin."""
        use = (kind, provider, key_id)
        values = self._uses.pop(use, None)
        if values is None:
            labels = (kind, provider, key_hash(key_id), self._server)
            values = self._totals.with_labels(*labels), self._last_uses.with_labels(*labels)
            if len(self._uses) >= _MAX_KEYS:
                self._drop_oldest_use()
        self._uses[use] = values  # the last one is the newest
        values[0].value += 1
        values[1].value = self._clock.now().timestamp()

    def set_status_key(self, provider: str, key_id: str) -> None:
        """Record the key that a plugin reports."""
        value = self._status_keys.pop((provider, key_id), None)
        if value is None:
            value = self._last_statuses.with_labels(provider, key_hash(key_id), self._server)
            if len(self._status_keys) >= _MAX_KEYS:
                oldest, key = next(iter(self._status_keys))
                del self._status_keys[oldest, key]
                self._last_statuses.drop(oldest, key_hash(key), self._server)
        self._status_keys[provider, key_id] = value
        value.value = self._clock.now().timestamp()

    def count_invalid_key(self, provider: str, error: str) -> None:
        """Count a status with an invalid key ID: `empty` or `too_long`."""
        self._invalid_keys.with_labels(provider, error).value += 1

    def set_cache_size(self, provider: str, size: Callable[[], float]) -> None:
        """Report the number of data keys that a provider has decrypted."""
        self._cache_sizes.set_function(size, provider)

    def observe_call(self, provider: str, method: str, code: str, seconds: float) -> None:
        """Observe a call of a plugin by its gRPC code."""
        self._calls.with_labels(provider, method, code).observe(seconds)

    def _drop_oldest_use(self) -> None:
        kind, provider, key_id = oldest = next(iter(self._uses))
        del self._uses[oldest]
        labels = (kind, provider, key_hash(key_id), self._server)
        self._totals.drop(*labels)
        self._last_uses.drop(*labels)


def key_hash(text: str) -> str:
    """Return the hash of a key ID or an identity; empty if the text is."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" if text else ""
