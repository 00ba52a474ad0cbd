"""What an API server asks of nodes on behalf of clients, and what it hears; shared by both ends. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kinds import Resource

# Annotation of nodes that run nothing: with no value those of a plane's own process, else those of another program.
SIMULATED = "sim.kubeloop.io/node"
# Annotation by which a kubelet says which certificate it shows: `sha256:` and the digest in hexadecimal digits.
SHOWN_CERTIFICATE = "kubeloop.io/kubelet-certificate"


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a log is wanted."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None
    stream: str = ""  # one of the two that a container writes to, by name, or All
    insecure: bool = False  # whether any certificate of the node will do


class TerminalSize(NamedTuple):
    """How many characters a terminal shows."""

    width: int
    height: int


class Streams(Protocol):
    """What a command in a container is connected to: somebody's input and output, which may be a terminal."""

    stdin: bool  # whether there is any input
    tty: bool
    size: TerminalSize | None  # of the terminal, as last told
    on_resize: Callable[[TerminalSize], None] | None  # who wants to hear of every new size

    async def read(self) -> bytes:
        """The next piece of input; empty once it is over."""

    async def write(self, data: bytes) -> None:
        """Say something; returns when there is room for more."""

    async def write_error(self, data: bytes) -> None:
        """Say something where errors are said; at a terminal that is the same place."""


class Duplex(Protocol):
    """A connection to a port."""

    async def read(self) -> bytes:
        """The next piece; empty once no more will come."""

    async def write(self, data: bytes) -> None: ...


class ForwardFailed(Exception):
    """Why a port can't be connected to."""


class ToldByNode(ForwardFailed):
    """The same in a node's own words, which need no more around them."""


class CommandFailed(Exception):
    """How a command ended other than by its exit code: the Status that a node gave."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status.get("message", ""))
        self.status = status


class NodeRefused(Exception):
    """A node's answer to somebody who wanted to be connected."""

    def __init__(self, status: int, body: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
        super().__init__(body.decode("utf-8", "replace"))
        self.status = status
        self.body = body
        self.content_type = content_type


class Wanted(NamedTuple):
    """What somebody wants to be connected to a container or pod for."""

    how: str  # exec, attach or portforward
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class NodeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one of a node's own pages."""

    method: str
    path: str  # decoded, with a slash in front
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def text(self, key: str) -> str:
        """The first value of an option; empty where there is none."""
        return next((value for name, value in self.query if name == key), "")


class NodeAnswer(msgspec.Struct, frozen=True):
    """A page, whole or in pieces as they come."""

    status: int
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = "text/plain; charset=utf-8"


class PodConnections(Protocol):
    """What can be done with a pod once its node has agreed."""

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], streams: Streams) -> int:
        """Run a command in a container; its exit code."""

    async def attach(self, pod: Pod, container: str, streams: Streams) -> None:
        """Be connected to what a container runs, until that ends."""

    async def forward(self, pod: Pod, port: int, connection: Duplex) -> None:
        """Serve a connection to a port of a pod until it is over; `ForwardFailed` if nobody listens there."""

    def close(self) -> None:
        """No more will be done; what is under way ends."""


class PodDialer(Protocol):
    """How an API server reaches pods: through their nodes."""

    def logs(self, pod: Pod, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """What a container wrote, in pieces; a `BadRequest` before the first if there is nothing to read from."""

    async def opened(self, pod: Pod, container: str, wanted: Wanted) -> PodConnections:
        """Be connected to a container, or to the pod if none is named; `NodeRefused` if that can't be done now."""


class NodeDialer(PodDialer, Protocol):
    """How an API server reaches nodes of its own process; handed in by whoever wires both."""

    def reaches(self, node: str) -> bool:
        """Whether a node can be asked at all."""

    async def page(self, node: str, request: NodeRequest) -> NodeAnswer:
        """What a node itself answers to a request."""


class ReadOnlyGroup(Protocol):
    """An API group whose objects nobody stores: they are made when somebody asks."""

    @property
    def resources(self) -> Sequence[Resource]:
        """What the group serves, all of one group and version, with the verbs get and list."""

    def objects(self, resource: Resource, namespace: str, name: str = "") -> Sequence[Mapping[str, Any]]:
        """The objects of a namespace, or of all; with a name, that one if it is there."""
