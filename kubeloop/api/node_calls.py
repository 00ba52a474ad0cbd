"""What an API server asks of nodes on behalf of clients, and what it hears; shared by both ends. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

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


class ExecResult(msgspec.Struct, frozen=True):
    """What a command that was run in a container has said, and its exit code."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0


class NodeDialer(Protocol):
    """How an API server reaches nodes; handed in by whoever wires both."""

    def reaches(self, node: str) -> bool:
        """Whether a node can be asked at all."""

    def logs(self, pod: Pod, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """What a container wrote, in pieces; a `BadRequest` before the first if there is nothing to read from."""

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], stdin: bytes) -> ExecResult:
        """Run a command in a container."""


class ReadOnlyGroup(Protocol):
    """An API group whose objects nobody stores: they are made when somebody asks."""

    @property
    def resources(self) -> Sequence[Resource]:
        """What the group serves, all of one group and version, with the verbs get and list."""

    def objects(self, resource: Resource, namespace: str, name: str = "") -> Sequence[Mapping[str, Any]]:
        """The objects of a namespace, or of all; with a name, that one if it is there."""
