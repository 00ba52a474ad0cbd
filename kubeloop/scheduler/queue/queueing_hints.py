"""Whether something that has happened may help a pod that was refused: its plugins are asked, nobody else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kubeloop.clock import Clock
from kubeloop.scheduler.framework.plugin import ANYTHING, Interest, Plugin
from kubeloop.scheduler.queue.cluster_event import NODE, TARGET_POD, About, Action
from kubeloop.scheduler.queue.queued_pod_info import QueuedPod

_OWN_STATUS = About(TARGET_POD, Action.UPDATE)

_Interests = Mapping[str, list[tuple[str, Interest]]]
# Told of each hint: the plugin, the event, what came of it, and how long it took.
Asked = Callable[[str, str, str, float], None]

log = logging.getLogger(__name__)


class Urgency(IntEnum):
    """When a pod is tried again."""

    NEVER = 0  # what has happened does not help
    LATER = 1  # after its backoff
    NOW = 2  # a plugin that had asked to wait says so


@dataclass(frozen=True, slots=True)
class Rules:
    """What the queue needs of a profile."""

    sort_key: Callable[[QueuedPod], Any]
    gates: Callable[[], Iterable[Plugin]]
    interests: Callable[[], _Interests]  # by resource, with the plugin's name


class Hints:
    """Asks plugins which refused a pod; remembers who cares for which kind of change."""

    def __init__(self, profiles: Mapping[str, Rules], clock: Clock, asked: Asked) -> None:
        self._profiles = profiles
        self._clock = clock
        self._asked = asked
        self._known: dict[tuple[str, About], tuple[_Interests, Sequence[tuple[str, Interest]]]] = {}

    def interested(self, about: About) -> frozenset[str]:
        """The plugins of all profiles that care for a kind of change."""
        return frozenset(plugin for profile in self._profiles for plugin, _ in self._of(profile, about))

    def reaches(self, queued: QueuedPod, about: About) -> bool:
        """A pod that is held back hears of nothing but what matters to whoever holds it."""
        if not queued.gate:
            return True
        profile = queued.info.pod.spec.scheduler_name
        return any(plugin == queued.gate for plugin, _ in self._of(profile, about))

    def urgency(self, queued: QueuedPod, about: About, old: Any, new: Any) -> Urgency:
        rejectors = queued.rejectors
        if not rejectors:  # nobody refused it: there was no node at all
            return Urgency.LATER if about.resource == NODE else Urgency.NEVER
        found = Urgency.NEVER
        for plugin, interest in self._of(queued.info.pod.spec.scheduler_name, about):
            if plugin not in rejectors or not self._helps(plugin, interest, queued, about, (old, new)):
                continue
            if plugin in queued.pending:
                return Urgency.NOW
            if not queued.pending:
                return Urgency.LATER
            found = Urgency.LATER  # one of those who wait may still ask for more
        return found

    def _helps(self, plugin: str, interest: Interest, queued: QueuedPod, about: About, change: tuple[Any, Any]) -> bool:
        """A hint that fails is no reason to leave the pod where it is."""
        began = self._clock.monotonic()
        result = "Queue"
        try:
            if interest.hint is not None and not interest.hint(queued.info, *change):
                result = "QueueSkip"
        except Exception:
            log.exception("%s can't tell whether %s helps %s", plugin, about.label, queued.key)
            result = "Error"
        self._asked(plugin, about.label, result, self._clock.monotonic() - began)
        return result != "QueueSkip"

    def _of(self, profile: str, about: About) -> Sequence[tuple[str, Interest]]:
        interests = self._profiles[profile].interests()
        known = self._known.get((profile, about))
        if known is None or known[0] is not interests:  # all plugins are made with the first node
            known = self._known[profile, about] = interests, _matching(interests, about)
        return known[1]


def _matching(interests: _Interests, about: About) -> list[tuple[str, Interest]]:
    # What a pod is told of itself is no news to it.
    others = [] if about == _OWN_STATUS else interests.get(ANYTHING, [])
    return [one for one in (*interests.get(about.resource, ()), *others) if about.action & one[1].actions]
