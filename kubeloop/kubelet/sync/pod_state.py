# SPDX-License-Identifier: Apache-2.0
"""State of a pod that the agent keeps between syncs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from kubeloop.api.generated.core_v1 import PodCondition, PodStatus
from kubeloop.api.meta.conditions import remove_condition
from kubeloop.api.scalars.wire import Time
from kubeloop.kubelet.admission.resize import PodAllocation, ResizeState
from kubeloop.kubelet.containers.probes import ProbeRecords
from kubeloop.kubelet.sync.restart import RestartBackOff


class PullBackOff(msgspec.Struct, frozen=True):
    """Back-off of an image that could not be pulled."""

    delay: float
    ends: datetime
    error: str  # the last error


class ContainerWaiting(msgspec.Struct, frozen=True):
    """Reason why a container that should run does not."""

    reason: str
    message: str
    until: datetime | None = None  # time of the next try
    since: datetime | None = None  # time of the last try
    pull_backoff: PullBackOff | None = None  # if its image is the reason


class RetryTime(msgspec.Struct, frozen=True):
    """Time of the next try, and its delay after the last one in seconds."""

    delay: float
    at: datetime


class UnmountedVolumes(msgspec.Struct, frozen=True):
    """Volumes that prevent a pod from starting."""

    retries: Mapping[str, RetryTime]  # volumes that are polled, by name

    @property
    def next_retry(self) -> datetime | None:
        """Time of the next try; None if there is none."""
        return min((one.at for one in self.retries.values()), default=None)


class PreStopHookRun(msgspec.Struct, frozen=True):
    """preStop hook of a run, which may have been started more than once."""

    run: str
    reported_failures: int = 0


class TerminationReason(msgspec.Struct, frozen=True):
    """Reason for failing a pod regardless of its containers."""

    reason: str
    message: str
    rejected: bool = False  # it never ran, and no container statuses are reported
    disruption: str = ""  # reason of the DisruptionTarget condition, if one is set
    disruption_message: str = ""  # message of that condition, if different
    grace_period_seconds: float | None = None  # overrides the pod's grace period


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a pod; immutable, replaced on change."""

    reported_status: PodStatus  # status that the agent last wrote or read
    synced_resource_version: str = ""  # resourceVersion of the pod last seen with that status
    first_seen: Time  # when a kubelet first saw the pod: its startTime
    backoffs: Mapping[str, RestartBackOff] = msgspec.field(default_factory=dict)
    waiting_containers: Mapping[str, ContainerWaiting] = msgspec.field(default_factory=dict)
    probes: ProbeRecords = msgspec.field(default_factory=dict)
    allocation: PodAllocation | None = None  # resources allocated on the node; None if not admitted
    resize: ResizeState = ResizeState()
    termination_reason: TerminationReason | None = None
    unmounted_volumes: UnmountedVolumes | None = None
    volumes_mounted: bool = False  # all volumes were mounted
    stop_grace_period_seconds: float | None = (
        None  # grace period last given to its containers, if they are being stopped
    )
    stop_requested_at: datetime | None = None  # time at which the containers were stopped
    pending_start_events: Mapping[str, str] = msgspec.field(
        default_factory=dict
    )  # runs whose start event is pending, by container
    stop_hooks: Mapping[str, PreStopHookRun] = msgspec.field(default_factory=dict)  # started hooks, by container
    deleted: bool = False  # the final delete was sent


def with_unknown_readiness(status: PodStatus) -> PodStatus:
    """Return a status with an unknown Ready condition, as another client may have changed it."""
    others = remove_condition(status.conditions, "Ready")
    unlike = PodCondition(type="Ready", status="Unknown", reason="Doubted", message="Doubted")
    return msgspec.structs.replace(status, conditions=(*others, unlike))
