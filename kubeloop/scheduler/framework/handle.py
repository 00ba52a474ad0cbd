# SPDX-License-Identifier: Apache-2.0
"""Handle for plugins: client, informers, nominator, waiting pods and callbacks besides the node arrays."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kinds import Resource
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.app import LoopContext
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import SignatureCache
from kubeloop.scheduler.cycle.waiting_pods import WaitingPods
from kubeloop.scheduler.extenders.extender import Extenders
from kubeloop.scheduler.framework.plugin import PluginTimeLimit
from kubeloop.scheduler.podgroups.manager import PodGroupManager
from kubeloop.scheduler.queue.cluster_event import ActionType, ClusterEvent
from kubeloop.scheduler.queue.nominator import Nominator
from kubeloop.scheduler.status.reporter import Reporter

# Receives a cluster event of a resource: the event, the old object, the new object.
ClusterEventSink = Callable[[ClusterEvent, Any, Any], None]


class PreemptionMetrics(Protocol):
    """Metrics of preemption."""

    def count_preemption_attempt(self) -> None:
        """Count a preemption attempt."""

    def observe_preemption_evaluation(self, is_nominated: bool, seconds: float) -> None:
        """Observe the search for victims: if it found a node."""

    def observe_victims(self, victims: int, budget_violations: int) -> None:
        """Observe the number of victims, and count the violations of disruption budgets."""

    def observe_eviction(self, result: str, seconds: float) -> None:
        """Count an execution of a preemption and observe its duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedState:
    """State that plugins share with the scheduler."""

    signatures: SignatureCache
    nominator: Nominator
    waiting_pods: WaitingPods
    extenders: Extenders
    features: Features = DEFAULT_FEATURES
    pod_groups: PodGroupManager


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOutputs:
    """Receivers of what plugins report and start."""

    emit_event: ClusterEventSink
    activate: Callable[[Iterable[ObjectKey]], None]
    spawn: Callable[[Coroutine[Any, Any, None]], None]  # run a coroutine to its end in the background
    reporter: Reporter
    metrics: PreemptionMetrics


class Handle:
    """Dependencies of the plugins; one instance is shared by all plugins of a process."""

    def __init__(self, context: LoopContext, state: SharedState, outputs: PluginOutputs) -> None:
        self.client = context.client
        self.informers = context.informers
        self.clock = context.clock
        self.registry = context.telemetry.registry  # metrics registry
        self.pods = context.informers.for_resource(resource_of_class(Pod))
        self.signatures = state.signatures
        self.nominator = state.nominator
        self.waiting_pods = state.waiting_pods
        self.extenders = state.extenders
        self.features = state.features
        self.pod_groups = state.pod_groups
        self.activate = outputs.activate
        self.spawn = outputs.spawn
        self.reporter = outputs.reporter
        self.metrics = outputs.metrics
        self.optional_resources: set[Resource] = set()  # may be missing on older servers; not waited for
        self.plugin_time_limit = PluginTimeLimit()
        self.shared: dict[Any, Any] = {}  # state shared by the plugins of all profiles
        self._emit_event = outputs.emit_event
        self._watched_resources: set[Resource] = set()

    def watch_resource(self, resource: Resource, *, optional: bool = False) -> Informer:
        """Return the informer of a resource and report its changes to the queue as cluster events.

        With `optional`, the resource may be missing on older servers and the scheduler does not wait for its cache.
        """
        if optional:
            self.optional_resources.add(resource)
        informer = self.informers.for_resource(resource)
        if resource not in self._watched_resources:
            self._watched_resources.add(resource)
            informer.add_handler(_ClusterEventAdapter(resource.group_resource, self._emit_event))
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
