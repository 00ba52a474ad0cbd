"""What the agent may do about a pod, and when it wants to look again."""

from __future__ import annotations

from datetime import datetime

import msgspec

from kubeloop.api.generated.core_v1 import Container, LifecycleHandler
from kubeloop.kubelet.containers.probes import DueProbe
from kubeloop.kubelet.sync.pod_state import Verdict, Waiting


class Kill(msgspec.Struct, frozen=True):
    """A container to be ended."""

    container: Container
    message: str
    grace: float
    after_failed_hook: bool = False  # its postStart hook is why

    @property
    def hook(self) -> LifecycleHandler | None:
        lifecycle = self.container.lifecycle
        return lifecycle.pre_stop if lifecycle is not None and self.grace else None


class Decision(msgspec.Struct, kw_only=True):
    """What to do now, and when to look again."""

    prepare: bool = False
    begin_anew: bool = False  # all containers, in the sandbox that there is
    starts: list[Container] = msgspec.field(default_factory=list)
    kills: list[Kill] = msgspec.field(default_factory=list)
    probes: list[DueProbe] = msgspec.field(default_factory=list)
    warnings: list[Kill] = msgspec.field(default_factory=list)  # of containers that end later
    resizes: list[Container] = msgspec.field(default_factory=list)
    backing_off: dict[str, Waiting] = msgspec.field(default_factory=dict)
    wake_at: datetime | None = None
    verdict: Verdict | None = None  # a new one
    grace: float | None = None  # what containers are told that they have, if all are told to end
    ended: bool = False  # nothing runs, and nothing will again

    @property
    def acts(self) -> bool:
        return (
            self.prepare
            or self.begin_anew
            or bool(self.starts or self.kills or self.probes or self.resizes or self.warnings)
        )

    def wake(self, moment: datetime | None) -> None:
        if moment is not None and (self.wake_at is None or moment < self.wake_at):
            self.wake_at = moment
