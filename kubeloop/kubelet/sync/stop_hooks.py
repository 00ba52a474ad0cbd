"""Started preStop hooks, and which of their failures are not reported yet. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.kubelet.runtime import PodObservation
from kubeloop.kubelet.sync.pod_state import PreStopHookRun

StopHooks = Mapping[str, PreStopHookRun]


def with_started_hook(hooks: StopHooks, container: str, seen: PodObservation) -> StopHooks:
    """Record that the hook of a container's current run was started."""
    run = seen.last(container)
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
        failed.extend([container] * (run.failed_stop_hooks - hook.failures_told))
        if run.state != "exited":
            left[container] = PreStopHookRun(hook.run, run.failed_stop_hooks)
    return left, failed
