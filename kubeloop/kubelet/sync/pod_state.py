"""What the agent remembers of a pod between two looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from kubeloop.api.generated.core_v1 import PodCondition, PodStatus
from kubeloop.api.meta.conditions import remove_condition
from kubeloop.api.scalars.wire import Time
from kubeloop.kubelet.admission.resize import Allocation, Resize
from kubeloop.kubelet.containers.probes import ProbeRecords
from kubeloop.kubelet.sync.restart import BackOff


class PullBackOff(msgspec.Struct, frozen=True):
    """How long an image isn't tried again that could not be pulled."""

    delay: float
    ends: datetime
    error: str  # the last one


class Waiting(msgspec.Struct, frozen=True):
    """Why a container that should run doesn't."""

    reason: str
    message: str
    until: datetime | None = None  # when it is tried again
    since: datetime | None = None  # when it was last tried
    pull: PullBackOff | None = None  # if its image is why


class Retry(msgspec.Struct, frozen=True):
    """When something is tried again, and how long that is after the last time."""

    delay: float
    at: datetime


class Unmounted(msgspec.Struct, frozen=True):
    """A pod can't begin for want of volumes."""

    retries: Mapping[str, Retry]  # of those that are asked for again, by volume

    @property
    def until(self) -> datetime | None:
        return min((one.at for one in self.retries.values()), default=None)


class StopHook(msgspec.Struct, frozen=True):
    """The preStop hook of a run, which may have been begun more than once."""

    run: str
    failures_told: int = 0


class Verdict(msgspec.Struct, frozen=True):
    """Why a pod has to fail whatever its containers say."""

    reason: str
    message: str
    rejected: bool = False  # it never ran, and nothing of it is reported
    disruption: str = ""  # the reason of a DisruptionTarget condition that goes with it
    disruption_message: str = ""  # of that, if not the same
    grace: float | None = None  # in place of the pod's own


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """All of it; replaced, never changed."""

    reported: PodStatus  # the status as the agent last wrote or found it
    agreed: str = ""  # the pod's revision that was last found or left with that status
    met_at: Time  # when a kubelet first saw the pod: its start time
    backoffs: Mapping[str, BackOff] = msgspec.field(default_factory=dict)
    waiting: Mapping[str, Waiting] = msgspec.field(default_factory=dict)
    probes: ProbeRecords = msgspec.field(default_factory=dict)
    allocation: Allocation | None = None  # what the pod was given of its node; None if it wasn't taken
    resize: Resize = Resize()
    verdict: Verdict | None = None
    unmounted: Unmounted | None = None
    mounted: bool = False  # all its volumes were there
    grace: float | None = None  # what its containers were last told that they have, if they were told to end
    told_at: datetime | None = None  # when that was
    starting: Mapping[str, str] = msgspec.field(default_factory=dict)  # runs to be told of once they run, by container
    stop_hooks: Mapping[str, StopHook] = msgspec.field(default_factory=dict)  # begun, by container
    deleted: bool = False  # the last delete was sent: nothing more to do


def doubted(status: PodStatus) -> PodStatus:
    """A status as somebody else may have left it: whatever it says of readiness isn't to be relied on."""
    others = remove_condition(status.conditions, "Ready")
    unlike = PodCondition(type="Ready", status="Unknown", reason="Doubted", message="Doubted")
    return msgspec.structs.replace(status, conditions=(*others, unlike))
