"""Started preStop hooks, and which of their failures are not reported yet. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.kubelet.runtime import Observation
from kubeloop.kubelet.sync.pod_state import StopHook

StopHooks = Mapping[str, StopHook]


def with_begun(hooks: StopHooks, container: str, seen: Observation) -> StopHooks:
    """Record that the hook of a container's current run was started."""
    run = seen.last(container)
    if run is None or (container in hooks and hooks[container].run == run.id):
        return hooks
    return {**hooks, container: StopHook(run.id)}


def after_look(hooks: StopHooks, seen: Observation) -> tuple[StopHooks, list[str]]:
    """Return the hooks still to be observed, and the containers with failed hooks, once per failure."""
    left: dict[str, StopHook] = {}
    failed: list[str] = []
    for container, hook in hooks.items():
        run = next((one for one in seen.runs.get(container, ()) if one.id == hook.run), None)
        if run is None:
            continue
        failed.extend([container] * (run.failed_stop_hooks - hook.failures_told))
        if run.state != "exited":
            left[container] = StopHook(hook.run, run.failed_stop_hooks)
    return left, failed
