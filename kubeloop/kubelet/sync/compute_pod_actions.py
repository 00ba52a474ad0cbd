# SPDX-License-Identifier: Apache-2.0
"""Computes the next actions for a pod: the state machine of its containers. Pure.

no sandbox ─▶ create it ─▶ init containers one at a time, sidecars keep running ─▶ all containers
                                │ one failed permanently                          │ none runs or will run
                                ▼                                                 ▼
deleted, evicted, past its deadline ──▶ stop: containers first, then sidecars in reverse order ──▶ all stopped
"""

from __future__ import annotations

from datetime import datetime

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.scalars.duration import SECOND, format_duration
from kubeloop.kubelet.admission.resize import needs_pod_level_resize, needs_resize, resize_requires_restart
from kubeloop.kubelet.containers.probes import active_probes, has_started, probe_of, probe_result
from kubeloop.kubelet.runtime import ContainerRun, PodObservation, ProbeKind
from kubeloop.kubelet.sync.containers import (
    app_containers_of,
    ephemeral_containers_of,
    format_pod,
    has_post_start,
    is_sidecar,
    sidecar_containers_of,
)
from kubeloop.kubelet.sync.pod_actions import ContainerKill, PodSyncActions
from kubeloop.kubelet.sync.pod_state import ContainerWaiting, PodState
from kubeloop.kubelet.sync.restart import (
    CRASH_LOOP,
    should_restart,
    should_restart_after_kill,
    should_restart_all,
    should_start,
)
from kubeloop.kubelet.sync.termination import (
    DEADLINE_EXCEEDED,
    TERMINAL_PHASES,
    grace_period_seconds,
    is_alive,
    is_past_active_deadline,
    is_termination_requested,
    plan_termination,
)

_KILLING_PROBES: tuple[ProbeKind, ...] = ("liveness", "startup")


def compute_pod_actions(pod: Pod, seen: PodObservation, memory: PodState, now: datetime) -> PodSyncActions:
    """Return the next actions for a pod; called again after these are done, until there is only waiting."""
    return _PodActionsBuilder(pod, seen, memory, now).build()


