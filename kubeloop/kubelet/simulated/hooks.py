# SPDX-License-Identifier: Apache-2.0
"""Behavior of lifecycle hooks of simulated containers: exec as its command, sleep as given, others at once. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Container, LifecycleHandler, Pod
from kubeloop.kubelet.simulated.script import Script
from kubeloop.kubelet.simulated.shell import command_behavior
from kubeloop.kubelet.sync.containers import format_pod

# Duration in seconds of a hook that does not end: longer than any client waits.
_ENDLESS = 10 * 365 * 86400.0


class HookBehavior(NamedTuple):
    """Duration and failure of a hook."""

    seconds: float
    failure: str = ""  # error after its duration, with the kubelet's message
    needs_container: bool = False  # it also fails if the container exits before it


def post_start_behavior(hook: LifecycleHandler, pod: Pod, container: Container, script: Script | None) -> HookBehavior:
    """Return the behavior of a postStart hook."""
    return _course(hook, pod, container, script.text("fail-post-start") if script is not None else "")


def pre_stop_behavior(hook: LifecycleHandler, pod: Pod, container: Container, script: Script | None) -> HookBehavior:
    """Return the behavior of a preStop hook."""
    return _course(hook, pod, container, script.text("fail-pre-stop") if script is not None else "")


def _course(hook: LifecycleHandler, pod: Pod, container: Container, scripted: str) -> HookBehavior:
    where = f'for Container "{container.name}" in Pod "{format_pod(pod)}" failed - error:'
    if hook.sleep is not None:
        seconds = hook.sleep.seconds
        return HookBehavior(float(seconds), f"Sleep lifecycle hook ({seconds}) {where} {scripted}" if scripted else "")
    if hook.exec is not None:
        command = " ".join(hook.exec.command)
        course = command_behavior(hook.exec.command)
        code = course.exit_code or (1 if scripted else 0)
        ends_in = course.seconds if course.seconds is not None else 0.0 if scripted else _ENDLESS
        why = f"command '{command}' exited with {code}: "
        failure = f'Exec lifecycle hook ([{command}]) {where} {why}, message: ""' if code else ""
        return HookBehavior(ends_in, failure, needs_container=True)
    if hook.http_get is not None:
        return HookBehavior(0.0, f"HTTP lifecycle hook ({hook.http_get.path}) {where} {scripted}" if scripted else "")
    return HookBehavior(0.0, f"Cannot run handler: invalid handler: {_format_handler(hook)}")


def _format_handler(hook: LifecycleHandler) -> str:
    """Return an unsupported handler as the kubelet prints it."""
    at, socket = hook.tcp_socket, "nil"
    if at is not None:
        port = f"{{0 {at.port} }}" if isinstance(at.port, int) else f"{{1 0 {at.port}}}"
        socket = f"&TCPSocketAction{{Port:{port},Host:{at.host},}}"
    return f"&LifecycleHandler{{Exec:nil,HTTPGet:nil,TCPSocket:{socket},Sleep:nil,}}"
