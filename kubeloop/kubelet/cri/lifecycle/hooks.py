# SPDX-License-Identifier: Apache-2.0
"""Lifecycle hooks of real containers: postStart and preStop by a command, an HTTP request or a pause."""

from __future__ import annotations

import asyncio

from kubeloop.api.generated.core_v1 import Container, LifecycleHandler, Pod
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.lifecycle import http_action
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.kubelet.sync.containers import format_pod


class HookError(Exception):
    """Raised for a hook that failed; the message is that of the kubelet."""


class HookRunner:
    """Runs hooks; the caller limits their time."""

    def __init__(self, runtime: RuntimeService) -> None:
        self._runtime = runtime

    async def run(self, pod: Pod, container: Container, id: str, hook: LifecycleHandler) -> None:
        """Run a hook of a container, whose pod has its addresses. Raises `HookError`."""
        where = f'for Container "{container.name}" in Pod "{format_pod(pod)}" failed - error: '
        if hook.exec is not None:
            command = tuple(hook.exec.command)
            await self._exec(id, command, f"Exec lifecycle hook ([{' '.join(command)}]) {where}")
        elif hook.http_get is not None:
            action = hook.http_get
            try:
                url = http_action.url_of(action, container, pod.status.pod_ip)
                await http_action.get(url, http_action.headers_of(action, "lifecycle"))
            except http_action.HttpActionError as error:
                raise HookError(f"HTTP lifecycle hook ({action.path}) {where}{error}") from None
        elif hook.sleep is not None:
            await asyncio.sleep(hook.sleep.seconds)

    async def _exec(self, id: str, command: tuple[str, ...], prefix: str) -> None:
        try:
            done = await self._runtime.exec_sync(id, command, 0)
        except RpcError as error:
            raise HookError(f'{prefix}{error.format()}, message: ""') from None
        if done.exit_code:
            output, errors = (part.decode("utf-8", "replace") for part in (done.stdout + done.stderr, done.stderr))
            why = f"command '{' '.join(command)}' exited with {done.exit_code}: {errors}"
            raise HookError(f'{prefix}{why}, message: "{output}"')
