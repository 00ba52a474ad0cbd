# SPDX-License-Identifier: Apache-2.0
"""Actions of one pod sync, and the time of the next one."""

from __future__ import annotations

from datetime import datetime

import msgspec

from kubeloop.api.generated.core_v1 import Container, LifecycleHandler
from kubeloop.kubelet.containers.probes import DueProbe
from kubeloop.kubelet.sync.pod_state import ContainerWaiting, TerminationReason


class ContainerKill(msgspec.Struct, frozen=True):
    """Container to be killed."""

    container: Container
    message: str
    grace_period_seconds: float
    after_failed_hook: bool = False  # because its postStart hook failed

    @property
    def pre_stop_hook(self) -> LifecycleHandler | None:
        """preStop hook to be run; None without a grace period."""
        lifecycle = self.container.lifecycle
        return lifecycle.pre_stop if lifecycle is not None and self.grace_period_seconds else None


class PodSyncActions(msgspec.Struct, kw_only=True):
    """Actions to perform now, and the time of the next sync."""

    create_sandbox: bool = False
    restart_all_containers: bool = False  # restart all containers in the present sandbox
    containers_to_start: list[Container] = msgspec.field(default_factory=list)
    containers_to_kill: list[ContainerKill] = msgspec.field(default_factory=list)
    probes_to_run: list[DueProbe] = msgspec.field(default_factory=list)
    pre_stop_hooks_to_start: list[ContainerKill] = msgspec.field(
        default_factory=list
    )  # preStop hooks of containers that are stopped later
    containers_to_update: list[Container] = msgspec.field(default_factory=list)
    resize_pod: bool = False  # change the resources of the pod as a whole
    backing_off: dict[str, ContainerWaiting] = msgspec.field(default_factory=dict)
    wake_at: datetime | None = None
    termination_reason: TerminationReason | None = None  # a new termination reason
    grace_period_seconds: float | None = None  # grace period given to the containers if all are stopped
    is_terminated: bool = False  # nothing runs or will run again

    @property
    def has_actions(self) -> bool:
        """True if there is anything to do."""
        return (
            self.create_sandbox
            or self.restart_all_containers
            or self.resize_pod
            or bool(
                self.containers_to_start
                or self.containers_to_kill
                or self.probes_to_run
                or self.containers_to_update
                or self.pre_stop_hooks_to_start
            )
        )

    def take_probes(self) -> list[DueProbe]:
        """Remove and return the probes, which are run beside the sync."""
        probes, self.probes_to_run = self.probes_to_run, []
        return probes

    def request_sandbox(self) -> None:
        """Create a sandbox."""
        self.create_sandbox = True

    def request_restart(self) -> None:
        """Restart all containers in the present sandbox."""
        self.restart_all_containers = True

    def request_pod_resize(self) -> None:
        """Change the resources of the pod as a whole."""
        self.resize_pod = True

    def terminate_for(self, reason: TerminationReason) -> None:
        """Terminate the pod for a new reason."""
        self.termination_reason = reason

    def stop_container(self, kill: ContainerKill) -> None:
        """Kill a container as a step of the pod's termination."""
        self.containers_to_kill.append(kill)
        self.grace_period_seconds = kill.grace_period_seconds

    def mark_terminated(self) -> None:
        """Record that nothing runs or will run again."""
        self.is_terminated = True

    def wake_by(self, moment: datetime | None) -> None:
        """Request a sync at this time at the latest."""
        if moment is not None and (self.wake_at is None or moment < self.wake_at):
            self.wake_at = moment
