"""What a plugin can be asked, at each of upstream's extension points; a plugin overrides what it has an opinion on.

queue sort ─ pre-enqueue ─▶ pre-filter ─ filter ─ (post-filter) ─ pre-score ─ score ─ normalize ─▶ reserve ─ permit
                                                                          ─▶ pre-bind ─ bind ─ post-bind

`filter` and `score` get rows of the cluster's arrays and answer for all of them at once. Of a plugin that is `local`
the answers are kept for all pods of a template, and asked again only for nodes that have changed: after each pod that
is one row, and where only pods have changed on it, only of plugins that `follows_pods`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from kubeloop.scheduler.framework.status import Code, Narrowed, Refusal
from kubeloop.scheduler.queue.cluster_event import Action

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kubeloop.api.generated.core_v1 import Node
    from kubeloop.scheduler.cache.cluster import ClusterState, Rows
    from kubeloop.scheduler.cache.pod_info import PodInfo, Template
    from kubeloop.scheduler.cycle.scheduling_cycle import Cycle
    from kubeloop.scheduler.framework.handle import Handle
    from kubeloop.scheduler.framework.status import Diagnosis
    from kubeloop.scheduler.queue.queued_pod_info import QueuedPod

MAX_SCORE: Final = 100

# Given the refused pod and what a change made of what; whether it may help the pod.
Hint = Callable[["PodInfo", Any, Any], bool]


ANYTHING: Final = "anything"  # in place of a resource


class Interest(NamedTuple):
    """A kind of change that may help pods which the plugin refused; without a hint it always may."""

    resource: str
    actions: Action
    hint: Hint | None = None


class Skip:
    """A plugin that has nothing to do with a pod."""


SKIP: Final = Skip()


class Nominated(NamedTuple):
    """What came of trying to make room: a node to wait for, "" for none; None leaves things as they are."""

    node: str | None
    message: str = ""


class Wait(NamedTuple):
    """A permit that is to be given within so many seconds."""

    seconds: float


@dataclass(slots=True)
class Pace:
    """How long a plugin may take before others have their turn, in seconds; a scheduler that runs sets it."""

    at_once: float = math.inf


class TakesTime(Exception):
    """A plugin can't tell soon enough. What is left to be done, given who tells that it is not needed any more.

    That is done in another thread, and then the pod is tried again; the plugin should know the answer by then.
    """

    def __init__(self, work: Callable[[Callable[[], bool]], None]) -> None:
        super().__init__("it takes too long to tell at once")
        self.work = work


# What `prefilter` and `prescore` may answer: a state for later, or that there is nothing to do, or why not.
Prepared = Any


class Plugin:
    """The base of all plugins; one is made for each profile."""

    name: ClassVar[str]
    local: ClassVar[bool] = True
    follows_pods: ClassVar[bool] = True  # of local ones: whether the pods on a node matter, or only the node itself
    costly: ClassVar[bool] = False  # of others: asked only about nodes that nobody before it refuses
    # What the numbers of `filter` mean: 1 is the first of these.
    refusals: ClassVar[tuple[Refusal, ...]] = ()

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        self.handle = handle

    # The queue.

    def sort_key(self, queued: QueuedPod) -> Any:
        """Pods with a smaller key come first."""
        raise NotImplementedError

    def pre_enqueue(self, pod: PodInfo) -> Refusal | None:
        """Why a pod should not even be tried yet."""
        return None

    def interests(self) -> Sequence[Interest]:
        """Which changes may help pods that this plugin refused; unless it says so, every change may."""
        return (Interest(ANYTHING, Action.ANYTHING),)

    # Which nodes.

    def concerns(self, template: Template) -> bool:
        """For plugins that are not local: whether pods of a template can be their business at all."""
        return True

    def stamp(self, cluster: ClusterState) -> int:
        """For local plugins: what `prefilter` and `prescore` have seen besides the template, as a number."""
        return 0

    def prefilter(self, pod: PodInfo, cluster: ClusterState) -> Prepared | Skip | Refusal | Narrowed:
        """What `filter` is given as its state."""
        return None

    def filter(self, state: Any, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """0 for each node that will do, else the number of the reason why not."""
        raise NotImplementedError

    def filter_row(self, state: Any, cluster: ClusterState, row: int) -> int:
        """The same for one node; worth its own code where this is asked after every pod."""
        return int(self.filter(state, cluster, _row(row))[0])

    def refusal(self, state: Any, number: int) -> Refusal:
        return self.refusals[number - 1]

    def remedy(self, pod: PodInfo, node: Node) -> str:
        """What would make a node do that this plugin refuses, in a line for people."""
        return ""

    async def consult(self, cycle: Cycle, diagnosis: Diagnosis) -> None:
        """Where there are extenders: ask them what `post_filter` needs to know of them."""

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> Nominated | Refusal | None:
        """Try to make room for a pod that fits nowhere."""
        return None

    # Which of them.

    def prescore(self, pod: PodInfo, cluster: ClusterState) -> Prepared | Skip:
        """What `score` is given as its state."""
        return None

    def score(self, state: Any, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """How much each node is liked."""
        raise NotImplementedError

    def score_row(self, state: Any, cluster: ClusterState, row: int) -> int:
        """The same for one node."""
        return int(self.score(state, cluster, _row(row))[0])

    def normalize(self, state: Any, scores: NDArray[np.int64], cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Scores of the nodes that will do, brought to 0 … 100."""
        raise NotImplementedError

    # The decision.

    def reserve(self, cycle: Cycle, node: str) -> Refusal | None:
        """Take what the pod needs, in memory."""
        return None

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Give it back; also called if `reserve` never was."""

    def permit(self, cycle: Cycle, node: str) -> Refusal | Wait | None:
        """Whether the pod may be bound now, or later."""
        return None

    def will_pre_bind(self, cycle: Cycle, node: str) -> bool:
        """Whether `pre_bind` has something to do, which may take its time; people are told the node meanwhile."""
        return True

    async def pre_bind(self, cycle: Cycle, node: str) -> Refusal | None:
        """Write what has to be there before the pod starts."""
        return None

    async def bind(self, cycle: Cycle, node: str) -> Refusal | bool:
        """Bind the pod; False leaves it to the next plugin."""
        raise NotImplementedError

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """Hear of a pod that was bound."""


def _row(row: int) -> NDArray[np.intp]:
    import numpy as np

    return np.array([row], np.intp)


# Extension points by their names in the configuration, and the method that stands for each.
POINTS: Final = {
    "queueSort": "sort_key",
    "preEnqueue": "pre_enqueue",
    "preFilter": "prefilter",
    "filter": "filter",
    "postFilter": "post_filter",
    "preScore": "prescore",
    "score": "score",
    "reserve": "reserve",
    "permit": "permit",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
}


def implements(kind: type[Plugin], method: str) -> bool:
    """Whether a plugin has an opinion of its own at an extension point."""
    return getattr(kind, method) is not getattr(Plugin, method)


def unschedulable(plugin: str, *reasons: str) -> Refusal:
    return Refusal(Code.UNSCHEDULABLE, reasons, plugin)


def unresolvable(plugin: str, *reasons: str) -> Refusal:
    return Refusal(Code.UNRESOLVABLE, reasons, plugin)


def failed(plugin: str, error: BaseException | str) -> Refusal:
    return Refusal(Code.ERROR, (str(error),), plugin)


def running(point: str, refusal: Refusal) -> Refusal:
    """A plugin's answer; of an error people are told where it happened."""
    if refusal.is_rejection:
        return refusal
    return failed(refusal.plugin, f'running {point} plugin "{refusal.plugin}": {refusal.message}')
