# SPDX-License-Identifier: Apache-2.0
"""Plugin base class with one method per extension point of upstream's scheduler framework.

queue sort ─ pre-enqueue ─▶ pre-filter ─ filter ─ (post-filter) ─ pre-score ─ score ─ normalize ─▶ reserve ─ permit
                                        ─▶ pre-bind ─ bind ─ post-bind
pod groups: placement-generate ─ (for each placement) placement-feasible ─ placement-score ─ (pod-group-post-filter)

`filter` and `score` receive rows of the cluster's arrays and return results for all of them at once. The results
of a `local` plugin are cached for all pods of a signature and recomputed only for changed nodes: after each pod that
is one row, and if only pods have changed on the node, only for plugins with `follows_pods`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from kubeloop.scheduler.framework.status import Code, PreFilterResult, Status
from kubeloop.scheduler.queue.cluster_event import ActionType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kubeloop.api.generated.core_v1 import Node
    from kubeloop.scheduler.cache.cluster import ClusterState, Rows
    from kubeloop.scheduler.cache.pod_info import PodInfo, PodSignature
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle
    from kubeloop.scheduler.framework.handle import Handle
    from kubeloop.scheduler.framework.placement import Placement, PlacementProgress
    from kubeloop.scheduler.framework.status import Diagnosis
    from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo
    from kubeloop.scheduler.podgroups.result import PodGroupPostFilterResult, PodGroupTrial
    from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo

MAX_SCORE: Final = 100

# Called with the rejected pod, the old and the new object; True if the change may help the pod.
QueueingHintFn = Callable[["PodInfo", Any, Any], bool]


WILDCARD: Final = "anything"  # wildcard in place of a resource


class ClusterEventWithHint(NamedTuple):
    """Cluster event that may make pods rejected by the plugin schedulable; without a hint it always may."""

    resource: str
    actions: ActionType
    queueing_hint_fn: QueueingHintFn | None = None


class Skip:
    """Result of a plugin that has nothing to do for a pod."""


SKIP: Final = Skip()


class PostFilterResult(NamedTuple):
    """Result of PostFilter: the nominated node, "" for none; None leaves the nomination unchanged."""

    nominated_node_name: str | None
    message: str = ""


class PermitWait(NamedTuple):
    """Result of Permit that delays binding for at most this number of seconds."""

    timeout_seconds: float


@dataclass(slots=True)
class PluginTimeLimit:
    """Limit of a plugin's synchronous work in seconds; set by a running scheduler."""

    seconds: float = math.inf

    def set_limit(self, seconds: float) -> None:
        """Set the limit."""
        self.seconds = seconds


class PluginTimeLimitExceeded(Exception):
    """Raised by a plugin that cannot answer within its time limit; carries the remaining work.

    The work runs in another thread and receives a callable that returns True once the result is not needed any more.
    Then the pod is tried again; the plugin should know the answer by then.
    """

    def __init__(self, work: Callable[[Callable[[], bool]], None]) -> None:
        super().__init__("it is too expensive to evaluate synchronously")
        self.work = work


# Result of pre-filter and pre-score: a state for later, SKIP, or a rejection.
PluginState = Any


