# SPDX-License-Identifier: Apache-2.0
"""Pod syncer: performs the actions of a decision by the runtime, and updates the pod's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.clock import Clock
from kubeloop.kubelet.admission.resize import RESIZE_ERROR_RETRY_SECONDS, resize_event_message
from kubeloop.kubelet.agent_metrics import NodeAgentMetrics
from kubeloop.kubelet.containers import image_pulls, probes
from kubeloop.kubelet.containers.env_sources import CONFIG_ERROR, EnvSources
from kubeloop.kubelet.containers.environment import sub_path_error
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.runtime import ContainerStartError, PodObservation, PodResizeError, ProbeResult, Runtime
from kubeloop.kubelet.sync.compute_pod_actions import compute_pod_actions
from kubeloop.kubelet.sync.containers import find_container
from kubeloop.kubelet.sync.pod_actions import PodSyncActions
from kubeloop.kubelet.sync.pod_state import ContainerWaiting, PodState, PreStopHookRun
from kubeloop.kubelet.sync.restart import INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, next_backoff

if TYPE_CHECKING:
    from kubeloop.kubelet.containers.probe_workers import ProbeWorkers

# Limit of steps per sync; a pod with more containers continues in its next turn.
_MAX_STEPS = 100
StopHooks = Mapping[str, PreStopHookRun]


class SyncOptions(NamedTuple):
    """Options of the syncer of a node."""

    max_restart_seconds: float = MAX_BACKOFF_SECONDS
    probe_workers: ProbeWorkers | None = None  # of a real node; without them a sync waits for its probes


class PodSyncer:
    """Syncs pods by one runtime."""

    def __init__(
        self,
        runtime: Runtime,
        events: PodEvents,
        clock: Clock,
        sources: EnvSources,
        metrics: NodeAgentMetrics,
        options: SyncOptions | None = None,
    ) -> None:
        self._max_restart_seconds, self._probe_workers = options or SyncOptions()
        self._metrics = metrics
        self._runtime = runtime
        self._sources = sources
        self._events = events
        self._clock = clock

    async def sync_pod(self, pod: Pod, memory: PodState) -> tuple[PodSyncActions, PodObservation, PodState]:
        """Perform all actions possible now; return the last decision, the observation and the new state."""
        for _ in range(_MAX_STEPS):
            seen, now = await self._runtime.get_pod_status(pod), self._clock.now()
            if memory.pending_start_events:
                memory = self._record_pending_starts(pod, seen, memory)
            if memory.stop_hooks:
                memory = self._record_failed_stop_hooks(pod, seen, memory)
            if self._probe_workers is not None:
                memory = self._take_probe_results(pod, seen, memory, self._probe_workers)
            decision = compute_pod_actions(pod, seen, memory, now)
            if self._probe_workers is not None:
                self._probe_workers.start(pod, decision.take_probes())
            memory = self._remember(pod, decision, memory)
            if not decision.has_actions:
                return decision, seen, memory
            memory = await self._act(pod, seen, decision, memory)
        decision.wake_by(self._clock.now())
        return decision, await self._runtime.get_pod_status(pod), memory

    async def unprepare_pod(self, pod: Pod) -> None:
        """Release the resources of a pod whose containers have ended, before its final status is written."""
        await self._runtime.unprepare_pod(pod)

    async def sync_terminated_pod(self, pod: Pod) -> None:
        """Release the sandbox of a pod that has terminated."""
        self._cancel_probes(pod.metadata.uid)
        await self._runtime.stop_pod_sandbox(pod)

    async def remove_pod(self, uid: str) -> None:
        """Remove a pod that is gone from the runtime."""
        self._metrics.remove_pod(uid)
        self._cancel_probes(uid)
        await self._runtime.remove_pod(uid)

    def _remember(self, pod: Pod, decision: PodSyncActions, memory: PodState) -> PodState:
        if decision.termination_reason is not None:
            self._events.record_deadline_exceeded(
                pod, decision.termination_reason.reason, decision.termination_reason.message
            )
            memory = msgspec.structs.replace(memory, termination_reason=decision.termination_reason)
        if decision.backing_off and any(
            memory.waiting_containers.get(name) != one for name, one in decision.backing_off.items()
        ):
            for container in (*pod.spec.init_containers, *(pod.spec.containers or ())):
                if container.name in decision.backing_off:
                    self._events.record_back_off(pod, container)
            memory = msgspec.structs.replace(
                memory, waiting_containers={**memory.waiting_containers, **decision.backing_off}
            )
        return memory

    async def _act(self, pod: Pod, seen: PodObservation, decision: PodSyncActions, memory: PodState) -> PodState:
        for kill in decision.containers_to_kill:
            if kill.after_failed_hook:
                self._events.record_post_start_failed(pod, kill.container)
            self._events.record_killing(pod, kill.container, kill.message)
            await self._runtime.stop_container(pod, kill.container.name, kill.grace_period_seconds, kill.pre_stop_hook)
            if kill.pre_stop_hook is not None:
                memory = _with_stop_hook(memory, kill.container, seen)
        if decision.grace_period_seconds is not None:
            told_at = memory.stop_requested_at or self._clock.now()
            memory = msgspec.structs.replace(
                memory, stop_grace_period_seconds=decision.grace_period_seconds, stop_requested_at=told_at
            )
        for warning in decision.pre_stop_hooks_to_start:
            if warning.pre_stop_hook is not None:
                await self._runtime.start_pre_stop_hook(pod, warning.container.name, warning.pre_stop_hook)
                memory = _with_stop_hook(memory, warning.container, seen)
        if decision.restart_all_containers:
            await self._runtime.reset_pod(pod)
        if decision.create_sandbox:
            memory = await self._prepare(pod, seen, memory)
        for container in decision.containers_to_start:
            memory = await self._start(pod, container, seen, memory)
        if decision.containers_to_update or decision.resize_pod:
            memory = await self._resize(pod, decision.containers_to_update, memory)
        for due in decision.probes_to_run:
            memory = await self._probe(pod, due, memory)
        return memory

    async def _resize(self, pod: Pod, containers: Sequence[Container], memory: PodState) -> PodState:
        """Resize a pod; a failure is shown in its condition and tried again later."""
        resize = memory.resize
        try:
            await self._runtime.resize_pod(pod, containers)
        except PodResizeError as error:
            message, generation = str(error), resize.in_progress_generation or pod.metadata.generation
            if message != resize.error:
                said = resize_event_message("Pod resize error", pod, generation, message)
                self._events.record_resize_error(pod, said)
            retry_at = self._clock.now() + timedelta(seconds=RESIZE_ERROR_RETRY_SECONDS)
            failed = msgspec.structs.replace(resize, error=message, retry_at=retry_at)
            return msgspec.structs.replace(memory, resize=failed)
        if not resize.error:
            return memory
        return msgspec.structs.replace(memory, resize=msgspec.structs.replace(resize, error="", retry_at=None))

    def _record_failed_stop_hooks(self, pod: Pod, seen: PodObservation, memory: PodState) -> PodState:
        left, failed = collect_hook_failures(memory.stop_hooks, seen)
        for name in failed:
            if (container := find_container(pod, name)) is not None:
                self._events.record_pre_stop_failed(pod, container)
        return msgspec.structs.replace(memory, stop_hooks=left)

    async def _prepare(self, pod: Pod, seen: PodObservation, memory: PodState) -> PodState:
        if seen.runs:
            self._events.record_sandbox_changed(pod)
        try:
            await self._runtime.run_pod_sandbox(pod)
        except ContainerStartError as error:
            self._events.record_sandbox_failed(pod, error.reason, error.message)
            return _with_waiting(memory, "", self._sandbox_backoff(memory))
        return _with_waiting(memory, "", None)

    async def _start(self, pod: Pod, container: Container, seen: PodObservation, memory: PodState) -> PodState:
        name, last = container.name, seen.last_run(container.name)
        now, waits = self._clock.now(), memory.waiting_containers.get(name)
        if waits is not None and waits.pull_backoff is not None and now < waits.pull_backoff.ends:
            self._events.record_pull_back_off(pod, container)
            return _with_waiting(
                memory, name, image_pulls.waiting_in_back_off(container.image, waits.pull_backoff, now)
            )
        if last is not None and last.finished_at is not None and not last.is_reset:
            before, longest = memory.backoffs.get(name), self._max_restart_seconds
            back_off = next_backoff(before, last.finished_at, now, longest)
            memory = msgspec.structs.replace(memory, backoffs={**memory.backoffs, name: back_off})
        try:
            found = await self._sources.resolve(pod, container)
            if problem := sub_path_error(pod, container, found):
                raise ContainerStartError(CONFIG_ERROR, problem)
            await self._runtime.start_container(pod, container, last.attempt + 1 if last is not None else 0, found)
        except ContainerStartError as error:
            return self._handle_start_error(pod, container, error, memory)
        self._metrics.count_image_volumes(pod, container)
        if self._events.is_verbose and not self._runtime.emits_start_events:
            memory = await self._record_start(pod, container, memory)
        return _with_waiting(memory, name, None) if memory.waiting_containers else memory

    async def _record_start(self, pod: Pod, container: Container, memory: PodState) -> PodState:
        """Emit the image event now, and remember to emit the start event once the run has started."""
        self._events.record_pulling(pod, container)
        run = (await self._runtime.get_pod_status(pod)).last_run(container.name)
        if run is None or run.started_at is not None:
            self._events.record_started(pod, container, 0.0)
            return memory
        return msgspec.structs.replace(
            memory, pending_start_events={**memory.pending_start_events, container.name: run.id}
        )

    def _record_pending_starts(self, pod: Pod, seen: PodObservation, memory: PodState) -> PodState:
        left = dict(memory.pending_start_events)
        for name, id in memory.pending_start_events.items():
            run, container = seen.last_run(name), find_container(pod, name)
            if run is None or run.id != id or container is None or run.state == "exited":
                del left[name]
            elif run.started_at is not None:
                del left[name]
                self._events.record_started(pod, container, (run.started_at - run.created_at).total_seconds())
        return msgspec.structs.replace(memory, pending_start_events=left)

    def _handle_start_error(
        self, pod: Pod, container: Container, error: ContainerStartError, memory: PodState
    ) -> PodState:
        """Record a failed start, to be retried later."""
        name, now = container.name, self._clock.now()
        has_begun = self._runtime.emits_start_events
        self._events.record_start_failed(pod, container, error.reason, error.message, has_begun=has_begun)
        if error.reason in image_pulls.PULL_FAILURES:
            before = memory.waiting_containers.get(name)
            return _with_waiting(
                memory, name, image_pulls.waiting_after_failed_pull(before, error.reason, error.message, now)
            )
        return _with_waiting(
            memory,
            name,
            ContainerWaiting(error.reason, error.message, now + timedelta(seconds=INITIAL_BACKOFF_SECONDS), now),
        )

    def _sandbox_backoff(self, memory: PodState) -> ContainerWaiting:
        """Return the wait before the next try of a sandbox, twice as long as the last one."""
        now, before = self._clock.now(), memory.waiting_containers.get("")
        delay = INITIAL_BACKOFF_SECONDS
        if before is not None and before.until is not None and before.since is not None:
            delay = min(2 * (before.until - before.since).total_seconds(), MAX_BACKOFF_SECONDS)
        return ContainerWaiting("", "", now + timedelta(seconds=delay), now)

    async def _probe(self, pod: Pod, due: probes.DueProbe, memory: PodState) -> PodState:
        answer = await self._runtime.probe(pod, due.container, due.kind, due.probe)
        return self._record_probe(pod, due, answer, memory)

    def _cancel_probes(self, uid: str) -> None:
        if self._probe_workers is not None:
            self._probe_workers.remove_pod(uid)

    def _take_probe_results(self, pod: Pod, seen: PodObservation, memory: PodState, workers: ProbeWorkers) -> PodState:
        """Record the results of probes since the last sync, except those of runs that have ended."""
        for due, answer in workers.take_finished(pod.metadata.uid):
            run = seen.last_run(due.container.name)
            if run is not None and run.id == due.run.id and run.state == "running":
                memory = self._record_probe(pod, due, answer, memory)
        return memory

    def _record_probe(self, pod: Pod, due: probes.DueProbe, answer: ProbeResult, memory: PodState) -> PodState:
        self._events.record_probe(pod, due, answer)
        if not answer.is_error:
            self._metrics.count_probe(pod, due.container.name, due.kind, ok=answer.ok)
        key = (due.container.name, due.kind)
        record = probes.update_record(memory.probes.get(key), due, answer, self._clock.now())
        return msgspec.structs.replace(memory, probes={**memory.probes, key: record})


def _with_stop_hook(memory: PodState, container: Container, seen: PodObservation) -> PodState:
    hooks = with_started_hook(memory.stop_hooks, container.name, seen)
    return memory if hooks is memory.stop_hooks else msgspec.structs.replace(memory, stop_hooks=hooks)


def _with_waiting(memory: PodState, name: str, waiting: ContainerWaiting | None) -> PodState:
    others = {other: one for other, one in memory.waiting_containers.items() if other != name}
    return msgspec.structs.replace(memory, waiting_containers=others if waiting is None else {**others, name: waiting})


def with_started_hook(hooks: StopHooks, container: str, seen: PodObservation) -> StopHooks:
    """Record that the hook of a container's current run was started."""
    run = seen.last_run(container)
    if run is None or (container in hooks and hooks[container].run == run.id):
        return hooks
    return {**hooks, container: PreStopHookRun(run.id)}


def collect_hook_failures(hooks: StopHooks, seen: PodObservation) -> tuple[StopHooks, list[str]]:
    """Return the hooks still to be observed, and the containers with failed hooks, once per failure."""
    left: dict[str, PreStopHookRun] = {}
    failed: list[str] = []
    for container, hook in hooks.items():
        run = next((one for one in seen.runs.get(container, ()) if one.id == hook.run), None)
        if run is None:
            continue
        failed.extend([container] * (run.failed_stop_hooks - hook.reported_failures))
        if run.state != "exited":
            left[container] = PreStopHookRun(hook.run, run.failed_stop_hooks)
    return left, failed
