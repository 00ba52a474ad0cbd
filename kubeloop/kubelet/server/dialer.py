"""Access to nodes for the API server: logs, connections to containers, and kubelet endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kubeloop.api.errors import bad_request
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.node_calls import Duplex, LogOptions, NodeAnswer, NodeRefused, NodeRequest, Streams, Wanted
from kubeloop.kubelet.runtime import Runtime
from kubeloop.kubelet.server.endpoints import Pages
from kubeloop.kubelet.server.reasons import why_no_log, why_no_stream
from kubeloop.kubelet.sync.pod_worker import Nodes


class NodeAccess:
    """Access to the nodes of one agent, for an API server in the same process."""

    def __init__(self, nodes: Nodes, runtime: Runtime, pages: Pages) -> None:
        self._nodes = nodes
        self._runtime = runtime
        self._pages = pages

    def reaches(self, node: str) -> bool:
        """Return True if the node is reachable."""
        return self._nodes.reachable(node) is not None

    async def logs(self, pod: Pod, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the log of a container. Raises BadRequest with the kubelet's message if there is none."""
        why = why_no_log(pod, container, previous=options.previous)
        if why:
            raise bad_request(why)
        async for piece in self._runtime.logs(pod, container, options):
            yield piece

    def why_no_stream(self, pod: Pod, container: str) -> str:
        """Return the reason why a container, or the pod if none is named, cannot be connected to; or ""."""
        return why_no_stream(pod, container)

    async def opened(self, pod: Pod, container: str, wanted: Wanted) -> NodeAccess:
        """Return the access for a connection. Raises `NodeRefused` if it is impossible."""
        why = self.why_no_stream(pod, container)
        if why:
            raise NodeRefused(500, why.encode())
        return self

    def close(self) -> None:
        """Do nothing, as no connection was opened."""

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], streams: Streams) -> int:
        """Run a command in a container and return its exit code."""
        return await self._runtime.execute(pod, container, command, streams)

    async def attach(self, pod: Pod, container: str, streams: Streams) -> None:
        """Connect streams to a container."""
        await self._runtime.attach(pod, container, streams)

    async def forward(self, pod: Pod, port: int, connection: Duplex) -> None:
        """Serve a connection to a port of a pod."""
        await self._runtime.forward(pod, port, connection)

    async def page(self, node: str, request: NodeRequest) -> NodeAnswer:
        """Return the response of a kubelet endpoint."""
        return await self._pages.answer(node, request)
