"""What a plugin can reach besides the nodes: the cluster's other objects, who writes, who waits."""

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

# Told of a plain change of some resource: the event, what was, what is.
Tell = Callable[[About, Any, Any], None]


@dataclass(frozen=True, slots=True)
class Handle:
    """A plugin's surroundings; one for all plugins of a process."""

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
    preempted: Callable[[int | None], None]  # told that room is looked for; and how many pods end for that
    evicted: Callable[[str, float], None] = lambda _, __: None  # told what came of ending them, and how long it took
    followed: set[Resource] = field(default_factory=set)
    optional: set[Resource] = field(default_factory=set)  # what older servers do not have, and nobody waits for
    pace: Pace = field(default_factory=Pace)
    registry: Registry = field(default_factory=Registry)  # of what is counted
    shared: dict[Any, Any] = field(default_factory=dict)  # what the plugins of all profiles have in common

    def follow(self, resource: Resource, *, optional: bool = False) -> Informer:
        """The cache of a resource; its changes may help pods that plugins refused."""
        if optional:
            self.optional.add(resource)
        informer = self.informers.of(resource)
        if resource not in self.followed:
            self.followed.add(resource)
            informer.add_handler(_Teller(resource.qualified, self.tell))
        return informer


class _Teller:
    """Turns changes of a resource into words that plugins can be interested in."""

    def __init__(self, resource: str, tell: Tell) -> None:
        self._resource = resource
        self._tell = tell

    def on_add(self, obj: Any) -> None:
        self._tell(About(self._resource, Action.ADD), None, obj)

    def on_update(self, old: Any, new: Any) -> None:
        self._tell(About(self._resource, Action.UPDATE), old, new)

    def on_delete(self, obj: Any) -> None:
        self._tell(About(self._resource, Action.DELETE), obj, None)