class Plugin:
    """Base class of all plugins; each profile has its own instances."""

    name: ClassVar[str]
    is_node_local: ClassVar[bool] = True
    depends_on_pods: ClassVar[bool] = True  # local plugins only: results depend on the node's pods, too
    is_expensive: ClassVar[bool] = False  # other plugins: evaluated only for nodes that no earlier plugin rejects
    # Meaning of the numbers that `filter` returns: 1 is the first of these.
    filter_statuses: ClassVar[tuple[Status, ...]] = ()

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        self.handle = handle

    # Queueing.

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        """Return the sort key of a queued pod; pods with a smaller key are scheduled first."""
        raise NotImplementedError

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Return a status that keeps the pod out of the active queue; None to admit it."""
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the cluster events that may help pods rejected by this plugin; by default all events."""
        return (ClusterEventWithHint(WILDCARD, ActionType.ALL),)

    # Filtering.

    def applies_to(self, template: PodSignature) -> bool:
        """Return True if pods of the signature can be relevant to this plugin (for plugins that are not local)."""
        return True

    def state_version(self, cluster: ClusterState) -> int:
        """Return a version of the state that pre-filter and pre-score read besides the signature (local plugins)."""
        return 0

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> PluginState | Skip | Status | PreFilterResult:
        """Return the state for `filter`, SKIP, a rejection, or a restriction to some nodes."""
        return None

    def filter(self, state: Any, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return 0 for each feasible node, else the number of the rejection."""
        raise NotImplementedError

    def filter_row(self, state: Any, cluster: ClusterState, row: int) -> int:
        """Return the result of `filter` for one node; override it as a fast path, as it runs after every pod."""
        return int(self.filter(state, cluster, _row(row))[0])

    def filter_status(self, state: Any, number: int) -> Status:
        """Return the status for a number that `filter` returned."""
        return self.filter_statuses[number - 1]

    def describe_remedy(self, pod: PodInfo, node: Node) -> str:
        """Return a line of text about what would make a node feasible that this plugin rejects."""
        return ""

    async def query_extenders(self, cycle: SchedulingCycle, diagnosis: Diagnosis) -> None:
        """Query the extenders, if there are any, for what `post_filter` needs to know."""

    def post_filter(self, cycle: SchedulingCycle, diagnosis: Diagnosis) -> PostFilterResult | Status | None:
        """Try to make a pod schedulable that fits on no node, e.g. by preemption."""
        return None

    # Scoring.

    def pre_score(self, pod: PodInfo, cluster: ClusterState) -> PluginState | Skip:
        """Return the state for `score`, or SKIP."""
        return None

    def score(self, state: Any, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Return the score of each node."""
        raise NotImplementedError

    def score_row(self, state: Any, cluster: ClusterState, row: int) -> int:
        """Return the score of one node."""
        return int(self.score(state, cluster, _row(row))[0])

    def normalize_score(
        self, state: Any, scores: NDArray[np.int64], cluster: ClusterState, rows: Rows
    ) -> NDArray[np.int64]:
        """Scale the scores of the feasible nodes to 0…100."""
        raise NotImplementedError

    # Pod groups.

    def placement_feasible(self, group: PodGroupInfo, progress: PlacementProgress) -> Status | None:
        """Return Wait or Unschedulable while a group lacks members with a place; None if it may be scheduled."""
        return None

    def generate_placements(
        self, group: PodGroupInfo, parent: Placement, cluster: ClusterState
    ) -> Sequence[Placement] | Status:
        """Return the sets of nodes, out of a given set, on which the group may be placed."""
        return (parent,)

    def score_placement(self, group: PodGroupInfo, placed: int) -> int:
        """Return the score of a placement on which a number of the group's pods would be placed."""
        raise NotImplementedError

    def normalize_placement_score(self, group: PodGroupInfo, scores: Sequence[int]) -> Sequence[int]:
        """Scale the scores of all placements to 0…100."""
        return scores

    async def pod_group_post_filter(
        self, group: PodGroupInfo, trial: PodGroupTrial
    ) -> PodGroupPostFilterResult | Status | None:
        """Try to make a group schedulable that cannot be placed, e.g. by preemption."""
        return None

    # Reserving and binding.

    def reserve(self, cycle: SchedulingCycle, node: str) -> Status | None:
        """Reserve in memory what the pod needs on the node."""
        return None

    def unreserve(self, cycle: SchedulingCycle, node: str) -> None:
        """Release the reservation; also called if `reserve` was not."""

    def permit(self, cycle: SchedulingCycle, node: str) -> Status | PermitWait | None:
        """Allow, reject or delay the binding of the pod."""
        return None

    def pre_bind_pre_flight(self, cycle: SchedulingCycle, node: str) -> bool:
        """Return True if `pre_bind` has work that may take long; the node is then nominated in the status meanwhile."""
        return True

    async def pre_bind(self, cycle: SchedulingCycle, node: str) -> Status | None:
        """Write the objects that must exist before the pod is bound."""
        return None

    async def bind(self, cycle: SchedulingCycle, node: str) -> Status | bool:
        """Bind the pod; return False to leave it to the next plugin."""
        raise NotImplementedError

    def post_bind(self, cycle: SchedulingCycle, node: str) -> None:
        """Handle the notification that a pod was bound."""


def _row(row: int) -> NDArray[np.intp]:
    import numpy as np

    return np.array([row], np.intp)


# Extension points by their names in the configuration, with the method of each.
EXTENSION_POINTS: Final = {
    "queueSort": "sort_key",
    "preEnqueue": "pre_enqueue",
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "preScore": "pre_score",
    "score": "score",
    "reserve": "reserve",
    "permit": "permit",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
    "placementGenerate": "generate_placements",
    "placementScore": "score_placement",
    "podGroupPostFilter": "pod_group_post_filter",
}


def implements(kind: type[Plugin], method: str) -> bool:
    """Return True if a plugin class overrides the method of an extension point."""
    return getattr(kind, method) is not getattr(Plugin, method)


def unschedulable_status(plugin: str, *reasons: str) -> Status:
    """Return a status Unschedulable of a plugin."""
    return Status(Code.UNSCHEDULABLE, reasons, plugin)


def unresolvable_status(plugin: str, *reasons: str) -> Status:
    """Return a status UnschedulableAndUnresolvable of a plugin."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, plugin)


def error_status(plugin: str, error: BaseException | str) -> Status:
    """Return a status Error of a plugin."""
    return Status(Code.ERROR, (str(error),), plugin)


def wrap_plugin_error(point: str, refusal: Status) -> Status:
    """Return a plugin's status; an error is wrapped with the name of the extension point and the plugin."""
    if refusal.is_rejected:
        return refusal
    return error_status(refusal.plugin, f'running {point} plugin "{refusal.plugin}": {refusal.message}')
