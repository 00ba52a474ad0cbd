# SPDX-License-Identifier: Apache-2.0
"""Components of a scheduler, built from its context and configuration; each takes its collaborators on construction.

The queue asks the plugins of the profiles, and plugins report cluster events to the queue: the queue is built first,
and the profiles are added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.generated.scheduling_v1alpha3 import CompositePodGroup
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.app import LoopContext
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.scheduler.background_tasks import BackgroundTasks
from kubeloop.scheduler.cache.pod_info import SignatureCache
from kubeloop.scheduler.config.configuration import SchedulerConfig
from kubeloop.scheduler.cycle.attempts import SchedulingAttempts
from kubeloop.scheduler.cycle.bind_plugins import BindPluginRunner
from kubeloop.scheduler.cycle.binding import BindingCycles
from kubeloop.scheduler.cycle.binding_results import BindingResults
from kubeloop.scheduler.cycle.failure_handler import FailureHandler
from kubeloop.scheduler.cycle.lazy_algorithm import LazyAlgorithm
from kubeloop.scheduler.cycle.loop import SchedulingLoop
from kubeloop.scheduler.cycle.results import SchedulingResults
from kubeloop.scheduler.cycle.skipped_pods import SkippedPods
from kubeloop.scheduler.cycle.waiting_pods import WaitingPods
from kubeloop.scheduler.event_handlers.assigned_pods import AssignedPodHandler
from kubeloop.scheduler.event_handlers.handlers import ClusterEventHandler, EventTimer, NodeHandler, PodHandler
from kubeloop.scheduler.event_handlers.unscheduled_pods import UnscheduledPodHandler
from kubeloop.scheduler.extenders.extender import Extenders
from kubeloop.scheduler.framework.handle import Handle, PluginOutputs, SharedState
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.registry import PluginRegistry
from kubeloop.scheduler.podgroups.algorithm import PodGroupAlgorithm
from kubeloop.scheduler.podgroups.conditions import PodGroupConditions
from kubeloop.scheduler.podgroups.cycle import PodGroupCycle
from kubeloop.scheduler.podgroups.event_handlers import (
    PodGroupHandler,
    PodGroupMemberHandler,
    unscheduled_pod_events,
)
from kubeloop.scheduler.podgroups.manager import PodGroupManager
from kubeloop.scheduler.podgroups.metrics import PodGroupMetrics
from kubeloop.scheduler.podgroups.submission import PodGroupSubmission, SubmissionTargets
from kubeloop.scheduler.queue.nominator import Nominator
from kubeloop.scheduler.queue.pod_group_queue import PodGroupQueue
from kubeloop.scheduler.queue.queueing_hints import QueueProfile
from kubeloop.scheduler.queue.scheduling_queue import QueueCallbacks, SchedulingQueue
from kubeloop.scheduler.status.metrics import EventHandlingTimer, SchedulerMetrics
from kubeloop.scheduler.status.reporter import Reporter

NAME: Final = "kube-scheduler"
PODS: Final = resource_of_class(Pod)
NODES: Final = resource_of_class(Node)
POD_GROUPS: Final = resource_of_class(PodGroup)
COMPOSITE_POD_GROUPS: Final = resource_of_class(CompositePodGroup)
_WORKLOADS: Final = "GenericWorkload"
_COMPOSITES: Final = "CompositePodGroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupServices:
    """Services for pod groups."""

    queue: PodGroupQueue
    conditions: PodGroupConditions
    metrics: PodGroupMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerServices:
    """Services that the other components of a scheduler share."""

    context: LoopContext
    metrics: SchedulerMetrics
    tasks: BackgroundTasks
    recorders: Mapping[str, EventRecorder]  # by scheduler name
    reporter: Reporter
    state: SharedState
    queue: SchedulingQueue
    groups: PodGroupServices | None  # with the feature gate GenericWorkload

    @property
    def time_event(self) -> EventTimer:
        """Function that measures the handling of events."""
        return partial(EventHandlingTimer, self.context.clock, self.metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerComponents:
    """Components that a scheduler runs."""

    services: SchedulerServices
    handle: Handle
    profiles: Mapping[str, Profile]
    algorithm: LazyAlgorithm
    bindings: BindingCycles
    loop: SchedulingLoop


def build_components(
    context: LoopContext, config: SchedulerConfig, registry: PluginRegistry, wake: Callable[[], None]
) -> SchedulerComponents:
    """Return the components, with the event handlers of pods and nodes added to the informers."""
    services = _build_services(context, config, wake)
    handle = _build_handle(services)
    profiles = {one.scheduler_name: Profile(one, registry, handle) for one in config.profiles}
    listener = services.state.pod_groups if services.groups is not None else None
    algorithm = LazyAlgorithm(services.state.signatures, profiles, handle.pods, listener)
    for name, profile in profiles.items():
        services.queue.add_profile(name, _queue_profile(profile, algorithm))
    failures = FailureHandler(
        handle.pods, services.state.signatures, services.state.nominator, services.queue, services.reporter
    )
    bindings = _build_bindings(services, algorithm, failures)
    attempts = SchedulingAttempts(
        algorithm,
        profiles,
        services.state.extenders,
        SchedulingResults(services.state.nominator, bindings, failures, services.metrics, context.clock),
    )
    skipped = SkippedPods(algorithm, services.queue, services.reporter)
    cycle = None
    if services.groups is not None:
        targets = SubmissionTargets(
            algorithm=algorithm,
            nominator=services.state.nominator,
            bindings=bindings,
            failures=failures,
            conditions=services.groups.conditions,
            metrics=services.metrics,
        )
        group_algorithm = PodGroupAlgorithm(algorithm, services.state, services.groups.metrics, context.clock)
        cycle = PodGroupCycle(group_algorithm, profiles, services.groups.queue, skipped, PodGroupSubmission(targets))
    has_extenders = bool(services.state.extenders)
    loop = SchedulingLoop(services.queue, attempts, skipped, cycle, has_extenders=has_extenders)
    _register_gauges(services, algorithm, bindings)
    _add_event_handlers(services, handle, algorithm, profiles)
    return SchedulerComponents(
        services=services, handle=handle, profiles=profiles, algorithm=algorithm, bindings=bindings, loop=loop
    )


def _build_services(context: LoopContext, config: SchedulerConfig, wake: Callable[[], None]) -> SchedulerServices:
    client, clock, metrics = context.client, context.clock, SchedulerMetrics(context.telemetry.registry)
    names = [one.scheduler_name for one in config.profiles]
    recorders = {name: EventRecorder(client, name, clock, series=True) for name in names}
    tasks = BackgroundTasks(metrics.count_background_error)
    state = SharedState(
        signatures=SignatureCache(),
        nominator=Nominator(),
        waiting_pods=WaitingPods(clock, metrics.observe_permit_wait),
        extenders=Extenders(config.extenders),
        features=config.features,
        pod_groups=PodGroupManager(has_composites=config.features.is_enabled(_COMPOSITES)),
    )
    callbacks = QueueCallbacks(wake, metrics.count_incoming, metrics.observe_queueing_hint)
    groups = None
    if config.features.is_enabled(_WORKLOADS):
        groups = PodGroupServices(
            queue=PodGroupQueue(clock, config.queue_timeouts, callbacks, state.pod_groups),
            conditions=PodGroupConditions(client, clock, tasks.spawn),
            metrics=PodGroupMetrics(context.telemetry.registry, metrics, config.features),
        )
    return SchedulerServices(
        context=context,
        metrics=metrics,
        tasks=tasks,
        recorders=recorders,
        reporter=Reporter(client, clock, recorders, tasks.spawn),
        state=state,
        queue=SchedulingQueue(clock, config.queue_timeouts, callbacks) if groups is None else groups.queue,
        groups=groups,
    )


def _build_handle(services: SchedulerServices) -> Handle:
    outputs = PluginOutputs(
        emit_event=ClusterEventHandler(services.queue, services.time_event).handle,
        activate=services.queue.activate,
        spawn=services.tasks.spawn,
        reporter=services.reporter,
        metrics=services.metrics,
    )
    return Handle(services.context, services.state, outputs)


def _queue_profile(profile: Profile, algorithm: LazyAlgorithm) -> QueueProfile:
    return QueueProfile(
        lambda queued: profile.queue_sort_plugin.sort_key(queued),
        lambda: profile.pre_enqueue_plugins,
        lambda: profile.pre_enqueue_events_by_resource if algorithm.current is None else profile.events_by_resource,
    )


def _build_bindings(services: SchedulerServices, algorithm: LazyAlgorithm, failures: FailureHandler) -> BindingCycles:
    queue, state, reporter, metrics = services.queue, services.state, services.reporter, services.metrics
    plugins = BindPluginRunner(queue, state.waiting_pods, state.extenders, reporter, metrics)
    results = BindingResults(algorithm, queue, failures, reporter, metrics)
    return BindingCycles(NAME, plugins, results, services.tasks.spawn)


def _register_gauges(services: SchedulerServices, algorithm: LazyAlgorithm, bindings: BindingCycles) -> None:
    services.metrics.register_queue_gauges(services.queue)
    services.metrics.register_binding_gauge(lambda: float(len(bindings)))
    services.metrics.register_cache_gauges(
        {name: partial(algorithm.cache_size, name) for name in ("nodes", "pods", "assumed_pods")}
    )


def _add_event_handlers(
    services: SchedulerServices, handle: Handle, algorithm: LazyAlgorithm, profiles: Mapping[str, Profile]
) -> None:
    informers, queue, state, time_event = (
        services.context.informers,
        services.queue,
        services.state,
        services.time_event,
    )
    informers.for_resource(NODES).add_handler(NodeHandler(algorithm, queue, time_event))
    unscheduled = UnscheduledPodHandler(algorithm, queue, state.signatures, state.nominator, state.waiting_pods)
    handler = PodHandler(AssignedPodHandler(algorithm, queue), unscheduled, profiles, time_event)
    if services.groups is None:
        informers.for_resource(PODS).add_handler(handler)
        return
    group_handler = PodGroupHandler(state.pod_groups, services.groups.queue, services.groups.conditions, time_event)
    for resource in (POD_GROUPS, COMPOSITE_POD_GROUPS) if state.features.is_enabled(_COMPOSITES) else (POD_GROUPS,):
        handle.optional_resources.add(resource)  # pods of groups wait for them, others do not
        informers.for_resource(resource).add_handler(group_handler)
    informers.for_resource(PODS).add_handler(PodGroupMemberHandler(state.pod_groups, profiles))
    informers.for_resource(PODS).add_handler(handler)
    informers.for_resource(PODS).add_handler(unscheduled_pod_events(services.groups.queue, profiles))
