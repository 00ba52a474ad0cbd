"""What a node answers when an API server asks for a container's log, or runs a command in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kubeloop.api.errors import bad_request
from kubeloop.api.generated.core_v1 import ContainerStatus, Pod
from kubeloop.api.node_calls import ExecResult, LogOptions
from kubeloop.node.runtime import Runtime
from kubeloop.node.worker import Nodes

_PENDING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class NodeAccess:
    """Access to the nodes of one agent, for an API server in the same process."""

    def __init__(self, nodes: Nodes, runtime: Runtime) -> None:
        self._nodes = nodes
        self._runtime = runtime

    def reaches(self, node: str) -> bool:
        return self._nodes.reachable(node) is not None

    async def logs(self, pod: Pod, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        why = why_no_log(pod, container, previous=options.previous)
        if why:
            raise bad_request(why)
        async for piece in self._runtime.logs(pod, container, options):
            yield piece

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], stdin: bytes) -> ExecResult:
        return await self._runtime.execute(pod, container, command, stdin)


def why_no_log(pod: Pod, container: str, *, previous: bool) -> str:
    """Why a container has no log to read, in the kubelet's words; empty if it has."""
    name, status = pod.metadata.name, _status(pod, container)
    if status is None:
        return f'container "{container}" in pod "{name}" is not available'
    before = status.last_state.terminated
    if previous:
        return "" if before is not None else f'previous terminated container "{container}" in pod "{name}" not found'
    if status.state.running is not None or status.state.terminated is not None or before is not None:
        return ""
    waiting = status.state.waiting
    if waiting is None:
        return f'container "{container}" in pod "{name}" is waiting to start - no logs yet'
    reason = _PENDING.get(waiting.reason, waiting.reason)
    return f'container "{container}" in pod "{name}" is waiting to start: {reason}'


def _status(pod: Pod, container: str) -> ContainerStatus | None:
    status = pod.status
    every = (*status.container_statuses, *status.init_container_statuses, *status.ephemeral_container_statuses)
    return next((one for one in every if one.name == container), None)
