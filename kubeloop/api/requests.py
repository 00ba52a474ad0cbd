# SPDX-License-Identifier: Apache-2.0
"""Requests to an API server and their results, independent of the transport: HTTP or in-process calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from kubeloop.api.kinds import Resource

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """Request to an API server."""

    verb: Verb
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Any = None  # a struct of the resource's kind, or a mapping; a patch or an Overlay; delete options
    patch_type: str = ""  # the media type of a patch
    options: Mapping[str, str] = {}  # the query: selectors, versions, limits, dry run, field manager…
    metadata_only: bool = False
    cause: str = ""  # reason of this write, for users; see the runtime's causes
    user_agent: str = "kubeloop"
    timeout: float | None = 30.0
    guard: Callable[[], None] | None = None  # called immediately before the call is sent; may raise


class ListResult(msgspec.Struct, frozen=True, kw_only=True):
    """Page of a list."""

    items: tuple[Any, ...]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """Watch event; a bookmark has no object but carries the resourceVersion that the watch has reached."""

    type: EventType
    object: Any
    resource_version: str
    initial_events_end: bool = False


class Transport(Protocol):
    """Protocol of a transport to a server; raises `kubeloop.api.errors.ApiError` or transport errors."""

    async def call(self, call: Call) -> Any:
        """Send a call and return the object, the `ListResult`, or for a completed deletion the Status mapping."""

    def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        """Yield batches of events until the server ends the watch; raises `Expired` if the version is too old."""

    async def close(self) -> None:
        """Close all connections."""
