# SPDX-License-Identifier: Apache-2.0
"""Results of a pod group's scheduling cycle: of each pod, each group, and of PodGroupPostFilter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.framework.status import Code, Diagnosis, Status
from kubeloop.scheduler.podgroups.group_key import PodGroupKey
from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo

if TYPE_CHECKING:
    from kubeloop.scheduler.cache.cluster import ClusterState
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle
    from kubeloop.scheduler.podgroups.simulation import Simulation

GROUP_UNSCHEDULABLE: Final = "pod group is unschedulable"


@dataclass(slots=True)
class PodResult:
    """Result for one pod; its status is None if a node was found, which the scheduling cycle then names."""

    queued: QueuedPodInfo
    status: Status | None = None
    cycle: SchedulingCycle | None = None
    diagnosis: Diagnosis | None = None
    nominated: str | None = None  # node to nominate, "" for none; None leaves the nomination unchanged
    seconds: float = 0.0

    @property
    def node(self) -> str:
        """Name of the node that was found, or empty."""
        return self.cycle.node if self.cycle is not None and self.status is None else ""

    def nominate(self, node: str) -> None:
        """Set the node to nominate."""
        self.nominated = node

    def set_duration(self, seconds: float) -> None:
        """Set the time that the decision took."""
        self.seconds = seconds


@dataclass(slots=True)
class PodGroupResult:
    """Result for one group; its status is None if the group can be scheduled, with all its pods that have a node."""

    info: PodGroupInfo
    status: Status | None = None
    pods: list[PodResult] = field(default_factory=list)
    any_scheduled: bool = False
    waiting_on_preemption: bool = False

    def set_status(self, status: Status | None) -> None:
        """Set the status."""
        self.status = status

    def set_any_scheduled(self, any_scheduled: bool) -> None:
        """Set whether any pod has a node by this cycle."""
        self.any_scheduled = any_scheduled

    def wait_on_preemption(self, nominations: Mapping[ObjectKey, str]) -> None:
        """Record that victims were found, with the nodes nominated for the pods."""
        self.waiting_on_preemption = True
        for one in self.pods:
            if one.queued.key in nominations:
                one.nominate(nominations[one.queued.key])

    def append_reason(self, reason: str) -> None:
        """Append a reason to a status other than success."""
        if self.status is not None and reason:
            self.status = Status(self.status.code, (*self.status.reasons, reason), self.status.plugin)


PodGroupResults = dict[PodGroupKey, PodGroupResult]


class PodGroupPostFilterResult(NamedTuple):
    """Result of PodGroupPostFilter that found victims: the nominated nodes by pod, and a message."""

    nominations: Mapping[ObjectKey, str]
    message: str
    victims: int = 0  # pods to evict
    disrupted_groups: int = 0  # evicted groups, or single pods of groups


class PodGroupTrial(Protocol):
    """Trial of a group on a cluster that a PodGroupPostFilter plugin changes meanwhile."""

    cluster: ClusterState
    simulation: Simulation

    async def run(self) -> tuple[list[PodResult], Status | None]:
        """Return the pods that would have a node, and the status of the topmost group; nothing stays assumed."""


def group_unschedulable(*reasons: str) -> Status:
    """Return the status of a group that cannot be scheduled."""
    return Status(Code.UNSCHEDULABLE, (GROUP_UNSCHEDULABLE, *reasons))


def error_of(status: Status) -> str:
    """Return the error of a status: that a group is unschedulable, or else its message."""
    return GROUP_UNSCHEDULABLE if status.reasons[:1] == (GROUP_UNSCHEDULABLE,) else status.message


def placed_pods(info: PodGroupInfo, results: Mapping[PodGroupKey, PodGroupResult]) -> list[PodResult]:
    """Return the pods with a node, of pod groups that succeeded together with all groups above them."""
    result = results.get(info.key)
    if result is None or result.status is not None:
        return []
    below = [pod for child in info.children for pod in placed_pods(child, results)]
    return below + [pod for pod in result.pods if pod.node]


def complete_results(info: PodGroupInfo, results: PodGroupResults, parent: PodGroupResult | None = None) -> None:
    """Add what was not evaluated: groups get the status of a failed parent, pods that of their group."""
    result = results.get(info.key)
    if result is None or (parent is not None and parent.status is not None and result.status is None):
        result = results[info.key] = PodGroupResult(info, None if parent is None else parent.status)
    for queued in info.pods[len(result.pods) :]:
        result.pods.append(PodResult(queued, result.status))
    for child in info.children:
        complete_results(child, results, result)
