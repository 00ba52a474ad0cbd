# SPDX-License-Identifier: Apache-2.0
"""Allocated resources of a pod, and in-place resize. Pure.

spec ──differs──▶ fits? ──yes──▶ allocation ──differs from what runs──▶ container updated, or restarted
                    └─no──▶ PodResizePending                  └─▶ PodResizeInProgress until it is done
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Container, ContainerStatus, Pod, ResourceRequirements
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.strategy.pods.qos import GUARANTEED, qos_class_of
from kubeloop.kubelet.runtime import ContainerRun, PodObservation
from kubeloop.kubelet.status.resize_status import NO_POD_LEVEL_RESOURCES, PodLevelResources
from kubeloop.kubelet.sync.containers import app_containers_of

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
DEFERRED, INFEASIBLE = "Deferred", "Infeasible"
# A deferred resize is retried after this time, and when another pod on the node terminates.
RESIZE_RETRY_INTERVAL = timedelta(minutes=3)
RESIZE_ERROR_RETRY_SECONDS = 10.0
_RESIZABLE = ("cpu", "memory")
_STATIC_MANAGERS = {"cpu": 'CPU Manager policy "static"', "memory": 'Memory Manager policy "Static"'}

Sizes = tuple[ResourceRequirements, ...]


class PodAllocation(msgspec.Struct, frozen=True):
    """Resources allocated to a pod's containers in order, and to the pod as a whole."""

    generation: int  # generation of the pod when last compared with its spec
    containers: Sizes
    init: Sizes = ()
    pod_level: ResourceRequirements | None = None
    pod_level_status: PodLevelResources = NO_POD_LEVEL_RESOURCES  # pod-level totals


class PendingResize(msgspec.Struct, frozen=True):
    """Reason why a resize is pending."""

    reason: str
    message: str
    generation: int


class ResizeState(msgspec.Struct, frozen=True):
    """Progress of a pod's resize."""

    pending: PendingResize | None = None
    in_progress_generation: int | None = None  # generation of the resize in progress
    error: str = ""  # of the last try
    retry_at: datetime | None = None  # when it is tried again


def allocation_from_spec(pod: Pod) -> PodAllocation:
    """Return the allocation that the spec requests."""
    spec = pod.spec
    return PodAllocation(
        pod.metadata.generation,
        tuple(one.resources for one in app_containers_of(pod)),
        tuple(one.resources for one in spec.init_containers),
        spec.resources,
    )


def allocation_from_status(pod: Pod) -> PodAllocation:
    """Return the allocation of a running pod from its status; from its spec where the status has none."""
    status = pod.status
    return msgspec.structs.replace(
        allocation_from_spec(pod),
        generation=0,  # a resize may be pending: compare with the spec
        containers=_found(app_containers_of(pod), status.container_statuses),
        init=_found(pod.spec.init_containers, status.init_container_statuses),
        pod_level=_found_whole(pod),
    )


def _found_whole(pod: Pod) -> ResourceRequirements | None:
    wanted, status = pod.spec.resources, pod.status
    if wanted is None or status.resources is None:
        return wanted
    requests = {name: status.allocated_resources.get(name, text) for name, text in wanted.requests.items()}
    limits = {name: status.resources.limits.get(name, text) for name, text in wanted.limits.items()}
    return msgspec.structs.replace(wanted, requests=requests, limits=limits)


def _found(containers: Iterable[Container], statuses: Iterable[ContainerStatus]) -> Sizes:
    named = {one.name: one for one in statuses}
    return tuple(_given(one.resources, named.get(one.name)) for one in containers)


def _given(wanted: ResourceRequirements, status: ContainerStatus | None) -> ResourceRequirements:
    if status is None or status.resources is None or not status.allocated_resources:
        return wanted
    return msgspec.structs.replace(wanted, requests=status.allocated_resources, limits=status.resources.limits)


def is_spec_allocated(pod: Pod, allocation: PodAllocation) -> bool:
    """Return True if the spec requests exactly what is allocated."""
    if pod.metadata.generation == allocation.generation:
        return True
    wanted = allocation_from_spec(pod)
    return (
        all(map(has_equal_resources, wanted.containers, allocation.containers))
        and all(map(has_equal_resources, wanted.init, allocation.init))
        and has_equal_resources(wanted.pod_level, allocation.pod_level)
    )


