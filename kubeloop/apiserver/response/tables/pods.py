# SPDX-License-Identifier: Apache-2.0
"""Printers of pods and pod templates.

The status column summarizes all containers: the reason that keeps the pod from starting, else the reason of its end,
else its phase.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from kubeloop.apiserver.response.tables.model import AGE, NAME, Cells, Printer, RowCondition, column, wide_column
from kubeloop.apiserver.response.tables.text import (
    NONE,
    container_cells,
    format_age,
    format_age_since,
    format_labels,
    has_condition,
)

if TYPE_CHECKING:
    from kubeloop.api.generated.core_v1 import ContainerStateTerminated, ContainerStatus, Pod, PodTemplate

_NODE_LOST = "NodeLost"
_SUCCEEDED = (RowCondition("Completed", "True", "Succeeded", "The pod has completed successfully."),)
_FAILED = (RowCondition("Completed", "True", "Failed", "The pod failed."),)


class _Restarts:
    """Restart count of containers, and the last termination time."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""

    def add(self, status: ContainerStatus) -> None:
        self.count += status.restart_count
        ended = status.last_state.terminated
        self.last = max(self.last, (ended and ended.finished_at) or "")

    def text(self, now: datetime) -> str:
        if not self.count or not self.last:
            return str(self.count)
        return f"{self.count} ({format_age_since(self.last, now)} ago)"


def _end_reason(ended: ContainerStateTerminated) -> str:
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"


class _Summary:
    """Summary of the container statuses: readiness, reason and restarts."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
        self.total = len(pod.spec.containers or ()) + len(self.sidecars)
        self.ready = 0
        self.reason = pod.status.reason or pod.status.phase
        if any(c.type == "PodScheduled" and c.reason == "SchedulingGated" for c in pod.status.conditions):
            self.reason = "SchedulingGated"
        self.restarts = _Restarts()
        self._sidecar_restarts = _Restarts()
        initializing = self._read_init_containers()
        if not initializing or has_condition(pod.status.conditions, "Initialized"):
            self.restarts = self._sidecar_restarts
            self._read_containers()
        self._read_deletion()

    def _read_init_containers(self) -> bool:
        """Read init containers up to the first unfinished one; return True if there is one."""
        for index, status in enumerate(self.pod.status.init_container_statuses):
            is_sidecar = status.name in self.sidecars
            self.restarts.add(status)
            if is_sidecar:
                self._sidecar_restarts.add(status)
            if status.state.terminated and status.state.terminated.exit_code == 0:
                continue
            if is_sidecar and status.started:
                self.ready += status.ready
                continue
            self.reason = "Init:" + self._init_reason(index, status)
            return True
        return False

    def _init_reason(self, index: int, status: ContainerStatus) -> str:
        waiting = status.state.waiting
        if status.state.terminated:
            return _end_reason(status.state.terminated)
        if waiting and waiting.reason not in ("", "PodInitializing"):
            return waiting.reason
        return f"{index}/{len(self.pod.spec.init_containers)}"

    def _read_containers(self) -> None:
        running, failure = False, ""
        for status in reversed(self.pod.status.container_statuses):
            self.restarts.add(status)
            state = status.state
            if state.waiting and state.waiting.reason:
                self.reason = state.waiting.reason
            elif state.terminated:
                self.reason = _end_reason(state.terminated)
                failure = self.reason if state.terminated.exit_code else failure
            elif status.ready and state.running:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            self.reason = self._reason_with_terminated(running, failure)

    def _reason_with_terminated(self, running: bool, failure: str) -> str:
        if running and has_ready_condition(self.pod):
            return "Running"
        return failure or ("NotReady" if running else "Completed")

    def _read_deletion(self) -> None:
        if not self.pod.metadata.deletion_timestamp:
            return
        if self.pod.status.reason == _NODE_LOST:
            self.reason = "Unknown"
        elif self.pod.status.phase not in ("Succeeded", "Failed"):
            self.reason = "Terminating"


def has_ready_condition(pod: Pod) -> bool:
    """Return True if the pod's Ready condition is True."""
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


def _readiness_gates(pod: Pod) -> str:
    gates = pod.spec.readiness_gates
    if not gates:
        return NONE
    passed = sum(has_condition(pod.status.conditions, gate.condition_type) for gate in gates)
    return f"{passed}/{len(gates)}"


def _pod_cells(pod: Pod, now: datetime) -> Cells:
    summary = _Summary(pod)
    return [
        pod.metadata.name,
        f"{summary.ready}/{summary.total}",
        summary.reason,
        summary.restarts.text(now),
        format_age(pod, now),
        (pod.status.pod_ips[0].ip if pod.status.pod_ips else "") or NONE,
        pod.spec.node_name or NONE,
        pod.status.nominated_node_name or NONE,
        _readiness_gates(pod),
    ]


def _pod_conditions(pod: Pod) -> tuple[RowCondition, ...]:
    return {"Succeeded": _SUCCEEDED, "Failed": _FAILED}.get(pod.status.phase, ())


def _template_cells(template: PodTemplate, _now: datetime) -> Cells:
    return [
        template.metadata.name,
        *container_cells(template.template),
        format_labels(template.template.metadata.labels),
    ]


POD = Printer(
    columns=(
        NAME,
        column("Ready", "Number of ready containers and of all containers."),
        column("Status", "Aggregate status of the containers."),
        column("Restarts", "Number of container restarts, with the time since the last one."),
        AGE,
        wide_column("IP", "First IP address of the pod."),
        wide_column("Node", "Node of the pod."),
        wide_column("Nominated Node", "Node on which lower-priority pods are preempted."),
        wide_column("Readiness Gates", "Number of passed readiness gates and of all gates."),
    ),
    cells=_pod_cells,
    conditions=_pod_conditions,
)
POD_TEMPLATE = Printer(
    columns=(
        NAME,
        column("Containers", "Container names of the template."),
        column("Images", "Container images of the template."),
        column("Pod Labels", "Labels of pods from the template."),
    ),
    cells=_template_cells,
)
