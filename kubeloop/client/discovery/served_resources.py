# SPDX-License-Identifier: Apache-2.0
"""Full discovery: all resources in all versions, and the groups that failed.

/api, /apis ──▶ groups and versions ──▶ one document each ──▶ Served: by kind, and by each one's preferred version
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kubeloop.api.errors import ApiError
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.client.discovery.discovery import resources_of
from kubeloop.client.errors import ClientError

Document = Callable[[str], Awaitable[Any]]

# Number of documents fetched concurrently.
_CONCURRENCY = 16
_BUILT_IN = {(one.group, one.version, one.plural): one for one in RESOURCES}


@cache
def _optional_resources() -> dict[tuple[str, str, str], Resource]:
    from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES  # few servers serve these

    return {(one.group, one.version, one.plural): one for one in OPTIONAL_RESOURCES}


@dataclass(frozen=True, slots=True)
class ServedResources:
    """Result of discovery. Resources of failed groups are missing: their absence proves nothing."""

    groups: tuple[tuple[str, ...], ...]  # the versions of each group as `group/version`, preferred first
    resources: Mapping[str, tuple[Resource, ...]]  # by group and version
    failures: Mapping[str, Exception] = field(default_factory=dict)  # by group and version

    def all_resources(self) -> Iterable[Resource]:
        """Yield the resources in all versions."""
        for group in self.groups:
            for version in group:
                yield from self.resources.get(version, ())

    def preferred_resources(self) -> Iterable[Resource]:
        """Yield each resource once: in its group's preferred version, or else in the first that has it."""
        for group in self.groups:
            seen: set[str] = set()
            for version in group:
                found = [one for one in self.resources.get(version, ()) if one.plural not in seen]
                seen.update(one.plural for one in found)
                yield from found

    def error_text(self) -> str:
        """Return client-go's error text for the failed groups; empty if there are none."""
        if not self.failures:
            return ""
        told = ", ".join(f"{version}: {error}" for version, error in sorted(self.failures.items()))
        return f"unable to retrieve the complete list of server APIs: {told}"


async def discover_resources(document: Document) -> ServedResources:
    """Discover a server's resources through `Client.document`. Raises only if the groups cannot be listed."""
    core, others = await asyncio.gather(document("/api"), document("/apis"))
    groups = (tuple(core.get("versions") or ()), *map(_versions_of, others.get("groups") or ()))
    versions = [version for group in groups for version in group]
    limit = asyncio.Semaphore(_CONCURRENCY)

    async def ask(version: str) -> Sequence[Resource] | Exception:
        async with limit:
            try:
                return _table_resources(await document(f"/apis/{version}" if "/" in version else f"/api/{version}"))
            except (ApiError, ClientError, OSError, TimeoutError) as error:
                return error

    answers = dict(zip(versions, await asyncio.gather(*map(ask, versions)), strict=True))
    return ServedResources(
        groups,
        {version: tuple(found) for version, found in answers.items() if not isinstance(found, Exception)},
        {version: found for version, found in answers.items() if isinstance(found, Exception)},
    )


def _versions_of(group: Mapping[str, Any]) -> tuple[str, ...]:
    preferred = (group.get("preferredVersion") or {}).get("groupVersion", "")
    versions = [one["groupVersion"] for one in group.get("versions") or ()]
    return tuple(sorted(versions, key=lambda version: version != preferred))


def _table_resources(listed: dict[str, Any]) -> list[Resource]:
    """Return a document's resources; those in the kinds table are the table's shared entries."""
    return [_table_entry(one) for one in resources_of(listed)]


def _table_entry(found: Resource) -> Resource:
    key = (found.group, found.version, found.plural)
    built_in = _BUILT_IN.get(key)
    if built_in is None and "a" in found.version:  # alpha or beta
        built_in = _optional_resources().get(key)
    if built_in is None or built_in.namespaced != found.namespaced or set(built_in.verbs) != set(found.verbs):
        return found
    return built_in