class _PodActionsBuilder:
    """Evaluation of one pod; fills its decision."""

    def __init__(self, pod: Pod, seen: PodObservation, memory: PodState, now: datetime) -> None:
        self._pod = pod
        self._seen = seen
        self._memory = memory
        self._now = now
        self._decision = PodSyncActions()

    def build(self) -> PodSyncActions:
        """Return the decision."""
        pod, seen, memory, decision = self._pod, self._seen, self._memory, self._decision
        decision.wake_by(seen.next_change_at)
        if memory.termination_reason is None and is_past_active_deadline(pod, memory, self._now, decision):
            decision.terminate_for(DEADLINE_EXCEEDED)
        if (
            decision.termination_reason
            or memory.termination_reason
            or is_termination_requested(pod)
            or memory.reported_status.phase in TERMINAL_PHASES
        ):
            plan_termination(pod, seen, memory, self._now, decision)
        elif seen.addresses is None:
            self._start_sandbox()
        else:
            self._run()
        return decision

    def _start_sandbox(self) -> None:
        """Create a sandbox, unless there was one before and no container would run in a new one."""
        if self._seen.runs and not any(self._should_run(one) for one in app_containers_of(self._pod)):
            plan_termination(self._pod, self._seen, self._memory, self._now, self._decision)
        elif self._memory.unmounted_volumes is not None:
            self._decision.wake_by(self._memory.unmounted_volumes.next_retry)
        elif (waits := self._memory.waiting_containers.get("")) is not None and self._is_backing_off(waits):
            return
        else:
            self._decision.request_sandbox()

    def _run(self) -> None:
        if any(
            self._triggers_restart_all(one) for one in (*self._pod.spec.init_containers, *app_containers_of(self._pod))
        ):
            self._restart_all_containers()
            return
        if needs_pod_level_resize(self._pod, self._seen) and not self._is_resize_delayed():
            self._decision.request_pod_resize()
        for container in ephemeral_containers_of(self._pod):
            if self._seen.last_run(container.name) is None:
                self._start(container)
        has_begun = any(self._seen.current_run(one.name) for one in app_containers_of(self._pod))
        if has_begun:
            for sidecar in sidecar_containers_of(self._pod):
                self._check_container(sidecar)
        elif not self._check_init_containers():
            return
        if not self._check_app_containers():
            self._decision.containers_to_start.clear()  # sidecars alone do not keep a pod running
            plan_termination(self._pod, self._seen, self._memory, self._now, self._decision)

    def _triggers_restart_all(self, container: Container) -> bool:
        run = self._seen.current_run(container.name) if container.restart_policy_rules else None
        return run is not None and run.state == "exited" and should_restart_all(container, run.exit_code)

    def _restart_all_containers(self) -> None:
        """Kill all running containers without grace period; then restart as if none had run."""
        for container in (*self._pod.spec.init_containers, *app_containers_of(self._pod)):
            run = self._seen.current_run(container.name)
            if run is not None and is_alive(run) and not run.is_stopping:
                self._decision.containers_to_kill.append(ContainerKill(container, "killing", 0.0))
        runs = (
            self._seen.current_run(one.name) for one in (*self._pod.spec.init_containers, *app_containers_of(self._pod))
        )
        if not any(is_alive(run) for run in runs):
            self._decision.request_restart()

    def _check_app_containers(self) -> bool:
        """Check the app containers in order; return True if any runs or will run.

        A container whose postStart hook is pending delays those behind it.
        """
        kept = False
        for container in app_containers_of(self._pod):
            kept = self._check_container(container) or kept
            run = self._seen.current_run(container.name)
            if has_post_start(container) and (run is None or run.state == "created"):
                return True
        return kept

    # Init containers.

    def _check_init_containers(self) -> bool:
        """Advance the init containers by one step; return True if all are done."""
        containers = self._pod.spec.init_containers
        for index, container in enumerate(containers):
            if is_sidecar(container):
                self._check_container(container)
                passed = self._has_started(container) or self._any_began(containers[index + 1 :])
            else:
                passed = self._is_init_container_done(container)
            if not passed:
                return False
        return True

    def _any_began(self, containers: tuple[Container, ...]) -> bool:
        return any(self._seen.current_run(one.name) for one in containers)

    def _has_started(self, container: Container) -> bool:
        return has_started(self._memory.probes, container, self._seen.current_run(container.name))

    def _is_init_container_done(self, container: Container) -> bool:
        run = self._seen.current_run(container.name)
        if run is None:
            self._start(container)
            return False
        if run.state != "exited":
            return False
        if run.exit_code == 0:
            return True
        if should_restart(container, self._pod.spec, run.exit_code):
            self._start(container)
        else:
            self._decision.containers_to_start.clear()
            plan_termination(self._pod, self._seen, self._memory, self._now, self._decision)
        return False

    # Running containers.

    def _check_container(self, container: Container) -> bool:
        """Check one container; return True if it runs or will run."""
        run = self._seen.current_run(container.name)
        if run is None or not is_alive(run):
            if not self._should_run(container):
                return False
            self._start(container)
            return True
        if run.state != "running" or run.is_stopping:
            return True
        if run.hook_failure:
            grace = grace_period_seconds(self._pod)
            self._decision.containers_to_kill.append(
                ContainerKill(container, "FailedPostStartHook", grace, after_failed_hook=True)
            )
        elif (kind := self._failed_probe(container, run)) is not None:
            self._kill(container, kind)
        elif needs_resize(container, run):
            self._resize(container, run)
        else:
            self._schedule_probes(container, run)
        return True

    def _resize(self, container: Container, run: ContainerRun) -> None:
        """Change the resources of a running container; restart it if its resize policy requires that."""
        if resize_requires_restart(container, run):
            message = f"Container {container.name} resize requires restart"
            self._decision.containers_to_kill.append(ContainerKill(container, message, grace_period_seconds(self._pod)))
        elif not run.is_resizing and not self._is_resize_delayed():
            self._decision.containers_to_update.append(container)
        else:
            self._schedule_probes(container, run)

    def _is_resize_delayed(self) -> bool:
        """Return True until a resize that has failed is tried again."""
        retry_at = self._memory.resize.retry_at
        if retry_at is None or self._now >= retry_at:
            return False
        self._decision.wake_by(retry_at)
        return True

    def _should_run(self, container: Container) -> bool:
        return should_start(container, self._pod, self._seen.last_run(container.name))

    def _start(self, container: Container) -> None:
        """Start a container, unless it is backing off."""
        name = container.name
        waits = self._memory.waiting_containers.get(name)
        if waits is not None and waits.reason != CRASH_LOOP and self._is_backing_off(waits):
            return
        last, back_off = self._seen.last_run(name), self._memory.backoffs.get(name)
        if last is not None and last.finished_at is not None and back_off is not None and not last.is_reset:
            ends = back_off.expiration(last.finished_at)
            if ends is not None and self._now < ends:
                delay = format_duration(int(back_off.delay * SECOND))
                message = f"back-off {delay} restarting failed container={name} pod={format_pod(self._pod)}"
                self._decision.backing_off[name] = ContainerWaiting(CRASH_LOOP, message, ends)
                self._decision.wake_by(ends)
                return
        self._decision.containers_to_start.append(container)

    def _is_backing_off(self, waits: ContainerWaiting) -> bool:
        if waits.until is None or waits.until <= self._now:
            return False
        self._decision.wake_by(waits.until)
        return True

    def _failed_probe(self, container: Container, run: ContainerRun) -> ProbeKind | None:
        """Return the kind of the failed probe that requires killing a running container."""
        for kind in _KILLING_PROBES:
            if (
                probe_of(container, kind) is not None
                and probe_result(self._memory.probes, container, run, kind) is False
            ):
                return kind
        return None

    def _kill(self, container: Container, kind: ProbeKind) -> None:
        if any(one is container for one in self._pod.spec.init_containers):
            message = f"Init container {container.name} failed {kind} probe"
        else:
            again = ", will be restarted" if should_restart_after_kill(container, self._pod.spec) else ""
            message = f"Container {container.name} failed {kind} probe{again}"
        self._decision.containers_to_kill.append(
            ContainerKill(container, message, grace_period_seconds(self._pod, probe_of(container, kind)))
        )

    def _schedule_probes(self, container: Container, run: ContainerRun) -> None:
        for due in active_probes(self._memory.probes, self._pod, container, run):
            if due.due_at <= self._now:
                self._decision.probes_to_run.append(due)
            else:
                self._decision.wake_by(due.due_at)
