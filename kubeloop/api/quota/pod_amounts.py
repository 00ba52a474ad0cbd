# SPDX-License-Identifier: Apache-2.0
"""Requests and limits of a whole pod: desired, allocated or in effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubeloop.api.generated.core_v1 import Container, ContainerStatus, Pod, PodSpec
from kubeloop.api.quota.amounts import Amounts, add, amounts_of, maximum

_Texts = Mapping[str, str]
# Reads a container's resources: desired, allocated or in effect.
_Reading = Callable[[Container, ContainerStatus | None], _Texts]


def has_pod_level_resources(spec: PodSpec) -> bool:
    """Return True if the pod has pod-level resources, so that containers may omit theirs."""
    whole = spec.resources
    return whole is not None and any(_is_of_pods(name) for name in (*whole.requests, *whole.limits))


def requests_of(pod: Pod) -> Amounts:
    """Return the maximum of desired, allocated and actual requests, plus the pod overhead."""
    refused = _resize_is_infeasible(pod)

    def allocated(container: Container, status: ContainerStatus | None) -> _Texts:
        if status is not None and status.allocated_resources:
            return status.allocated_resources
        return {} if refused else container.resources.requests

    def in_effect(container: Container, status: ContainerStatus | None) -> _Texts:
        if status is not None and status.resources is not None and status.resources.requests:
            return status.resources.requests
        return allocated(container, status)

    readings: list[_Reading] = [] if refused else [lambda container, _: container.resources.requests]
    if pod.status.container_statuses or pod.status.init_container_statuses or refused:
        readings += [in_effect, allocated]
    requests = maximum(*(_together(pod, reading) for reading in readings))
    if pod.spec.resources is not None:
        requests.update(_whole(pod.spec.resources.requests))
    return add(requests, amounts_of(pod.spec.overhead))


def limits_of(pod: Pod) -> Amounts:
    """Return the maximum of desired, allocated and actual limits; overhead is added to existing ones."""
    refused = _resize_is_infeasible(pod)

    def in_effect(container: Container, status: ContainerStatus | None) -> _Texts:
        if status is not None and status.resources is not None and status.resources.limits:
            return status.resources.limits
        return {} if refused else container.resources.limits

    readings: list[_Reading] = [in_effect] if refused else [lambda container, _: container.resources.limits, in_effect]
    limits = maximum(*(_together(pod, reading) for reading in readings))
    if pod.spec.resources is not None:
        limits.update(_whole(pod.spec.resources.limits))
    for name, amount in amounts_of(pod.spec.overhead).items():
        if limits.get(name):
            limits[name] += amount
    return limits


def _together(pod: Pod, reading: _Reading) -> Amounts:
    """Return the containers' peak demand: init containers run one by one, beside the sidecars before them."""
    statuses = {status.name: status for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)}

    def amounts(container: Container) -> Amounts:
        return amounts_of(reading(container, statuses.get(container.name)))

    running: Amounts = {}
    for container in pod.spec.containers or ():
        running = add(running, amounts(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.init_containers:
        needed = add(amounts(container), sidecars)
        if container.restart_policy == "Always":
            running = add(running, amounts(container))
            sidecars = needed
        peak = maximum(peak, needed)
    return maximum(running, peak)


def _whole(texts: _Texts) -> Amounts:
    return amounts_of({name: text for name, text in texts.items() if _is_of_pods(name)})


def _is_of_pods(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _resize_is_infeasible(pod: Pod) -> bool:
    pending = (each for each in pod.status.conditions if each.type == "PodResizePending")
    found = next(pending, None)
    return found is not None and found.reason == "Infeasible"
