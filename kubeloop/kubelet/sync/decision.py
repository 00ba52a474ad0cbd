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
    grace: float
    after_failed_hook: bool = False  # because its postStart hook failed

    @property
    def hook(self) -> LifecycleHandler | None:
        """preStop hook to be run; None without a grace period."""
        lifecycle = self.container.lifecycle
        return lifecycle.pre_stop if lifecycle is not None and self.grace else None


class PodSyncActions(msgspec.Struct, kw_only=True):
    """Actions to perform now, and the time of the next sync."""

    prepare: bool = False
    begin_anew: bool = False  # restart all containers in the present sandbox
    starts: list[Container] = msgspec.field(default_factory=list)
    kills: list[ContainerKill] = msgspec.field(default_factory=list)
    probes: list[DueProbe] = msgspec.field(default_factory=list)
    warnings: list[ContainerKill] = msgspec.field(
        default_factory=list
    )  # preStop hooks of containers that are stopped later
    resizes: list[Container] = msgspec.field(default_factory=list)
    backing_off: dict[str, ContainerWaiting] = msgspec.field(default_factory=dict)
    wake_at: datetime | None = None
    verdict: TerminationReason | None = None  # a new termination reason
    grace: float | None = None  # grace period given to the containers if all are stopped
    ended: bool = False  # nothing runs or will run again

    @property
    def acts(self) -> bool:
        """True if there is anything to do."""
        return (
            self.prepare
            or self.begin_anew
            or bool(self.starts or self.kills or self.probes or self.resizes or self.warnings)
        )

    def wake(self, moment: datetime | None) -> None:
        """Request a sync at this time at the latest."""
        if moment is not None and (self.wake_at is None or moment < self.wake_at):
            self.wake_at = moment
