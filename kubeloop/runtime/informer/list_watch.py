# SPDX-License-Identifier: Apache-2.0
"""ListWatch: the collection of objects that a reflector lists and watches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kubeloop.api.kinds import Resource
from kubeloop.api.requests import ListResult, WatchEvent


class ListWatch(Protocol):
    """Collection that can be listed and watched."""

    @property
    def is_in_process(self) -> bool:
        """True if watches stay within this process: they end or fail, but never become silent unnoticed."""

    async def list(self, *, resource_version: str = "", limit: int = 0, continue_token: str = "") -> ListResult:
        """Return one page."""

    def watch(
        self, *, timeout_seconds: int, resource_version: str = "", initial_events: bool | None = None
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        """Yield batches of events and bookmarks until the server ends the watch; 0 seconds means never."""


class ListWatchClient(Protocol):
    """Client methods that list and watch need."""

    def is_in_process(self, resource: Resource) -> bool:
        """Return True if watches of the resource stay within this process."""

    async def list(
        self,
        what: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        metadata_only: bool = False,
    ) -> ListResult:
        """List objects."""

    def watch(
        self,
        what: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        initial_events: bool | None = None,
        timeout_seconds: int = 0,
        metadata_only: bool = False,
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        """Watch objects."""


@dataclass(frozen=True, slots=True)
class ResourceSelection:
    """Resource with namespace and selectors."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    def __str__(self) -> str:
        parts = [self.resource.group_resource]
        parts += [f"{name} {value}" for name, value in self._narrowed() if value]
        return ", ".join(parts) + (" (metadata only)" if self.metadata_only else "")

    def _narrowed(self) -> tuple[tuple[str, str], ...]:
        return (("in", self.namespace), ("labelled", self.labels), ("with", self.fields))


class ClientListWatch:
    """Selected objects of an API server."""

    def __init__(self, client: ListWatchClient, selection: ResourceSelection) -> None:
        self._client = client
        self._selection = selection

    @property
    def is_in_process(self) -> bool:
        """True if watches stay within this process."""
        return self._client.is_in_process(self._selection.resource)

    async def list(self, *, resource_version: str = "", limit: int = 0, continue_token: str = "") -> ListResult:
        """Return one page of the selected objects."""
        wanted = self._selection
        return await self._client.list(
            wanted.resource,
            wanted.namespace,
            labels=wanted.labels,
            fields=wanted.fields,
            metadata_only=wanted.metadata_only,
            resource_version=resource_version,
            limit=limit,
            continue_token=continue_token,
        )

    def watch(
        self, *, timeout_seconds: int, resource_version: str = "", initial_events: bool | None = None
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        """Watch the selected objects."""
        wanted = self._selection
        return self._client.watch(
            wanted.resource,
            wanted.namespace,
            labels=wanted.labels,
            fields=wanted.fields,
            metadata_only=wanted.metadata_only,
            resource_version=resource_version,
            initial_events=initial_events,
            timeout_seconds=timeout_seconds,
        )
