# SPDX-License-Identifier: Apache-2.0
"""Metrics of unavailable pods of each StatefulSet and of their maximum, under upstream's names."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.apps_v1 import StatefulSet
from kubeloop.controllers.statefulset.identity import replicas_of
from kubeloop.controllers.statefulset.rolling_update import max_unavailable
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.informer.informer import Informer

_PREFIX: Final = "statefulset_controller_statefulset"
_LABELS: Final = ("statefulset_namespace", "statefulset_name", "pod_management_policy")


def register_unavailable_metrics(registry: MetricRegistry, sets: Informer) -> None:
    """Register gauges that are computed from the sets on each scrape."""
    most = registry.gauge(f"{_PREFIX}_max_unavailable", *_LABELS)
    most.set_collector(lambda: {_labels(one): max_unavailable(one) for one in sets.list()})
    now = registry.gauge(f"{_PREFIX}_unavailable_replicas", *_LABELS)
    now.set_collector(lambda: {_labels(one): _unavailable(one) for one in sets.list()})


def _unavailable(set: StatefulSet) -> int:
    return max(replicas_of(set) - (set.status.available_replicas or 0), 0)


def _labels(set: StatefulSet) -> tuple[str, ...]:
    return set.metadata.namespace, set.metadata.name, set.spec.pod_management_policy
