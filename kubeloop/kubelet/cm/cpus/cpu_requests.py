# SPDX-License-Identifier: Apache-2.0
"""CPUs that containers and pods have for themselves. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.strategy.pods.qos import GUARANTEED, qos_class_of
from kubeloop.kubelet.sync.containers import is_sidecar

CPU = "cpu"


def exclusive_cpus_of(pod: Pod, container: Container) -> int:
    """Return how many CPUs a container has for itself; 0 in a pod with resources of its own."""
    if qos_class_of(pod.spec) != GUARANTEED or _has_pod_level_resources(pod):
        return 0
    return _whole_cpus(container.resources.requests)


def pod_exclusive_cpus(pod: Pod) -> int:
    """Return how many CPUs a pod has for itself at a time: init containers end before the others start."""
    sidecars = at_most = 0
    for one in pod.spec.init_containers:
        count = exclusive_cpus_of(pod, one)
        if is_sidecar(one):
            sidecars += count
        else:
            at_most = max(at_most, sidecars + count)
    return max(at_most, sidecars + sum(exclusive_cpus_of(pod, one) for one in pod.spec.containers or ()))


def _whole_cpus(requests: Mapping[str, str]) -> int:
    milli = parse_quantity(requests.get(CPU, "0")).milli_value()
    return 0 if milli % 1000 else milli // 1000


def _has_pod_level_resources(pod: Pod) -> bool:
    return pod.spec.resources is not None and bool(pod.spec.resources.requests or pod.spec.resources.limits)
