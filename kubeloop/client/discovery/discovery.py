# SPDX-License-Identifier: Apache-2.0
"""Discovery of resources that are not built in; results are cached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kubeloop.api import errors
from kubeloop.api.kinds import Resource, Subresource
from kubeloop.client.discovery.rest_mapper import PartialResource, names_of
from kubeloop.client.errors import NoKindMatchError


class DiscoveryCache:
    """Cache of the server's APIResourceLists; one document per group and version."""

    def __init__(self, document: Callable[[str], Awaitable[Any]]) -> None:
        self._document = document
        self._found: dict[PartialResource, Resource] = {}

    async def find(self, wanted: PartialResource) -> Resource:
        """Return the wanted resource; raises `UnknownKind`. A miss is not cached."""
        known = self._found.get(wanted)
        if known is not None:
            return known
        for group_version in await self._candidates(wanted):
            for resource in await self._resources(group_version):
                if wanted.name in names_of(resource):
                    self._found[wanted] = resource
                    return resource
        raise NoKindMatchError(f"the server does not serve {wanted}")

    def invalidate(self) -> None:
        """Clear the cache: definitions may have changed."""
        self._found.clear()

    async def _candidates(self, wanted: PartialResource) -> Iterable[str]:
        if wanted.version:
            return [f"{wanted.group}/{wanted.version}" if wanted.group else wanted.version]
        groups = (await self._document("/apis")).get("groups") or ()
        chosen = [one for one in groups if wanted.group in (None, one["name"])]
        preferred = [one["preferredVersion"]["groupVersion"] for one in chosen]
        return preferred if wanted.group else ["v1", *preferred]

    async def _resources(self, group_version: str) -> list[Resource]:
        path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        try:
            listed = await self._document(path)
        except errors.NotFound:
            return []
        return resources_of(listed)


def resources_of(listed: dict[str, Any]) -> list[Resource]:
    """Convert an APIResourceList to entries of the kinds table."""
    group, _, version = str(listed.get("groupVersion", "")).rpartition("/")
    entries = [one for one in listed.get("resources") or () if not one.get("group") or "/" in one["name"]]
    subresources: dict[str, list[Subresource]] = {}
    for one in entries:
        plural, slash, name = one["name"].partition("/")
        if slash:
            subresources.setdefault(plural, []).append(_subresource(name, one))
    return [
        Resource(
            group,
            version,
            one["name"],
            one["kind"],
            namespaced=bool(one.get("namespaced")),
            short_names=tuple(one.get("shortNames") or ()),
            categories=tuple(one.get("categories") or ()),
            verbs=tuple(one.get("verbs") or ()),
            subresources=tuple(subresources.get(one["name"], ())),
        )
        for one in entries
        if "/" not in one["name"]
    ]


def _subresource(name: str, entry: dict[str, Any]) -> Subresource:
    own = entry.get("group") or entry.get("version")
    group_version = "/".join(filter(None, (entry.get("group"), entry.get("version")))) if own else ""
    return Subresource(name, group_version, entry.get("kind", "") if own else "", tuple(entry.get("verbs") or ()))