def infeasible_resize(pod: Pod, allocation: PodAllocation, static: Set[str]) -> str:
    """Return why a pod can never be resized here; empty if it can.

    The CPUs and the memory of Guaranteed pods do not change if a static policy allocates them.
    """
    if qos_class_of(pod.spec) != GUARANTEED:
        return ""
    wanted = allocation_from_spec(pod)
    pairs = list(zip((*wanted.init, *wanted.containers), (*allocation.init, *allocation.containers), strict=True))
    for name, policy in _STATIC_MANAGERS.items():
        if name in static and any(name in _changed(one, other) for one, other in pairs):
            return f"Resize is infeasible for Guaranteed Pods alongside {policy}"
    return ""


def with_allocation(pod: Pod, allocation: PodAllocation) -> Pod:
    """Return the pod with the allocated resources in its spec."""
    if pod.metadata.generation == allocation.generation or is_spec_allocated(pod, allocation):
        return pod
    spec = msgspec.structs.replace(
        pod.spec,
        containers=_with_sizes(app_containers_of(pod), allocation.containers),
        init_containers=_with_sizes(pod.spec.init_containers, allocation.init),
        resources=allocation.pod_level,
    )
    return msgspec.structs.replace(pod, spec=spec)


def _with_sizes(containers: tuple[Container, ...], sizes: Sizes) -> tuple[Container, ...]:
    pairs = zip(containers, sizes, strict=True)
    return tuple(msgspec.structs.replace(one, resources=size) for one, size in pairs)


def has_equal_resources(one: ResourceRequirements | None, other: ResourceRequirements | None) -> bool:
    """Return True if cpu and memory are equal; other resources cannot be resized."""
    return one is other or one == other or not list(_changed(one, other))


def _changed(one: ResourceRequirements | None, other: ResourceRequirements | None) -> Iterable[str]:
    first, second = one or ResourceRequirements(), other or ResourceRequirements()
    for name in _RESIZABLE:
        for mine, theirs in ((first.requests, second.requests), (first.limits, second.limits)):
            if mine.get(name) != theirs.get(name) and _amount(mine.get(name)) != _amount(theirs.get(name)):
                yield name


def _amount(text: str | None) -> int | None:
    return None if text is None else parse_quantity(text).nanos


def needs_resize(container: Container, run: ContainerRun) -> bool:
    """Return True if a running container has resources other than those allocated."""
    return run.resources is not None and not has_equal_resources(run.resources, container.resources)


def needs_pod_level_resize(pod: Pod, seen: PodObservation) -> bool:
    """Return True if a pod has pod-level resources other than those allocated."""
    given = seen.pod_level_resources
    return given is not None and pod.spec.resources is not None and not has_equal_resources(given, pod.spec.resources)


def resize_requires_restart(container: Container, run: ContainerRun) -> bool:
    """Return True if the resize policy requires a restart for the changed resources."""
    changed = set(_changed(run.resources, container.resources))
    return any(
        one.resource_name in changed and one.restart_policy == "RestartContainer" for one in container.resize_policy
    )


def is_resize_in_progress(pod: Pod, seen: PodObservation) -> bool:
    """Return True if a running container does not have its allocated resources yet."""
    for container in (*pod.spec.init_containers, *app_containers_of(pod)):
        run = seen.last_run(container.name)
        if run is not None and run.state == "running" and needs_resize(container, run):
            return True
    return needs_pod_level_resize(pod, seen)


def resize_event_message(what: str, pod: Pod, generation: int, error: str = "") -> str:
    """Return the message of a resize event, with the resources as JSON."""
    told: dict[str, Any] = {}
    for name, containers in (("initContainers", pod.spec.init_containers), ("containers", app_containers_of(pod))):
        if containers:
            told[name] = [{"name": one.name, "resources": codec.to_plain(one.resources)} for one in containers]
    told["generation"] = generation
    if error:
        told["error"] = error
    return f"{what}: {msgspec.json.encode(told).decode()}"
