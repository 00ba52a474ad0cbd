"""What a reflector reads from: one collection of objects that can be listed and watched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kubeloop.api.calls import Call, ListResult, WatchEvent
from kubeloop.api.kinds import Resource


class Source(Protocol):
    """A collection; the options are those of the API's lists and watches."""

    async def list(self, options: Mapping[str, str]) -> ListResult:
        """One page."""

    def watch(self, options: Mapping[str, str]) -> AsyncIterator[Sequence[WatchEvent]]:
        """Batches of events until the server ends the watch."""


class Caller(Protocol):
    """The part of `kubeloop.api.calls.Transport` that reading takes."""

    async def call(self, call: Call) -> Any: ...

    def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]: ...


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

    def __init__(self, caller: Caller, selection: Selection, *, user_agent: str = "kubeloop") -> None:
        self._caller = caller
        self._selection = selection
        self._user_agent = user_agent
        selectors = {"labelSelector": selection.labels, "fieldSelector": selection.fields}
        self._selectors = {name: text for name, text in selectors.items() if text}

    async def list(self, options: Mapping[str, str]) -> ListResult:
        page: ListResult = await self._caller.call(self._call("list", options))
        return page

    def watch(self, options: Mapping[str, str]) -> AsyncIterator[Sequence[WatchEvent]]:
        return self._caller.watch(self._call("watch", options))

    def _call(self, verb: Any, options: Mapping[str, str]) -> Call:
        return Call(
            verb=verb,
            resource=self._selection.resource,
            namespace=self._selection.namespace,
            options={**self._selectors, **options},
            metadata_only=self._selection.metadata_only,
            user_agent=self._user_agent,
        )
