"""Entry of the scheduling queue: a pod and the record of its attempts."""

from __future__ import annotations

from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import PodInfo


class QueuedPodInfo:
    """Pod in the scheduling queue."""

    __slots__ = (
        "added_at", "attempts", "backoff_until", "errors", "first_active_at", "flushed", "flushed_at", "gate", "info",
        "pending", "place", "plugins", "refused", "tie", "tried_at", "urged",
    )  # fmt: skip

    def __init__(self, info: PodInfo, now: float) -> None:
        self.info = info
        self.added_at = now  # when it was added to the queue, or returned to it
        self.first_active_at: float | None = None  # when it first passed all PreEnqueue plugins
        self.tried_at = now  # start of the last attempt
        self.attempts = 0
        self.refused = 0  # attempts that ended unschedulable
        self.errors = 0  # consecutive attempts that ended with an error
        self.backoff_until: float | None = None
        self.plugins: frozenset[str] = frozenset()  # plugins that rejected it in the last attempt
        self.pending: frozenset[str] = frozenset()  # plugins that will activate it by an event
        self.gate = ""  # the PreEnqueue plugin that gates it
        self.place = ""  # the sub-queue that holds it
        self.tie = -1  # id of its current heap entry
        self.flushed = False  # the attempt follows from the unschedulable timeout, not from an event
        self.flushed_at = now  # when it was last moved by the unschedulable timeout
        self.urged = False  # activation was requested during the attempt

    @property
    def key(self) -> ObjectKey:
        """Key of the pod."""
        return self.info.key

    @property
    def rejectors(self) -> frozenset[str]:
        """Plugins that rejected the pod, including pending ones."""
        return self.plugins | self.pending
