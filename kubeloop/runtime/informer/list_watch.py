"""What a reflector reads from: one collection of objects that can be listed and watched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kubeloop.api.kinds import Resource
from kubeloop.api.requests import ListResult, WatchEvent


class Source(Protocol):
    """A collection."""

    @property
    def is_in_process(self) -> bool:
        """Whether watches stay within this process: they end or fail, but never fall silent unnoticed."""

    async def list(self, *, resource_version: str = "", limit: int = 0, continue_token: str = "") -> ListResult:
        """One page."""

    def watch(
        self, *, timeout_seconds: int, resource_version: str = "", initial_events: bool | None = None
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        """Batches of events, bookmarks among them, until the server ends the watch; after 0 seconds means: never."""


class Reader(Protocol):
    """What reading takes of `kubeloop.client.Client`."""

    def is_in_process(self, resource: Resource) -> bool: ...

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
    ) -> ListResult: ...

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
    ) -> AsyncIterator[Sequence[WatchEvent]]: ...


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects: a resource, and what narrows it down."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    def __str__(self) -> str:
        parts = [self.resource.qualified]
        parts += [f"{name} {value}" for name, value in self._narrowed() if value]
        return ", ".join(parts) + (" (metadata only)" if self.metadata_only else "")

    def _narrowed(self) -> tuple[tuple[str, str], ...]:
        return (("in", self.namespace), ("labelled", self.labels), ("with", self.fields))


class SelectedSource:
    """The selected objects of an API server."""

    def __init__(self, client: Reader, selection: Selection) -> None:
        self._client = client
        self._selection = selection

    @property
    def is_in_process(self) -> bool:
        return self._client.is_in_process(self._selection.resource)

    async def list(self, *, resource_version: str = "", limit: int = 0, continue_token: str = "") -> ListResult:
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
