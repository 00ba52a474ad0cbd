"""Scheduler component run by a manager: pops pods from the queue, selects nodes, and starts the binding cycles.

Differs from upstream: all nodes are scored, regardless of percentageOfNodesToScore; a pod that found no node in an
empty cluster is tried again when a node is added, not on a timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.pods.pod import is_terminal
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.controller import UNSYNCED_AFTER, ControllerStatus, Health, Phase
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.scheduler.cache.event_handlers import NodeHandler, PodHandler
from kubeloop.scheduler.cache.pod_info import SignatureCache
from kubeloop.scheduler.config.configuration import SchedulerConfig, default_config
from kubeloop.scheduler.context import SchedulerContext
from kubeloop.scheduler.cycle.binding import BindingCycles
from kubeloop.scheduler.cycle.loop import SchedulingLoop
from kubeloop.scheduler.cycle.waiting_pods import WaitingPods
from kubeloop.scheduler.extenders.extender import Extenders
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.registry import PluginRegistry
from kubeloop.scheduler.framework.status import Code, Diagnosis, Status
from kubeloop.scheduler.queue.cluster_event import ClusterEvent
from kubeloop.scheduler.queue.nominator import Nominator
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.queueing_hints import QueueProfile
from kubeloop.scheduler.queue.scheduling_queue import QueueCallbacks, SchedulingQueue
from kubeloop.scheduler.status.metrics import EventHandlingTimer, SchedulerMetrics
from kubeloop.scheduler.status.reporter import ERROR, UNSCHEDULABLE, Reporter

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.algorithm import SchedulingAlgorithm
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle

NAME: Final = "kube-scheduler"
PODS: Final = resource_of_class(Pod)
NODES: Final = resource_of_class(Node)
_PLUGIN_TIME_LIMIT: Final = 0.02  # seconds of a plugin's synchronous work before it must yield to the event loop
_FLUSH_SECONDS: Final = 30.0  # interval of the check for pods that have been unschedulable for too long

log = logging.getLogger(__name__)


class Scheduler:
    """Scheduler of one process, with one or several profiles."""

    def __init__(
        self, context: SchedulerContext, config: SchedulerConfig | None = None, registry: PluginRegistry | None = None
    ) -> None:
        config = config or default_config()
        self.name = NAME
        self._clock, self._informers = context.clock, context.informers
        self._pods = context.informers.of(PODS)
        self._nodes = context.informers.of(NODES)
        self._woken = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._templates = SignatureCache()
        self._nominations = Nominator()
        self._engine: SchedulingAlgorithm | None = None
        self._phase: Phase = "not started"
        self._phase_since = self._clock.monotonic()
        self.is_draining = False
        self._drained = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()  # background writes
        self._recorders = {
            one.scheduler_name: EventRecorder(context.client, one.scheduler_name, context.clock, series=True)
            for one in config.profiles
        }
        self.instruments = SchedulerMetrics(context.telemetry.registry)
        self.permits = WaitingPods(self._clock, self.instruments.permitted)
        self.extenders = Extenders(config.extenders)
        self._bindings = BindingCycles(self, self._spawn)
        self._attempts = SchedulingLoop(self, self._clock)
        self.reporter = Reporter(context.client, context.clock, self._recorders, self._spawn)
        handle = self._handle = Handle(
            context.client, context.informers, context.clock, self._templates, self._nominations, self._tell,
            self._activate, self.reporter, self.permits, self._spawn, self._pods, self.extenders,
            self.instruments.preempted, self.instruments.evicted, registry=context.telemetry.registry,
        )  # fmt: skip
        plugins = registry or PluginRegistry()
        self.profiles = {one.scheduler_name: Profile(one, plugins, handle) for one in config.profiles}
        self.queue = SchedulingQueue(
            {name: self._rules(profile) for name, profile in self.profiles.items()},
            context.clock, config.patience,
            QueueCallbacks(self._woken.set, self.instruments.came, self.instruments.asked),
        )  # fmt: skip
        self.instruments.watch_queue(self.queue)
        self.instruments.watch_bindings(lambda: float(len(self._bindings)))
        self.instruments.watch_cache({name: partial(self._known, name) for name in ("nodes", "pods", "assumed_pods")})
        self._nodes.add_handler(NodeHandler(self))
        self._pods.add_handler(PodHandler(self))

    @property
    def bound(self) -> int:
        """Number of pods bound so far."""
        return self.instruments.bound

    # Interface for event handlers and plugins.

    @property
    def templates(self) -> SignatureCache:
        """Cache of pod signatures."""
        return self._templates

    @property
    def nominations(self) -> Nominator:
        """Nominator."""
        return self._nominations

    @property
    def engine(self) -> SchedulingAlgorithm | None:
        """Scheduling algorithm; None until the first node appears."""
        return self._engine

    def start_engine(self) -> SchedulingAlgorithm:
        """Load the algorithm and all plugins when the first node appears, and add the assigned pods to its cache."""
        if self._engine is None:
            from kubeloop.scheduler.cycle.algorithm import SchedulingAlgorithm

            self._engine = SchedulingAlgorithm(self._templates)
            for profile in self.profiles.values():
                profile.load()
            for pod in self._pods.list():
                if pod.spec.node_name and not is_terminal(pod):
                    self._engine.placements.put(pod)
        return self._engine

    def _known(self, what: str) -> float:
        return 0.0 if self._engine is None else float(self._engine.sizes()[what])

    def is_responsible(self, pod: Pod) -> bool:
        """Return True if one of the profiles has the pod's scheduler name."""
        return pod.spec.scheduler_name in self.profiles

    def _rules(self, profile: Profile) -> QueueProfile:
        return QueueProfile(
            lambda queued: profile.sorter.sort_key(queued),
            lambda: profile.gates,
            lambda: profile.early_interests if self._engine is None else profile.interests,
        )

    def _tell(self, about: ClusterEvent, old: Any, new: Any) -> None:
        with self.handling(about.label):
            self.queue.move(about, old, new)

    def handling(self, event: str) -> EventHandlingTimer:
        """Return a context manager that measures the handling of an event."""
        return EventHandlingTimer(self._clock, self.instruments, event)

    def _activate(self, keys: Any) -> None:
        self.queue.activate(keys)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._group is None:
            work.close()
            return
        task = self._group.create_task(self._contained(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _contained(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            self.instruments.errors += 1
            log.exception("work in the background failed")

    # Running.

    async def run(self) -> None:
        """Wait for the caches, then schedule until drained or cancelled."""
        try:
            self._enter("waiting for caches")
            await self._nodes.wait_synced()
            await self._pods.wait_synced()
            self._enter("running")
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._handle.pace.at_once = _PLUGIN_TIME_LIMIT
                background = [group.create_task(one.run()) for one in self._recorders.values()]
                background.append(group.create_task(self._flush_now_and_then()))
                try:
                    await self._work()
                    await self._drained.wait()  # events are written until then
                finally:
                    for one in background:
                        one.cancel()
        finally:
            self._group = None
            self._enter("ended")

    async def wait_synced(self) -> None:
        """Wait until all required caches are synced."""
        waited_for = [one for one in self._informers if not one.synced and one.resource not in self._handle.optional]
        for one in waited_for:
            await one.wait_synced()

    async def drain(self, grace: float) -> bool:
        """Take no more pods, finish the bindings and writes under way; return False if `grace` did not suffice.

        Pods that only wait for permits or PreBind are interrupted and scheduled anew later.
        """
        self.is_draining = True
        self._woken.set()
        self._bindings.interrupt()
        try:
            async with asyncio.timeout(grace):
                while self._background:
                    await asyncio.wait(self._background)
                await asyncio.gather(*(one.flush(grace) for one in self._recorders.values()))
        except TimeoutError:
            return False
        finally:
            self._drained.set()
        return True

    async def _work(self) -> None:
        while not self.is_draining:
            self._woken.clear()
            await self.wait_synced()  # plugins may have started more informers
            if await self._attempts.some():
                await asyncio.sleep(0)
                await self._bindings.room()
            else:
                await self._until_woken()

    async def _until_woken(self) -> None:
        deadline = self.queue.next_deadline()
        try:
            async with asyncio.timeout(None if deadline is None else max(deadline - self._clock.monotonic(), 0.0)):
                await self._woken.wait()
        except TimeoutError:
            self.queue.flush()

    async def _flush_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            if self.queue.has_waiting:
                self.queue.flush_unschedulable()

    # Results of the scheduling cycle.

    def conclude(
        self, engine: SchedulingAlgorithm, queued: QueuedPodInfo, cycle: SchedulingCycle, diagnosis: Diagnosis | None
    ) -> Status | None:
        """Start the binding cycle of a pod with a node; else run PostFilter and return the pod to the queue."""
        if diagnosis is not None:
            nominated = engine.make_room(cycle, diagnosis)
            self.instruments.attempted(cycle.profile.name, cycle.watch.spent, not nominated)
            refusal = Status(Code.UNSCHEDULABLE, (diagnosis.message,))
            self.fail(queued, refusal, diagnosis, nominated)
            return refusal
        waits = engine.reserve(cycle)
        self.instruments.attempted(cycle.profile.name, cycle.watch.spent, isinstance(waits, Status))
        if isinstance(waits, Status):
            self.fail_on_node(queued, waits)
            return waits
        self._nominations.drop(queued.info.uid)
        self._bindings.begin(queued, cycle, waits)
        return None

    # Results of the binding cycle.

    def release(self, cycle: SchedulingCycle) -> None:
        """Undo the reservation of a pod."""
        if self._engine is not None:
            self._engine.release(cycle)

    def has_bound(self, queued: QueuedPodInfo) -> None:
        """Record that a pod was bound."""
        self.instruments.scheduled(queued.info.pod.spec.scheduler_name, queued, self._clock.monotonic())

    def has_not_bound(self, queued: QueuedPodInfo, refusal: Status) -> None:
        """Record a failed binding and return the pod to the queue."""
        took = self._clock.monotonic() - queued.tried_at
        self.instruments.refused(queued.info.pod.spec.scheduler_name, refusal, took)
        self.fail_on_node(queued, refusal)

    # Failures.

    def fail_on_node(self, queued: QueuedPodInfo, refusal: Status) -> None:
        """Return a pod to the queue that was rejected after a node had been selected."""
        if not refusal.is_rejection:
            self.fail(queued, refusal, None, "")
            return
        diagnosis = Diagnosis(1, [(refusal, (0,))])
        diagnosis.note(refusal)
        self.fail(queued, Status(refusal.code, (diagnosis.message,)), diagnosis, "")

    def fail(self, queued: QueuedPodInfo, refusal: Status, diagnosis: Diagnosis | None, nominated: str | None) -> None:
        """Return a pod to the queue and report the reason, unless it is deleted or assigned by now."""
        info = queued.info
        current = self._pods.get(info.key.namespace, info.key.name)
        if current is None or current.metadata.uid != info.uid or current.spec.node_name:
            self.queue.done(info.uid)
            return
        if current is not info.pod:
            queued.info = info = self._templates.info(current)
        queued.plugins = frozenset(diagnosis.plugins) if diagnosis is not None else frozenset()
        queued.pending = frozenset(diagnosis.pending) if diagnosis is not None else frozenset()
        if nominated is not None:
            self._nominations.set(info, nominated)
        self.queue.put_back(queued, error=not refusal.is_rejection)
        reason = UNSCHEDULABLE if refusal.is_rejection else ERROR
        self.reporter.refused(current, reason, refusal.message, nominated)

    # Status.

    def health(self) -> Health:
        """Return unhealthy if the caches take too long to sync."""
        waited = self._clock.monotonic() - self._phase_since
        if self._phase == "waiting for caches" and waited > UNSYNCED_AFTER:
            return Health(False, f"waiting for {waited:.0f} s to list pods and nodes")
        return Health(True)

    def status(self) -> ControllerStatus:
        """Return the status of the scheduler as a controller."""
        ok, why = self.health()
        sizes, seen = self.queue.sizes(), self.instruments
        return ControllerStatus(
            name=self.name, phase=self._phase, healthy=ok, why=why, workers=1, active=len(self._bindings),
            depth=sizes["active"], delayed=sizes["backoff"], reconciles=seen.attempts, errors=seen.errors,
            busy_seconds=seen.busy_seconds, last_error=seen.last_error, last_error_key="",
        )  # fmt: skip

    def _enter(self, phase: Phase) -> None:
        self._phase, self._phase_since = phase, self._clock.monotonic()


def wire(context: SchedulerContext) -> Scheduler:
    """Return a scheduler with upstream's defaults."""
    return Scheduler(context)
