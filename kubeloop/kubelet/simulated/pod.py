# SPDX-License-Identifier: Apache-2.0
"""Simulated pod: its sandbox and the runs of its containers, also as reconstructed from a pod's status."""

from __future__ import annotations

from datetime import UTC, datetime

from kubeloop.api.generated.core_v1 import Container, ContainerStatus, Pod
from kubeloop.api.scalars.times import parse_time
from kubeloop.kubelet.simulated.process import SimulatedProcess
from kubeloop.kubelet.simulated.script import Script
from kubeloop.kubelet.simulated.stages import Stages
from kubeloop.kubelet.sync.containers import all_containers_of
from kubeloop.kubelet.sync.restart import RESTARTING_ALL

_EPOCH = datetime.fromtimestamp(0, UTC)
# Exit code and reason of containers whose node was stopped.
_NODE_STOPPED_EXIT = (255, "Unknown")


class SimulatedPod:
    """State of one pod."""

    __slots__ = ("addresses", "has_sandbox", "node", "processes")

    def __init__(self, node: str, addresses: tuple[str, ...] = ()) -> None:
        self.node = node
        self.addresses = addresses
        self.has_sandbox = bool(addresses)  # True if there is a sandbox
        self.processes: dict[str, list[SimulatedProcess]] = {}  # by container, newest first

    def start_sandbox(self, addresses: tuple[str, ...]) -> None:
        """Create the sandbox with its addresses."""
        self.addresses, self.has_sandbox = addresses, True

    def stop_sandbox(self) -> None:
        """Remove the sandbox with its addresses."""
        self.addresses, self.has_sandbox = (), False

    def halt(self, now: datetime) -> None:
        """End the sandbox and all processes, as the node is stopped; the addresses are kept."""
        self.has_sandbox = False
        for processes in self.processes.values():
            for process in processes:
                process.exit_at(now, *_NODE_STOPPED_EXIT)
                process.leave_sandbox()


def adopt_pod(pod: Pod, stages: Stages) -> SimulatedPod:
    """Reconstruct a pod that ran before this process from its status."""
    found = SimulatedPod(pod.spec.node_name, tuple(one.ip for one in pod.status.pod_ips))
    reported = (
        *pod.status.init_container_statuses,
        *pod.status.container_statuses,
        *pod.status.ephemeral_container_statuses,
    )
    statuses = {one.name: one for one in reported}
    for container in all_containers_of(pod):
        script = stages.script_for(pod, container)
        status = statuses.get(container.name)
        process = _adopt_run(container, status, script)
        if process is not None and status is not None:
            found.processes[container.name] = [process, *_adopt_previous_run(container, status)]
    return found


def _adopt_previous_run(container: Container, status: ContainerStatus) -> list[SimulatedProcess]:
    """Return the previous run, as far as the status shows it."""
    over = status.last_state.terminated
    if over is None or status.state.waiting is not None:
        return []
    began = parse_time(over.started_at) if over.started_at is not None else _EPOCH
    process = SimulatedProcess(container, status.restart_count - 1, over.container_id, status.image_id, began, None)
    process.exit_at(
        parse_time(over.finished_at) if over.finished_at is not None else began, over.exit_code, over.reason
    )
    if over.reason == RESTARTING_ALL:
        process.mark_reset()
    return [process]


def _adopt_run(container: Container, status: ContainerStatus | None, script: Script | None) -> SimulatedProcess | None:
    if status is None or not status.container_id:
        return None
    running, over = status.state.running, status.state.terminated or status.last_state.terminated
    began = running.started_at if running is not None else over.started_at if over is not None else None
    if began is None:
        return None
    process = SimulatedProcess(
        container, status.restart_count, status.container_id, status.image_id, parse_time(began), None
    )
    process.plan(script)
    process.adopt(status.resources)
    if running is None and over is not None:
        process.exit_at(parse_time(over.finished_at or began), over.exit_code, over.reason)
    return process
