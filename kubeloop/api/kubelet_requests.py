# SPDX-License-Identifier: Apache-2.0
"""Requests that an API server sends to kubelets for its clients, and their answers; shared by both ends. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kinds import Resource

# Annotation of simulated nodes: empty for nodes of the control plane's own process, set for those of another program.
SIMULATED_NODE_ANNOTATION = "sim.kubeloop.io/node"
# Annotation with the digest of a kubelet's serving certificate: `sha256:` and hexadecimal digits.
SERVING_CERTIFICATE_ANNOTATION = "kubeloop.io/kubelet-certificate"


class PodLogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """PodLogOptions: selects a part of a container's log."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None
    stream: str = ""  # name of one of the container's two output streams, or All
    insecure: bool = False  # skip verification of the node's certificate


class TerminalSize(NamedTuple):
    """Size of a terminal in characters."""

    width: int
    height: int


class StandardStreams(Protocol):
    """Standard streams of a client that are connected to a command in a container, possibly as a terminal."""

    stdin: bool  # True if there is any input
    tty: bool
    size: TerminalSize | None  # of the terminal, as last reported
    on_resize: Callable[[TerminalSize], None] | None  # called with every new size

    async def read(self) -> bytes:
        """Return the next chunk of standard input; empty at its end."""

    async def write(self, data: bytes) -> None:
        """Write to standard output; returns when there is room for more."""

    async def write_error(self, data: bytes) -> None:
        """Write to standard error; on a terminal that is standard output."""


class PortConnection(Protocol):
    """Bidirectional connection to a port."""

    async def read(self) -> bytes:
        """Return the next chunk; empty at the end of the stream."""

    async def write(self, data: bytes) -> None:
        """Write a chunk; returns when there is room for more."""


class ForwardFailed(Exception):
    """Raised if a port can't be connected to."""


class NodeForwardFailed(ForwardFailed):
    """ForwardFailed whose message comes from the node and is shown unchanged."""


class CommandFailed(Exception):
    """Raised if a command ended without an exit code; carries the Status that the node returned."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status.get("message", ""))
        self.status = status


class NodeConnectionRefused(Exception):
    """Raised if a node refuses a streaming connection; carries its answer."""

    def __init__(self, status: int, body: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
        super().__init__(body.decode("utf-8", "replace"))
        self.status = status
        self.body = body
        self.content_type = content_type


class PodStreamRequest(NamedTuple):
    """Parameters of a streaming request (exec, attach or port-forward) to a container or pod."""

    operation: str  # exec, attach or portforward
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class NodeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to an endpoint of the kubelet itself."""

    method: str
    path: str  # decoded, with a slash in front
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    accept: str = ""  # media types that the client accepts

    def text(self, key: str) -> str:
        """Return the first value of a query parameter; empty if there is none."""
        return next((value for name, value in self.query if name == key), "")


class NodeResponse(msgspec.Struct, frozen=True):
    """Response of a kubelet endpoint, whole or streamed in chunks."""

    status: int
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = "text/plain; charset=utf-8"


class PodConnections(Protocol):
    """Streaming operations on a pod, after its node accepted the request."""

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], streams: StandardStreams) -> int:
        """Run a command in a container and return its exit code."""

    async def attach(self, pod: Pod, container: str, streams: StandardStreams) -> None:
        """Connect streams to a container's main process until it ends."""

    async def forward(self, pod: Pod, port: int, connection: PortConnection) -> None:
        """Forward a connection to a port of a pod until it ends; raises `ForwardFailed` if the port is closed."""

    def close(self) -> None:
        """Close the connections and end operations in progress."""


class PodDialer(Protocol):
    """Client with which an API server reaches pods, through their nodes."""

    def logs(self, pod: Pod, container: str, options: PodLogOptions) -> AsyncIterator[bytes]:
        """Stream a container's log in chunks; raises `BadRequest` before the first if there is no log to read."""

    async def open(self, pod: Pod, container: str, wanted: PodStreamRequest) -> PodConnections:
        """Open a connection to a container, or to the pod if none is named; raises `NodeConnectionRefused`."""


class NodeDialer(PodDialer, Protocol):
    """Client with which an API server reaches nodes in its own process; injected by the program that runs both."""

    def can_reach(self, node: str) -> bool:
        """Return True if a node is reachable by this dialer."""

    async def send_request(self, node: str, request: NodeRequest) -> NodeResponse:
        """Send a request to a node's own endpoint and return its response."""


class VirtualGroup(Protocol):
    """API group whose objects are computed on request and never stored."""

    @property
    def resources(self) -> Sequence[Resource]:
        """Resources of the group, all of one group and version, with the verbs get and list."""

    def objects(self, resource: Resource, namespace: str, name: str = "") -> Sequence[Mapping[str, Any]]:
        """Return the objects of a namespace, or of all namespaces; with a name, only that object if it exists."""
