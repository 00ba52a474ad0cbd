"""A pod that waits for a node, with what is remembered of its attempts."""

from __future__ import annotations

from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import PodInfo


class QueuedPod:
    """One entry of the queue."""

    __slots__ = (
        "added_at", "attempts", "backoff_until", "errors", "first_active_at", "flushed", "flushed_at", "gate", "info",
        "pending", "place", "plugins", "refused", "tie", "tried_at", "urged",
    )  # fmt: skip

    def __init__(self, info: PodInfo, now: float) -> None:
        self.info = info
        self.added_at = now  # to the queue, or back to it
        self.first_active_at: float | None = None  # when nobody held it back any more
        self.tried_at = now  # last
        self.attempts = 0
        self.refused = 0  # attempts that ended with no node
        self.errors = 0  # attempts in a row that ended with an error
        self.backoff_until: float | None = None
        self.plugins: frozenset[str] = frozenset()  # who refused it last
        self.pending: frozenset[str] = frozenset()  # who will say when to try it again
        self.gate = ""  # the plugin that does not even let it be tried
        self.place = ""  # which part of the queue it is in
        self.tie = -1  # of its entry in a heap
        self.flushed = False  # it is tried only because it has waited for so long
        self.flushed_at = now  # when it was last looked at for that
        self.urged = False  # somebody wants it tried again at once, while it is being tried

    @property
    def key(self) -> ObjectKey:
        return self.info.key

    @property
    def rejectors(self) -> frozenset[str]:
        return self.plugins | self.pending
