"""How hooks of simulated containers go: exec as its command does, sleep as long as it says, others at once. Pure."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Container, LifecycleHandler, Pod
from kubeloop.node.simulated.script import Script
from kubeloop.node.simulated.shell import course_of
from kubeloop.node.spec import pod_text

# How long a postStart hook takes that doesn't end by itself: longer than anybody waits.
ENDLESS_HOOK = 10 * 365 * 86400.0


def seconds_of_hook(hook: LifecycleHandler | None, longest: float) -> float:
    """How long a hook takes; one that doesn't end takes all the time there is."""
    if hook is None:
        return 0.0
    if hook.sleep is not None:
        return float(hook.sleep.seconds)
    if hook.exec is not None:
        seconds = course_of(hook.exec.command).seconds
        return seconds if seconds is not None else longest
    return 0.0


def failure_of(hook: LifecycleHandler, pod: Pod, container: Container, script: Script | None) -> str:
    """Why a postStart hook fails, in the kubelet's words; empty if it doesn't."""
    where = f'for Container "{container.name}" in Pod "{pod_text(pod)}" failed - error:'
    scripted = script.text("fail-post-start") if script is not None else ""
    if hook.exec is not None:
        command = hook.exec.command
        code = course_of(command).exit_code or (1 if scripted else 0)
        if not code:
            return ""
        why = f"command '{' '.join(command)}' exited with {code}: "
        return f'Exec lifecycle hook ([{" ".join(command)}]) {where} {why}, message: ""'
    if hook.http_get is not None and scripted:
        return f"HTTP lifecycle hook ({hook.http_get.path}) {where} {scripted}"
    return ""
