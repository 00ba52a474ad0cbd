"""What nodes answer when an API server asks: for logs, for connections to containers, for pages of their own."""

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
        return self._nodes.reachable(node) is not None

    async def logs(self, pod: Pod, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        why = why_no_log(pod, container, previous=options.previous)
        if why:
            raise bad_request(why)
        async for piece in self._runtime.logs(pod, container, options):
            yield piece

    def why_no_stream(self, pod: Pod, container: str) -> str:
        """Why nobody can be connected to a container now, or to the pod if none is named; empty if it can be done."""
        return why_no_stream(pod, container)

    async def opened(self, pod: Pod, container: str, wanted: Wanted) -> NodeAccess:
        why = self.why_no_stream(pod, container)
        if why:
            raise NodeRefused(500, why.encode())
        return self

    def close(self) -> None:
        """Nothing was opened."""

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], streams: Streams) -> int:
        return await self._runtime.execute(pod, container, command, streams)

    async def attach(self, pod: Pod, container: str, streams: Streams) -> None:
        await self._runtime.attach(pod, container, streams)

    async def forward(self, pod: Pod, port: int, connection: Duplex) -> None:
        await self._runtime.forward(pod, port, connection)

    async def page(self, node: str, request: NodeRequest) -> NodeAnswer:
        return await self._pages.answer(node, request)
