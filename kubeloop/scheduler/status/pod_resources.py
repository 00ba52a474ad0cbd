# SPDX-License-Identifier: Apache-2.0
"""Requests and limits of all pods: the metrics of `/metrics/resources`, computed when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_terminal
from kubeloop.api.quota.pod_amounts import limits_of, requests_of
from kubeloop.api.scalars.quantity import Quantity
from kubeloop.metrics import MetricRegistry

PATH: Final = "/metrics/resources"
_LABELS: Final = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_UNITS: Final = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
_HUGE_PAGES: Final = "hugepages-"
_ATTACHABLE: Final = "attachable-volumes-"


def register_pod_resources(registry: MetricRegistry, pods: Callable[[], Iterable[Pod]]) -> None:
    """Register the page, which is computed from the pods that a function returns."""
    page = registry.page(PATH)
    for name, amounts_of in (("kube_pod_resource_request", requests_of), ("kube_pod_resource_limit", limits_of)):
        page.gauge(name, *_LABELS).set_collector(_collector(pods, amounts_of))


def _collector(
    pods: Callable[[], Iterable[Pod]], amounts_of: Callable[[Pod], Mapping[str, Quantity]]
) -> Callable[[], dict[tuple[str, ...], float]]:
    def collect() -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for pod in pods():
            if pod.spec.node_name and is_terminal(pod):
                continue
            meta, spec = pod.metadata, pod.spec
            priority = "" if spec.priority is None else str(spec.priority)
            place = (meta.namespace, meta.name, spec.node_name, spec.scheduler_name, priority)
            for resource, amount in amounts_of(pod).items():
                if amount:
                    found[*place, resource, _unit_of(resource)] = float(amount)
        return found

    return collect


def _unit_of(resource: str) -> str:
    if resource.startswith(_HUGE_PAGES):
        return "bytes"
    return "integer" if resource.startswith(_ATTACHABLE) else _UNITS.get(resource, "")
