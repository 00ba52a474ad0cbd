# SPDX-License-Identifier: Apache-2.0
"""Counters of service account tokens in use."""

from __future__ import annotations

from kubeloop.metrics import MetricRegistry


class ServiceAccountTokenMetrics:
    """Uses of valid tokens: bound ones, those older than their holder should keep them, and legacy ones."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.valid = registry.counter("serviceaccount_valid_tokens_total").with_labels()
        self.stale = registry.counter("serviceaccount_stale_tokens_total").with_labels()
        self.legacy = registry.counter("serviceaccount_legacy_tokens_total").with_labels()
