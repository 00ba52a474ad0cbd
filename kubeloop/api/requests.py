"""One request to an API server and what comes back, whatever carries them: HTTP, or a call within the process."""

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
    """What is asked of a server."""

    verb: Verb
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Any = None  # a struct of the resource's kind, or a mapping; a patch or an Overlay; delete options
    patch_type: str = ""  # the media type of a patch
    options: Mapping[str, str] = {}  # the query: selectors, versions, limits, dry run, field manager…
    metadata_only: bool = False
    cause: str = ""  # why this write is made, for people; see the runtime's causes
    user_agent: str = "kubeloop"
    timeout: float | None = 30.0
    guard: Callable[[], None] | None = None  # asked again in the moment in which the call leaves; may raise


class ListResult(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list."""

    items: tuple[Any, ...]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One change; a bookmark has no object but says how far the watch has come."""

    type: EventType
    object: Any
    resource_version: str
    initial_events_end: bool = False


class Transport(Protocol):
    """How calls reach a server. Failures are raised as `kubeloop.api.errors.ApiError`, or as transport errors."""

    async def call(self, call: Call) -> Any:
        """The object, the `ListResult`, or for a finished deletion the Status mapping."""

    def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        """Batches of events until the server ends the watch; `Expired` when the version is too old."""

    async def close(self) -> None:
        """Let go of connections."""
