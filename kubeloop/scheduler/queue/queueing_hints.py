# SPDX-License-Identifier: Apache-2.0
"""Queueing hints: decides if a cluster event requeues an unschedulable pod, by asking the plugins that rejected it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kubeloop.clock import Clock
from kubeloop.scheduler.framework.plugin import WILDCARD, ClusterEventWithHint, Plugin
from kubeloop.scheduler.queue.cluster_event import NODE, TARGET_POD, ActionType, ClusterEvent
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo

_POD_STATUS_UPDATE = ClusterEvent(TARGET_POD, ActionType.UPDATE)

_Interests = Mapping[str, list[tuple[str, ClusterEventWithHint]]]
# Called after each hint with the plugin, the event label, the result and the duration.
HintObserver = Callable[[str, str, str, float], None]

log = logging.getLogger(__name__)


class QueueingStrategy(IntEnum):
    """Queueing strategy for an unschedulable pod after a cluster event."""

    SKIP = 0  # the event does not help
    AFTER_BACKOFF = 1  # queue after the pod's backoff
    IMMEDIATELY = 2  # queue immediately: a pending plugin reports its event


@dataclass(frozen=True, slots=True)
class QueueProfile:
    """Parts of a profile that the queue needs."""

    sort_key: Callable[[QueuedPodInfo], Any]
    pre_enqueue_plugins: Callable[[], Iterable[Plugin]]
    events_by_resource: Callable[[], _Interests]  # registered events by resource, with the plugin's name


class HintIndex:
    """Runs queueing hints; caches the plugins registered for each kind of cluster event."""

    def __init__(self, profiles: Mapping[str, QueueProfile], clock: Clock, asked: HintObserver) -> None:
        self._profiles = profiles
        self._clock = clock
        self._asked = asked
        self._known: dict[tuple[str, ClusterEvent], tuple[_Interests, Sequence[tuple[str, ClusterEventWithHint]]]] = {}

    def plugins_for_event(self, about: ClusterEvent) -> frozenset[str]:
        """Return the plugins of all profiles that are registered for an event."""
        return frozenset(plugin for profile in self._profiles for plugin, _ in self._of(profile, about))

    def can_wake(self, queued: QueuedPodInfo, about: ClusterEvent) -> bool:
        """Return True unless the pod is gated by a plugin that is not registered for the event."""
        if not queued.gating_plugin:
            return True
        profile = queued.info.pod.spec.scheduler_name
        return any(plugin == queued.gating_plugin for plugin, _ in self._of(profile, about))

    def requeue_strategy(self, queued: QueuedPodInfo, about: ClusterEvent, old: Any, new: Any) -> QueueingStrategy:
        """Return the queueing strategy for a pod after an event, from the hints of its rejector plugins."""
        rejectors = queued.rejector_plugins
        if not rejectors:  # no plugin rejected it: there was no node at all
            return QueueingStrategy.AFTER_BACKOFF if about.resource == NODE else QueueingStrategy.SKIP
        found = QueueingStrategy.SKIP
        for plugin, interest in self._of(queued.info.pod.spec.scheduler_name, about):
            if plugin not in rejectors or not self._helps(plugin, interest, queued, about, (old, new)):
                continue
            if plugin in queued.pending_plugins:
                return QueueingStrategy.IMMEDIATELY
            if not queued.pending_plugins:
                return QueueingStrategy.AFTER_BACKOFF
            found = QueueingStrategy.AFTER_BACKOFF  # a pending plugin may still ask for immediate queueing
        return found

    def _helps(
        self,
        plugin: str,
        interest: ClusterEventWithHint,
        queued: QueuedPodInfo,
        about: ClusterEvent,
        change: tuple[Any, Any],
    ) -> bool:
        """Return True unless the hint says skip; a hint that raises counts as Queue."""
        began = self._clock.monotonic()
        result = "Queue"
        try:
            if interest.queueing_hint_fn is not None and not interest.queueing_hint_fn(queued.info, *change):
                result = "QueueSkip"
        except Exception:
            log.exception("queueing hint of %s failed for event %s and pod %s", plugin, about.label, queued.key)
            result = "Error"
        self._asked(plugin, about.label, result, self._clock.monotonic() - began)
        return result != "QueueSkip"

    def _of(self, profile: str, about: ClusterEvent) -> Sequence[tuple[str, ClusterEventWithHint]]:
        interests = self._profiles[profile].events_by_resource()
        known = self._known.get((profile, about))
        if known is None or known[0] is not interests:  # more plugins come with the first node
            known = self._known[profile, about] = interests, _matching(interests, about)
        return known[1]


def _matching(interests: _Interests, about: ClusterEvent) -> list[tuple[str, ClusterEventWithHint]]:
    # A plain update of the pod itself (its status) requeues it only by an explicit registration.
    others = [] if about == _POD_STATUS_UPDATE else interests.get(WILDCARD, [])
    return [one for one in (*interests.get(about.resource, ()), *others) if about.action_type & one[1].actions]
