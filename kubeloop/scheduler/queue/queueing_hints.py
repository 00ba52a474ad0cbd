"""Queueing hints: decides if a cluster event requeues an unschedulable pod, by asking the plugins that rejected it."""

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
# Called after each hint with the plugin, the event label, the result and the duration.
Asked = Callable[[str, str, str, float], None]

log = logging.getLogger(__name__)


class Urgency(IntEnum):
    """Queueing strategy for an unschedulable pod after a cluster event."""

    NEVER = 0  # the event does not help
    LATER = 1  # queue after the pod's backoff
    NOW = 2  # queue immediately: a pending plugin reports its event


@dataclass(frozen=True, slots=True)
class Rules:
    """Parts of a profile that the queue needs."""

    sort_key: Callable[[QueuedPod], Any]
    gates: Callable[[], Iterable[Plugin]]
    interests: Callable[[], _Interests]  # registered events by resource, with the plugin's name


class Hints:
    """Runs queueing hints; caches the plugins registered for each kind of cluster event."""

    def __init__(self, profiles: Mapping[str, Rules], clock: Clock, asked: Asked) -> None:
        self._profiles = profiles
        self._clock = clock
        self._asked = asked
        self._known: dict[tuple[str, About], tuple[_Interests, Sequence[tuple[str, Interest]]]] = {}

    def interested(self, about: About) -> frozenset[str]:
        """Return the plugins of all profiles that are registered for an event."""
        return frozenset(plugin for profile in self._profiles for plugin, _ in self._of(profile, about))

    def reaches(self, queued: QueuedPod, about: About) -> bool:
        """Return True unless the pod is gated by a plugin that is not registered for the event."""
        if not queued.gate:
            return True
        profile = queued.info.pod.spec.scheduler_name
        return any(plugin == queued.gate for plugin, _ in self._of(profile, about))

    def urgency(self, queued: QueuedPod, about: About, old: Any, new: Any) -> Urgency:
        """Return the queueing strategy for a pod after an event, from the hints of its rejector plugins."""
        rejectors = queued.rejectors
        if not rejectors:  # no plugin rejected it: there was no node at all
            return Urgency.LATER if about.resource == NODE else Urgency.NEVER
        found = Urgency.NEVER
        for plugin, interest in self._of(queued.info.pod.spec.scheduler_name, about):
            if plugin not in rejectors or not self._helps(plugin, interest, queued, about, (old, new)):
                continue
            if plugin in queued.pending:
                return Urgency.NOW
            if not queued.pending:
                return Urgency.LATER
            found = Urgency.LATER  # a pending plugin may still ask for immediate queueing
        return found

    def _helps(self, plugin: str, interest: Interest, queued: QueuedPod, about: About, change: tuple[Any, Any]) -> bool:
        """Return True unless the hint says skip; a hint that raises counts as Queue."""
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
        if known is None or known[0] is not interests:  # more plugins come with the first node
            known = self._known[profile, about] = interests, _matching(interests, about)
        return known[1]


def _matching(interests: _Interests, about: About) -> list[tuple[str, Interest]]:
    # A plain update of the pod itself (its status) requeues it only by an explicit registration.
    others = [] if about == _OWN_STATUS else interests.get(ANYTHING, [])
    return [one for one in (*interests.get(about.resource, ()), *others) if about.action & one[1].actions]
