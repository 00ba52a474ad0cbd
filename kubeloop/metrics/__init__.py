# SPDX-License-Identifier: Apache-2.0
"""Metrics of all components in Prometheus' text format.

component ── with_labels, once ──▶ MetricValue, Histogram, Summary: counted on hot paths
                                        ▲
MetricRegistry ── MetricFamily ─────────┘ read on collection
                       │ MetricDesc, samples, help_texts.tsv
                       └──────────▶ exposition.family_lines: label values and help escaped
"""

from kubeloop.metrics.exposition import MetricDesc, Sample, family_lines, format_number
from kubeloop.metrics.families import MetricFamily
from kubeloop.metrics.health_checks import HealthCheckMetrics
from kubeloop.metrics.registry import MetricRegistry
from kubeloop.metrics.values import (
    FastHistogram,
    Histogram,
    MetricValue,
    Summary,
    exponential_bounds,
    linear_bounds,
)

__all__ = [
    "FastHistogram",
    "HealthCheckMetrics",
    "Histogram",
    "MetricDesc",
    "MetricFamily",
    "MetricRegistry",
    "MetricValue",
    "Sample",
    "Summary",
    "exponential_bounds",
    "family_lines",
    "format_number",
    "linear_bounds",
]
