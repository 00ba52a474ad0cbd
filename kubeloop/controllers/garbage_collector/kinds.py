"""Which kinds the server has at this moment, by its own word; what it cannot tell of stays as it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kubeloop.api.kinds import Resource
from kubeloop.client.discovery.served_resources import Document, Served, discover

# Objects that nobody owns anything by, and that change all the time.
IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
_NEEDED = frozenset({"delete", "list", "watch"})


class Discovering(Protocol):
    """What this takes of a client."""

    @property
    def document(self) -> Document: ...

    def edition(self) -> object | None: ...


@dataclass(frozen=True, slots=True)
class Found:
    """What came of asking."""

    collectable: list[Resource]  # to be watched
    has_new_kinds: bool
    complaint: str  # what could not be asked


class Kinds:
    """From an owner reference's words to a resource, and all resources whose objects can be collected."""

    def __init__(self, client: Discovering) -> None:
        self._client = client
        self._by_version: dict[str, tuple[Resource, ...]] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._edition: object | None = None  # that all of this is of, if there is such a thing
        self._collectable: list[Resource] = []

    def find(self, api_version: str, kind: str) -> Resource | None:
        return self._by_kind.get((api_version, kind))

    async def refresh(self) -> Found:
        """Ask again, unless nothing can have changed. Raises if the server does not even tell its groups."""
        edition = self._client.edition()
        if edition is not None and edition is self._edition:
            return Found(self._collectable, False, "")
        served = await discover(self._client.document)
        found = dict(served.resources)
        for version in served.failures:
            if version in self._by_version:  # its objects are not gone because somebody cannot be asked about them
                found[version] = self._by_version[version]
        if not found:
            return Found([], False, served.complaint())
        whole, before = Served(served.groups, found), self._by_kind.keys()
        self._by_version, self._by_kind = found, {}
        for one in whole.all():
            self._by_kind.setdefault((one.group_version, one.kind), one)
        has_new_kinds = not self._by_kind.keys() <= before
        self._edition = None if served.failures else edition
        self._collectable = list(collectable(whole.preferred()))
        return Found(self._collectable, has_new_kinds, served.complaint())


def collectable(resources: Iterable[Resource]) -> Iterable[Resource]:
    for one in resources:
        if (one.group, one.plural) not in IGNORED and _NEEDED.issubset(one.verbs):
            yield one
