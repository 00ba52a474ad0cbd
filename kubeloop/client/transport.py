# SPDX-License-Identifier: Apache-2.0
"""Transport interface of the client, beyond the calls that every user of the API makes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call, Transport


class ClientTransport(Transport, Protocol):
    """Transport that also serves discovery and streams."""

    def is_in_process(self, resource: Resource) -> bool:
        """Return True if watches of a resource stay within this process.

        Such watches end or fail, but never become silent unnoticed.
        """

    def discovery_version(self) -> object | None:
        """Return an object that changes whenever the set of served kinds does; None if unknown."""

    async def document(self, path: str) -> Any:
        """Return the document at a non-resource path as plain data."""

    def stream(self, call: Call) -> AsyncIterator[bytes]:
        """Yield a response body in the pieces received."""


def commit_together(transport: Transport, call: Call, names: Sequence[str]) -> Awaitable[list[str]]:
    """Make a write for those of the named objects for which the transport can, in one commit and without another wait.

    Returns the resourceVersion of each written object, and an empty text for each that was not written. A transport
    that can do this has a method of the same name.
    """
    own: Callable[[Call, Sequence[str]], Awaitable[list[str]]] | None = getattr(transport, "commit_together", None)
    return _commit_none(names) if own is None else own(call, names)


async def _commit_none(names: Sequence[str]) -> list[str]:
    return [""] * len(names)
