"""What the client asks of a transport beyond the calls that every user of the API makes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call, Transport


class ClientTransport(Transport, Protocol):
    """A transport that also serves discovery and streams, and says what it knows without asking."""

    def is_in_process(self, resource: Resource) -> bool:
        """Whether watches of a resource stay within this process: they end or fail, but never fall silent unnoticed."""

    def edition(self) -> object | None:
        """Another object whenever other kinds are served than before; None where only asking tells."""

    async def document(self, path: str) -> Any:
        """What is served at a path that is no resource, as plain data."""

    def stream(self, call: Call) -> AsyncIterator[bytes]:
        """An answer's body in the pieces in which it comes."""
