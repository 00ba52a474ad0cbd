"""What an API server asks of nodes on behalf of clients, and what it hears; shared by both ends. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kinds import Resource


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a log is wanted."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None


class TerminalSize(NamedTuple):
    """How many characters a terminal shows."""

    width: int
    height: int


class Streams(Protocol):
    """What a command in a container is connected to: somebody's input and output, which may be a terminal."""

    stdin: bool  # whether there is any input
    tty: bool
    size: TerminalSize | None  # of the terminal, as last told

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


class NodeDialer(Protocol):
    """How an API server reaches nodes; handed in by whoever wires both."""

    def reaches(self, node: str) -> bool:
        """Whether a node can be asked at all."""

    def logs(self, pod: Pod, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """What a container wrote, in pieces; a `BadRequest` before the first if there is nothing to read from."""

    def why_no_stream(self, pod: Pod, container: str) -> str:
        """Why nobody can be connected to a container now, or to the pod if none is named; empty if it can be done."""

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], streams: Streams) -> int:
        """Run a command in a container; its exit code."""

    async def attach(self, pod: Pod, container: str, streams: Streams) -> None:
        """Be connected to what a container runs, until that ends."""

    async def forward(self, pod: Pod, port: int, connection: Duplex) -> None:
        """Serve a connection to a port of a pod until it is over; `ForwardFailed` if nobody listens there."""

    async def page(self, node: str, request: NodeRequest) -> NodeAnswer:
        """What a node itself answers to a request."""


class ReadOnlyGroup(Protocol):
    """An API group whose objects nobody stores: they are made when somebody asks."""

    @property
    def resources(self) -> Sequence[Resource]:
        """What the group serves, all of one group and version, with the verbs get and list."""

    def objects(self, resource: Resource, namespace: str, name: str = "") -> Sequence[Mapping[str, Any]]:
        """The objects of a namespace, or of all; with a name, that one if it is there."""
