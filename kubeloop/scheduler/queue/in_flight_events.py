"""Pods that are being tried, and what has happened since each was taken out: it may help those that are refused."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.queue.cluster_event import TARGET_POD, About
from kubeloop.scheduler.queue.queued_pod_info import QueuedPod


class Change(NamedTuple):
    """Something that has happened; `only` is the uid of the one pod that it is about, if it is about one."""

    number: int
    about: About
    old: Any
    new: Any
    only: str


class InFlight:
    """Always true: a change is kept as long as a pod is being tried that was taken out before it, and no longer."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[int, QueuedPod]] = {}  # by uid; the longest under way comes first
        self._changes: deque[Change] = deque()
        self._last = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def begin(self, queued: QueuedPod) -> None:
        self._pods[queued.info.uid] = self._last, queued

    def end(self, uid: str) -> None:
        """The pod is not tried any more; what only it could still have asked for is forgotten."""
        if self._pods.pop(uid, None) is None:
            return
        seen = next(iter(self._pods.values()))[0] if self._pods else self._last
        while self._changes and self._changes[0].number <= seen:
            self._changes.popleft()

    def remember(self, about: About, old: Any, new: Any) -> None:
        if self._pods:
            self._last += 1
            only = new.metadata.uid if about.resource == TARGET_POD else ""
            self._changes.append(Change(self._last, about, old, new, only))

    def since(self, uid: str) -> Iterator[Change]:
        """What has happened since a pod was taken out, unless it is about another one alone."""
        seen, _ = self._pods[uid]
        return (one for one in self._changes if one.number > seen and one.only in ("", uid))

    def find(self, key: ObjectKey) -> QueuedPod | None:
        return next((one for _, one in self._pods.values() if one.key == key), None)

    def sizes(self) -> Mapping[tuple[str, ...], float]:
        """How much is kept, by kind of change; and how many pods are being tried."""
        found = Counter((one.about.label,) for one in self._changes)
        found["PodPopped",] = len(self._pods)
        return {key: float(number) for key, number in found.items()}
