"""Pod syncer: performs the actions of a decision by the runtime, and updates the pod's state."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.clock import Clock
from kubeloop.kubelet.containers import image_pulls, probes
from kubeloop.kubelet.containers.env_sources import EnvSources
from kubeloop.kubelet.events.recorder import PodEvents
from kubeloop.kubelet.runtime import ContainerStartError, PodObservation, Runtime
from kubeloop.kubelet.sync.containers import find_container
from kubeloop.kubelet.sync.decide import compute_pod_actions
from kubeloop.kubelet.sync.decision import PodSyncActions
from kubeloop.kubelet.sync.pod_state import ContainerWaiting, PodState
from kubeloop.kubelet.sync.restart import INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, next_backoff
from kubeloop.kubelet.sync.stop_hooks import collect_hook_failures, with_started_hook

# Limit of steps per sync; a pod with more containers continues in its next turn.
_MAX_STEPS = 100


class PodSyncer:
    """Syncs pods by one runtime."""

    def __init__(self, runtime: Runtime, telling: PodEvents, clock: Clock, sources: EnvSources | None = None) -> None:
        self._runtime = runtime
        self._sources = sources
        self._telling = telling
        self._clock = clock

    async def bring_on(self, pod: Pod, memory: PodState) -> tuple[PodSyncActions, PodObservation, PodState]:
        """Perform all actions possible now; return the last decision, the observation and the new state."""
        for _ in range(_MAX_STEPS):
            seen, now = await self._runtime.observe(pod), self._clock.now()
            if memory.starting:
                memory = self._look_at_starts(pod, seen, memory)
            if memory.stop_hooks:
                memory = self._look_at_stop_hooks(pod, seen, memory)
            decision = compute_pod_actions(pod, seen, memory, now)
            memory = self._remember(pod, decision, memory)
            if not decision.acts:
                return decision, seen, memory
            memory = await self._act(pod, seen, decision, memory)
        decision.wake(self._clock.now())
        return decision, await self._runtime.observe(pod), memory

    def _remember(self, pod: Pod, decision: PodSyncActions, memory: PodState) -> PodState:
        if decision.verdict is not None:
            self._telling.deadline_exceeded(pod, decision.verdict.reason, decision.verdict.message)
            memory = msgspec.structs.replace(memory, verdict=decision.verdict)
        if decision.backing_off and any(memory.waiting.get(name) != one for name, one in decision.backing_off.items()):
            for container in (*pod.spec.init_containers, *(pod.spec.containers or ())):
                if container.name in decision.backing_off:
                    self._telling.backing_off(pod, container)
            memory = msgspec.structs.replace(memory, waiting={**memory.waiting, **decision.backing_off})
        return memory

    async def _act(self, pod: Pod, seen: PodObservation, decision: PodSyncActions, memory: PodState) -> PodState:
        for kill in decision.kills:
            if kill.after_failed_hook:
                self._telling.post_start_failed(pod, kill.container)
            self._telling.killing(pod, kill.container, kill.message)
            await self._runtime.stop(pod, kill.container.name, kill.grace, kill.hook)
            if kill.hook is not None:
                memory = _with_stop_hook(memory, kill.container, seen)
        if decision.grace is not None:
            told_at = memory.told_at or self._clock.now()
            memory = msgspec.structs.replace(memory, grace=decision.grace, told_at=told_at)
        for warning in decision.warnings:
            if warning.hook is not None:
                await self._runtime.warn(pod, warning.container.name, warning.hook)
                memory = _with_stop_hook(memory, warning.container, seen)
        if decision.begin_anew:
            await self._runtime.put_aside(pod)
        if decision.prepare:
            memory = await self._prepare(pod, seen, memory)
        for container in decision.starts:
            memory = await self._start(pod, container, seen, memory)
        for container in decision.resizes:
            await self._runtime.resize(pod, container)
        for due in decision.probes:
            memory = await self._probe(pod, due, memory)
        return memory

    def _look_at_stop_hooks(self, pod: Pod, seen: PodObservation, memory: PodState) -> PodState:
        left, failed = collect_hook_failures(memory.stop_hooks, seen)
        for name in failed:
            if (container := find_container(pod, name)) is not None:
                self._telling.pre_stop_failed(pod, container)
        return msgspec.structs.replace(memory, stop_hooks=left)

    async def _prepare(self, pod: Pod, seen: PodObservation, memory: PodState) -> PodState:
        if seen.runs:
            self._telling.sandbox_changed(pod)
        try:
            await self._runtime.prepare(pod)
        except ContainerStartError as error:
            self._telling.sandbox_failed(pod, error.message)
            return _with_waiting(memory, "", self._until_retry(memory))
        return _with_waiting(memory, "", None)

    async def _start(self, pod: Pod, container: Container, seen: PodObservation, memory: PodState) -> PodState:
        name, last = container.name, seen.last(container.name)
        now, waits = self._clock.now(), memory.waiting.get(name)
        if waits is not None and waits.pull is not None and now < waits.pull.ends:
            self._telling.pull_backing_off(pod, container)
            return _with_waiting(memory, name, image_pulls.waiting_in_back_off(container.image, waits.pull, now))
        if last is not None and last.finished_at is not None and not last.put_aside:
            back_off = next_backoff(memory.backoffs.get(name), last.finished_at, now)
            memory = msgspec.structs.replace(memory, backoffs={**memory.backoffs, name: back_off})
        try:
            found = await self._sources.found(pod, container) if self._sources is not None else None
            await self._runtime.start(pod, container, last.attempt + 1 if last is not None else 0, found)
        except ContainerStartError as error:
            return self._failed(pod, container, error, memory)
        if self._telling.is_loud:
            memory = await self._tell_start(pod, container, memory)
        return _with_waiting(memory, name, None) if memory.waiting else memory

    async def _tell_start(self, pod: Pod, container: Container, memory: PodState) -> PodState:
        """Emit the image event now, and remember to emit the start event once the run has started."""
        self._telling.pulling(pod, container)
        run = (await self._runtime.observe(pod)).last(container.name)
        if run is None or run.started_at is not None:
            self._telling.started(pod, container, 0.0)
            return memory
        return msgspec.structs.replace(memory, starting={**memory.starting, container.name: run.id})

    def _look_at_starts(self, pod: Pod, seen: PodObservation, memory: PodState) -> PodState:
        left = dict(memory.starting)
        for name, id in memory.starting.items():
            run, container = seen.last(name), find_container(pod, name)
            if run is None or run.id != id or container is None or run.state == "exited":
                del left[name]
            elif run.started_at is not None:
                del left[name]
                self._telling.started(pod, container, (run.started_at - run.created_at).total_seconds())
        return msgspec.structs.replace(memory, starting=left)

    def _failed(self, pod: Pod, container: Container, error: ContainerStartError, memory: PodState) -> PodState:
        """Record a failed start, to be retried later."""
        name, now = container.name, self._clock.now()
        self._telling.start_failed(pod, container, error.reason, error.message)
        if error.reason in image_pulls.PULL_FAILURES:
            before = memory.waiting.get(name)
            return _with_waiting(
                memory, name, image_pulls.waiting_after_failed_pull(before, error.reason, error.message, now)
            )
        return _with_waiting(
            memory,
            name,
            ContainerWaiting(error.reason, error.message, now + timedelta(seconds=INITIAL_BACKOFF_SECONDS), now),
        )

    def _until_retry(self, memory: PodState) -> ContainerWaiting:
        """Return the wait before the next try of a sandbox, twice as long as the last one."""
        now, before = self._clock.now(), memory.waiting.get("")
        delay = INITIAL_BACKOFF_SECONDS
        if before is not None and before.until is not None and before.since is not None:
            delay = min(2 * (before.until - before.since).total_seconds(), MAX_BACKOFF_SECONDS)
        return ContainerWaiting("", "", now + timedelta(seconds=delay), now)

    async def _probe(self, pod: Pod, due: probes.DueProbe, memory: PodState) -> PodState:
        answer = await self._runtime.probe(pod, due.container, due.kind, due.probe)
        if not answer.ok:
            self._telling.unhealthy(pod, due, answer)
        key = (due.container.name, due.kind)
        record = probes.update_record(memory.probes.get(key), due, answer, self._clock.now())
        return msgspec.structs.replace(memory, probes={**memory.probes, key: record})


def _with_stop_hook(memory: PodState, container: Container, seen: PodObservation) -> PodState:
    hooks = with_started_hook(memory.stop_hooks, container.name, seen)
    return memory if hooks is memory.stop_hooks else msgspec.structs.replace(memory, stop_hooks=hooks)


def _with_waiting(memory: PodState, name: str, waiting: ContainerWaiting | None) -> PodState:
    others = {other: one for other, one in memory.waiting.items() if other != name}
    return msgspec.structs.replace(memory, waiting=others if waiting is None else {**others, name: waiting})
