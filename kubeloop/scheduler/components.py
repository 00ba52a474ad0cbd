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
from kubeloop.scheduler.cycle.waiting_pods import WaitingPods
from kubeloop.scheduler.event_handlers.assigned_pods import AssignedPodHandler
from kubeloop.scheduler.event_handlers.handlers import ClusterEventHandler, EventTimer, NodeHandler, PodHandler
from kubeloop.scheduler.event_handlers.unscheduled_pods import UnscheduledPodHandler
from kubeloop.scheduler.extenders.extender import Extenders
from kubeloop.scheduler.framework.handle import Handle, PluginOutputs, SharedState
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.registry import PluginRegistry
from kubeloop.scheduler.queue.nominator import Nominator
from kubeloop.scheduler.queue.queueing_hints import QueueProfile
from kubeloop.scheduler.queue.scheduling_queue import QueueCallbacks, SchedulingQueue
from kubeloop.scheduler.status.metrics import EventHandlingTimer, SchedulerMetrics
from kubeloop.scheduler.status.reporter import Reporter

NAME: Final = "kube-scheduler"
PODS: Final = resource_of_class(Pod)
NODES: Final = resource_of_class(Node)


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
    algorithm = LazyAlgorithm(services.state.signatures, profiles, handle.pods)
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
    has_extenders = bool(services.state.extenders)
    loop = SchedulingLoop(services.queue, algorithm, attempts, services.reporter, has_extenders=has_extenders)
    _register_gauges(services, algorithm, bindings)
    _add_event_handlers(services, algorithm, profiles)
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
    )
    callbacks = QueueCallbacks(wake, metrics.count_incoming_pod, metrics.observe_queueing_hint)
    return SchedulerServices(
        context=context,
        metrics=metrics,
        tasks=tasks,
        recorders=recorders,
        reporter=Reporter(client, clock, recorders, tasks.spawn),
        state=state,
        queue=SchedulingQueue(clock, config.queue_timeouts, callbacks),
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


def _add_event_handlers(services: SchedulerServices, algorithm: LazyAlgorithm, profiles: Mapping[str, Profile]) -> None:
    informers, queue, state, time_event = (
        services.context.informers,
        services.queue,
        services.state,
        services.time_event,
    )
    informers.for_resource(NODES).add_handler(NodeHandler(algorithm, queue, time_event))
    unscheduled = UnscheduledPodHandler(algorithm, queue, state.signatures, state.nominator, state.waiting_pods)
    handler = PodHandler(AssignedPodHandler(algorithm, queue), unscheduled, profiles, time_event)
    informers.for_resource(PODS).add_handler(handler)
