# SPDX-License-Identifier: Apache-2.0
"""Pod phase, from the states of the containers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kubeloop.api.generated.core_v1 import Container, ContainerStateTerminated, ContainerStatus, Pod
from kubeloop.kubelet.sync.containers import app_containers_of, regular_init_containers_of, sidecar_containers_of
from kubeloop.kubelet.sync.restart import RESTARTING_ALL, should_restart

Named = Mapping[str, ContainerStatus]


def pod_phase(pod: Pod, statuses: Named, *, ended: bool) -> str:
    """Return the phase; with `ended`, no container will be started again, whatever its policy."""
    init = Counter(_init_state(pod, one, statuses.get(one.name)) for one in regular_init_containers_of(pod))
    if init["failed for good"]:
        return "Failed"
    sidecars = Counter(_sidecar_state(statuses.get(one.name)) for one in sidecar_containers_of(pod))
    regular = Counter(_regular_state(pod, one, statuses.get(one.name)) for one in app_containers_of(pod))
    has_begun = any(_has_begun(statuses.get(one.name)) for one in app_containers_of(pod))
    sidecars_pend = sidecars["waiting"] or (sidecars["starting"] and not has_begun)
    if init["pending"] or sidecars_pend or regular["waiting"]:
        return "Pending"
    if regular["running"] or sidecars["running"] or sidecars["starting"]:
        return "Running"
    return _phase_at_rest(regular, ended)


def _phase_at_rest(regular: Counter[str], ended: bool) -> str:
    """Return the phase while nothing runs."""
    if not regular.total():
        return "Pending"
    if not ended and (regular["restarts"] or regular["restarts after success"]):
        return "Running"
    return "Failed" if regular["failed"] or regular["restarts"] else "Succeeded"


def _termination_of(status: ContainerStatus) -> ContainerStateTerminated | None:
    """Return the termination of a container that does not run: the current state, or the one before waiting."""
    return status.state.terminated or (status.last_state.terminated if status.state.waiting is not None else None)


def _restarts(pod: Pod, container: Container, end: ContainerStateTerminated) -> bool:
    return end.reason == RESTARTING_ALL or should_restart(container, pod.spec, end.exit_code)


def _has_begun(status: ContainerStatus | None) -> bool:
    return status is not None and (status.state.running is not None or _termination_of(status) is not None)


def _init_state(pod: Pod, container: Container, status: ContainerStatus | None) -> str:
    if status is None or status.state.running is not None or (end := _termination_of(status)) is None:
        return "pending"
    if end.exit_code == 0:
        return "done"
    return "failing" if _restarts(pod, container, end) else "failed for good"


def _sidecar_state(status: ContainerStatus | None) -> str:
    if status is None:
        return "waiting"
    if status.state.running is not None:
        return "running" if status.started else "starting"
    return "ended" if _termination_of(status) is not None else "waiting"


def _regular_state(pod: Pod, container: Container, status: ContainerStatus | None) -> str:
    if status is None:
        return "waiting"
    if status.state.running is not None:
        return "running"
    end = _termination_of(status)
    if end is None:
        return "waiting"
    if _restarts(pod, container, end):
        return "restarts" if end.exit_code else "restarts after success"
    return "failed" if end.exit_code else "succeeded"
