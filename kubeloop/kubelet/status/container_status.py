# SPDX-License-Identifier: Apache-2.0
"""Container statuses, generated from the observed runs and the pod's state. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter

import msgspec

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    ResourceRequirements,
    VolumeMountStatus,
)
from kubeloop.api.scalars.quantity import Quantity as Amount
from kubeloop.api.scalars.quantity import QuantityFormat, parse_quantity
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Quantity, Time
from kubeloop.kubelet.containers.probes import has_started, is_ready
from kubeloop.kubelet.runtime import ContainerRun, EffectiveResources, PodObservation
from kubeloop.kubelet.sync.containers import app_containers_of, ephemeral_containers_of, is_sidecar
from kubeloop.kubelet.sync.pod_state import PodState
from kubeloop.kubelet.sync.restart import RESTARTING_ALL, should_start

CREATING = ContainerState(waiting=ContainerStateWaiting(reason="ContainerCreating"))
INITIALIZING = ContainerState(waiting=ContainerStateWaiting(reason="PodInitializing"))

# Smaller values of the kernel mean none, in thousandths of a CPU.
MIN_MILLI_CPU_LIMIT, MIN_MILLI_CPU_REQUEST = 10, 2
MAX_POD_TERMINATION_MESSAGE_BYTES = (
    12 * 1024
)  # limit of the termination messages of a pod's containers together, in bytes
RESET_STATE = ContainerState(
    terminated=ContainerStateTerminated(
        exit_code=137, reason=RESTARTING_ALL, message="The container is removed because RestartAllContainers in place"
    )
)

Statuses = tuple[ContainerStatus, ...]


def init_container_statuses(pod: Pod, seen: PodObservation, memory: PodState) -> Statuses:
    """Return the statuses of the init containers, in order."""
    containers = pod.spec.init_containers
    return tuple(_status(pod, one, seen, memory) for one in containers) if containers else ()


def app_container_statuses(pod: Pod, seen: PodObservation, memory: PodState) -> Statuses:
    """Return the statuses of the app containers, ordered by name."""
    return _sort_by_name(_status(pod, one, seen, memory) for one in app_containers_of(pod))


def ephemeral_container_statuses(pod: Pod, seen: PodObservation, memory: PodState) -> Statuses:
    """Return the statuses of the ephemeral containers, ordered by name."""
    return _sort_by_name(_status(pod, one, seen, memory) for one in ephemeral_containers_of(pod))


def _sort_by_name(statuses: Iterable[ContainerStatus]) -> Statuses:
    """Return statuses ordered by name, as for containers that run in parallel."""
    return tuple(sorted(statuses, key=attrgetter("name")))


def statuses_by_name(statuses: Iterable[ContainerStatus]) -> dict[str, ContainerStatus]:
    """Return statuses in a dict by name."""
    return {one.name: one for one in statuses}


def _status(pod: Pod, container: Container, seen: PodObservation, memory: PodState) -> ContainerStatus:
    run = seen.last_run(container.name)
    begins_anew = run is not None and run.is_reset
    restarts = run.attempt + begins_anew if run is not None else _restarts_before(container, memory)
    if begins_anew:
        run = None
    state, last = _states(pod, container, seen, memory)
    resources = container.resources
    return ContainerStatus(
        name=container.name,
        image=run.image if run is not None else container.image,
        image_id=run.image_id if run is not None else "",
        container_id=run.id if run is not None else "",
        restart_count=restarts,
        state=_truncate_message(state, pod),
        last_state=_truncate_message(last, pod),
        started=has_started(memory.probes, container, run),
        ready=_is_ready(pod, container, run, memory),
        resources=_actual_resources(run, resources),
        allocated_resources=resources.requests if run is not None else {},
        volume_mounts=_mounts(container),
        user=run.user if run is not None else None,
        allocated_resources_status=run.resource_statuses if run is not None else (),
    )


def _actual_resources(run: ContainerRun | None, allocated: ResourceRequirements) -> ResourceRequirements | None:
    """Return the actual resources of a running container; else those allocated."""
    if run is None:
        return None
    has = allocated
    if run.state == "running" and run.effective is not None:
        return _with_effective(allocated, run.resources or allocated, run.effective)
    if run.state == "running" and run.resources is not None and run.resources is not allocated:
        has = msgspec.structs.replace(allocated, requests=run.resources.requests, limits=run.resources.limits)
    return has


def _with_effective(
    allocated: ResourceRequirements, given: ResourceRequirements, effective: EffectiveResources
) -> ResourceRequirements:
    """Return the allocated resources with what the runtime reports; the rest is what the container was given.

    Of values that the kernel cannot distinguish from none, the allocated ones are shown.
    """
    limits = {name: given.limits.get(name, text) for name, text in allocated.limits.items()}
    requests = {name: given.requests.get(name, text) for name, text in allocated.requests.items()}
    if limits and _is_shown(effective.cpu_limit, limits.get("cpu"), MIN_MILLI_CPU_LIMIT):
        limits["cpu"] = _milli_cpu(effective.cpu_limit)
    if limits and effective.memory_limit:
        limits["memory"] = Quantity(str(Amount.of(effective.memory_limit, QuantityFormat.BINARY_SI)))
    if requests and _is_shown(effective.cpu_request, requests.get("cpu"), MIN_MILLI_CPU_REQUEST):
        requests["cpu"] = _milli_cpu(effective.cpu_request)
    return msgspec.structs.replace(allocated, limits=limits, requests=requests)


def _is_shown(reported: int, own: str | None, least: int) -> bool:
    return bool(reported) and (reported > least or parse_quantity(own or "0").milli_value() > least)


def _milli_cpu(milli: int) -> Quantity:
    return Quantity(str(Amount.of_milli(milli)))


def _states(
    pod: Pod, container: Container, seen: PodObservation, memory: PodState
) -> tuple[ContainerState, ContainerState]:
    """Return the present state, and the state before the last start."""
    runs = seen.runs.get(container.name, ())
    waits = memory.waiting_containers.get(container.name)
    if not runs or runs[0].is_reset:
        first = INITIALIZING if pod.spec.init_containers else CREATING
        before = previous_state(runs[0]) if runs else ContainerState()
        return (first if waits is None else _waiting(waits.reason, waits.message)), before
    newest = runs[0]
    before = previous_state(runs[1]) if len(runs) > 1 else ContainerState()
    if waits is not None and newest.state == "exited" and should_start(container, pod, newest):
        return _waiting(waits.reason, waits.message), container_state(newest)
    if newest.hook_failure and newest.state == "exited" and should_start(container, pod, newest):
        return _waiting("PostStartHookError", newest.hook_failure), container_state(newest)
    return container_state(newest), before


def previous_state(run: ContainerRun) -> ContainerState:
    """Return the state of a former run; of runs before a restart of all containers only that is known."""
    return RESET_STATE if run.is_reset else container_state(run)


def container_state(run: ContainerRun) -> ContainerState:
    """Return the state of a run."""
    if run.state == "created":
        return CREATING
    if run.state == "running":
        return ContainerState(running=ContainerStateRunning(started_at=_time(run.started_at)))
    return ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=run.exit_code,
            reason=run.reason or ("Completed" if run.exit_code == 0 else "Error"),
            message=run.message,
            started_at=_time(run.started_at),
            finished_at=_time(run.finished_at),
            container_id=run.id,
        )
    )


def _truncate_message(state: ContainerState, pod: Pod) -> ContainerState:
    """Return the state with its termination message truncated to the container's share of the limit."""
    end = state.terminated
    if end is None or not end.message:
        return state
    spec, words = pod.spec, end.message.encode()
    most = MAX_POD_TERMINATION_MESSAGE_BYTES // (
        len(spec.init_containers) + len(app_containers_of(pod)) + len(spec.ephemeral_containers)
    )
    if len(words) <= most:
        return state
    return ContainerState(terminated=msgspec.structs.replace(end, message=words[:most].decode("utf-8", "ignore")))


def _waiting(reason: str, message: str) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))


def _is_ready(pod: Pod, container: Container, run: ContainerRun | None, memory: PodState) -> bool:
    if run is not None and run.state == "exited" and container in pod.spec.init_containers:
        return not is_sidecar(container) and run.exit_code == 0
    if pod.spec.init_containers and container in pod.spec.init_containers and not is_sidecar(container):
        return False
    return is_ready(memory.probes, container, run)


def _restarts_before(container: Container, memory: PodState) -> int:
    """Return the reported restart count of a container without runs."""
    reported = (*memory.reported_status.container_statuses, *memory.reported_status.init_container_statuses)
    return next((one.restart_count for one in reported if one.name == container.name), 0)


def _mounts(container: Container) -> tuple[VolumeMountStatus, ...]:
    return tuple(
        VolumeMountStatus(
            name=one.name,
            mount_path=one.mount_path,
            read_only=one.read_only,
            recursive_read_only="Disabled" if one.read_only else None,
        )
        for one in container.volume_mounts
    )


def _time(moment: datetime | None) -> Time | None:
    return None if moment is None else Time(format_time(moment))
