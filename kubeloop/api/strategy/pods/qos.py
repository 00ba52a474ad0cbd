# SPDX-License-Identifier: Apache-2.0
"""QoS class of a pod, computed from its requests and limits."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.api.generated.core_v1 import PodSpec, ResourceRequirements
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.scalars.wire import Quantity

BEST_EFFORT = "BestEffort"
BURSTABLE = "Burstable"
GUARANTEED = "Guaranteed"


def qos_class_of(spec: PodSpec) -> str:
    """Return the QoS class: by pod-level resources if set; otherwise all containers must agree."""
    whole = spec.resources
    if whole is not None and (whole.requests or whole.limits):
        return _class_of(whole)
    classes = {_class_of(container.resources) for container in (*spec.init_containers, *(spec.containers or ()))}
    if len(classes) > 1:
        return BURSTABLE
    return classes.pop() if classes else BEST_EFFORT


def _class_of(resources: ResourceRequirements) -> str:
    requests, limits = resources.requests, resources.limits
    if not requests and not limits:
        return BEST_EFFORT
    cpu, memory = _shape(requests, limits, "cpu"), _shape(requests, limits, "memory")
    return cpu if cpu == memory else BURSTABLE


def _shape(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity], name: str) -> str:
    request, limit = requests.get(name, "0"), limits.get(name, "0")
    if request != limit and parse_quantity(request) != parse_quantity(limit):
        return BURSTABLE
    return GUARANTEED if parse_quantity(request) else BEST_EFFORT
