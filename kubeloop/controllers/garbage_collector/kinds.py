# SPDX-License-Identifier: Apache-2.0
"""Discovers the kinds that the server has; groups that cannot be read keep their former kinds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kubeloop.api.kinds import Resource
from kubeloop.client.discovery.served_resources import Document, ServedResources, discover_resources

# Objects that own nothing and change frequently.
IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
_NEEDED = frozenset({"delete", "list", "watch"})


class DiscoveryClient(Protocol):
    """Part of a client that discovery needs."""

    @property
    def document(self) -> Document:
        """Method that reads a document from a path."""

    def discovery_version(self) -> object | None:
        """Return a token that changes with the server's kinds, or None."""


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """Result of a discovery."""

    collectable: list[Resource]  # to be watched
    has_new_kinds: bool
    errors: str  # errors of the discovery


class RestMapper:
    """Maps owner references to resources, and lists the resources whose objects can be collected."""

    def __init__(self, client: DiscoveryClient) -> None:
        self._client = client
        self._by_version: dict[str, tuple[Resource, ...]] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._edition: object | None = None  # token of the discovered state, if the client has one
        self._collectable: list[Resource] = []

    def find(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind, or None."""
        return self._by_kind.get((api_version, kind))

    async def refresh(self) -> DiscoveryResult:
        """Discover again, unless nothing can have changed. Raises if the server does not return its groups."""
        edition = self._client.discovery_version()
        if edition is not None and edition is self._edition:
            return DiscoveryResult(self._collectable, False, "")
        served = await discover_resources(self._client.document)
        found = dict(served.resources)
        for version in served.failures:
            if version in self._by_version:  # a failed discovery does not mean that its objects are gone
                found[version] = self._by_version[version]
        if not found:
            return DiscoveryResult([], False, served.error_text())
        whole, before = ServedResources(served.groups, found), self._by_kind.keys()
        self._by_version, self._by_kind = found, {}
        for one in whole.all_resources():
            self._by_kind.setdefault((one.group_version, one.kind), one)
        has_new_kinds = not self._by_kind.keys() <= before
        self._edition = None if served.failures else edition
        self._collectable = list(collectable_resources(whole.preferred_resources()))
        return DiscoveryResult(self._collectable, has_new_kinds, served.error_text())


def collectable_resources(resources: Iterable[Resource]) -> Iterable[Resource]:
    """Filter the resources that can be collected."""
    for one in resources:
        if (one.group, one.plural) not in IGNORED and _NEEDED.issubset(one.verbs):
            yield one
