"""Handle for plugins: client, informers, nominator, waiting pods and callbacks besides the node arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kubeloop.api.kinds import Resource
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.metrics import MetricRegistry
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import SignatureCache
from kubeloop.scheduler.cycle.waiting_pods import WaitingPods
from kubeloop.scheduler.extenders.extender import Extenders
from kubeloop.scheduler.framework.plugin import PluginTimeLimit
from kubeloop.scheduler.queue.cluster_event import ActionType, ClusterEvent
from kubeloop.scheduler.queue.nominator import Nominator
from kubeloop.scheduler.status.reporter import Reporter

# Receives a cluster event of a resource: the event, the old object, the new object.
ClusterEventSink = Callable[[ClusterEvent, Any, Any], None]


@dataclass(frozen=True, slots=True)
class Handle:
    """Dependencies of the plugins; one instance is shared by all plugins of a process."""

    client: Client
    informers: SharedInformerFactory
    clock: Clock
    templates: SignatureCache
    nominations: Nominator
    tell: ClusterEventSink
    activate: Callable[[Iterable[ObjectKey]], None]
    reporter: Reporter
    permits: WaitingPods
    spawn: Callable[[Any], None]  # run a coroutine to its end in the background
    pods: Informer
    extenders: Extenders
    preempted: Callable[[int | None], None]  # records a preemption attempt (None) or its number of victims
    evicted: Callable[[str, float], None] = lambda _, __: None  # records the result and duration of an eviction
    followed: set[Resource] = field(default_factory=set)
    optional: set[Resource] = field(default_factory=set)  # may be missing on older servers; not waited for
    pace: PluginTimeLimit = field(default_factory=PluginTimeLimit)
    registry: MetricRegistry = field(default_factory=MetricRegistry)  # metrics registry
    shared: dict[Any, Any] = field(default_factory=dict)  # state shared by the plugins of all profiles

    def follow(self, resource: Resource, *, optional: bool = False) -> Informer:
        """Return the informer of a resource and report its changes to the queue as cluster events.

        With `optional`, the resource may be missing on older servers and the scheduler does not wait for its cache.
        """
        if optional:
            self.optional.add(resource)
        informer = self.informers.of(resource)
        if resource not in self.followed:
            self.followed.add(resource)
            informer.add_handler(_ClusterEventAdapter(resource.qualified, self.tell))
        return informer


class _ClusterEventAdapter:
    """Converts informer notifications of a resource into cluster events."""

    def __init__(self, resource: str, tell: ClusterEventSink) -> None:
        self._resource = resource
        self._tell = tell

    def on_add(self, obj: Any) -> None:
        """Report an Add event."""
        self._tell(ClusterEvent(self._resource, ActionType.ADD), None, obj)

    def on_update(self, old: Any, new: Any) -> None:
        """Report an Update event."""
        self._tell(ClusterEvent(self._resource, ActionType.UPDATE), old, new)

    def on_delete(self, obj: Any) -> None:
        """Report a Delete event."""
        self._tell(ClusterEvent(self._resource, ActionType.DELETE), obj, None)
