# SPDX-License-Identifier: Apache-2.0
"""Access to nodes for the API server: logs, connections to containers, and kubelet endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kubeloop.api.errors import bad_request
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kubelet_requests import (
    NodeConnectionRefused,
    NodeRequest,
    NodeResponse,
    PodLogOptions,
    PodStreamRequest,
    PortConnection,
    StandardStreams,
)
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.runtime import Runtime
from kubeloop.kubelet.server.container_errors import log_error, stream_error
from kubeloop.kubelet.server.endpoints import KubeletEndpoints


class LocalNodeDialer:
    """Access to the nodes of one agent, for an API server in the same process."""

    def __init__(self, nodes: ServedNodes, runtime: Runtime, pages: KubeletEndpoints) -> None:
        self._nodes = nodes
        self._runtime = runtime
        self._pages = pages

    def can_reach(self, node: str) -> bool:
        """Return True if the node is reachable."""
        return self._nodes.get_reachable(node) is not None

    async def logs(self, pod: Pod, container: str, options: PodLogOptions) -> AsyncIterator[bytes]:
        """Yield the log of a container. Raises BadRequest with the kubelet's message if there is none."""
        why = log_error(pod, container, previous=options.previous)
        if why:
            raise bad_request(why)
        async for piece in self._runtime.get_container_logs(pod, container, options):
            yield piece

    def why_no_stream(self, pod: Pod, container: str) -> str:
        """Return the reason why a container, or the pod if none is named, cannot be connected to; or ""."""
        return stream_error(pod, container)

    async def open(self, pod: Pod, container: str, wanted: PodStreamRequest) -> LocalNodeDialer:
        """Return the access for a connection. Raises `NodeConnectionRefused` if it is impossible."""
        why = self.why_no_stream(pod, container)
        if why:
            raise NodeConnectionRefused(500, why.encode())
        return self

    def close(self) -> None:
        """Do nothing, as no connection was opened."""

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], streams: StandardStreams) -> int:
        """Run a command in a container and return its exit code."""
        return await self._runtime.exec(pod, container, command, streams)

    async def attach(self, pod: Pod, container: str, streams: StandardStreams) -> None:
        """Connect streams to a container."""
        await self._runtime.attach(pod, container, streams)

    async def forward(self, pod: Pod, port: int, connection: PortConnection) -> None:
        """Serve a connection to a port of a pod."""
        await self._runtime.port_forward(pod, port, connection)

    async def send_request(self, node: str, request: NodeRequest) -> NodeResponse:
        """Return the response of a kubelet endpoint; 503 for a node that is not reachable."""
        if not self.can_reach(node):
            return NodeResponse(503, b"the node is not reachable\n")
        return await self._pages.serve(node, request)
