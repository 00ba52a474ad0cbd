"""Handle for plugins: client, informers, nominator, waiting pods and callbacks besides the node arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kubeloop.api.kinds import Resource
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.runtime.informer.informer import Informer, Informers
from kubeloop.runtime.metrics import Registry
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import Templates
from kubeloop.scheduler.cycle.waiting_pods import Permits
from kubeloop.scheduler.extenders.extender import Extenders
from kubeloop.scheduler.framework.plugin import Pace
from kubeloop.scheduler.queue.cluster_event import About, Action
from kubeloop.scheduler.queue.nominator import Nominations
from kubeloop.scheduler.status.reporter import Reporter

# Receives a cluster event of a resource: the event, the old object, the new object.
Tell = Callable[[About, Any, Any], None]


@dataclass(frozen=True, slots=True)
class Handle:
    """Dependencies of the plugins; one instance is shared by all plugins of a process."""

    client: Client
    informers: Informers
    clock: Clock
    templates: Templates
    nominations: Nominations
    tell: Tell
    activate: Callable[[Iterable[ObjectKey]], None]
    reporter: Reporter
    permits: Permits
    spawn: Callable[[Any], None]  # run a coroutine to its end in the background
    pods: Informer
    extenders: Extenders
    preempted: Callable[[int | None], None]  # records a preemption attempt (None) or its number of victims
    evicted: Callable[[str, float], None] = lambda _, __: None  # records the result and duration of an eviction
    followed: set[Resource] = field(default_factory=set)
    optional: set[Resource] = field(default_factory=set)  # may be missing on older servers; not waited for
    pace: Pace = field(default_factory=Pace)
    registry: Registry = field(default_factory=Registry)  # metrics registry
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
            informer.add_handler(_Teller(resource.qualified, self.tell))
        return informer


class _Teller:
    """Converts informer notifications of a resource into cluster events."""

    def __init__(self, resource: str, tell: Tell) -> None:
        self._resource = resource
        self._tell = tell

    def on_add(self, obj: Any) -> None:
        """Report an Add event."""
        self._tell(About(self._resource, Action.ADD), None, obj)

    def on_update(self, old: Any, new: Any) -> None:
        """Report an Update event."""
        self._tell(About(self._resource, Action.UPDATE), old, new)

    def on_delete(self, obj: Any) -> None:
        """Report a Delete event."""
        self._tell(About(self._resource, Action.DELETE), obj, None)
