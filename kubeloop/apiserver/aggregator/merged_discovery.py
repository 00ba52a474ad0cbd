# SPDX-License-Identifier: Apache-2.0
"""Discovery documents of this server merged with those of extension API servers, sorted by priority."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kubeloop.api.kinds import Resource
from kubeloop.apiserver.aggregator.discovery_cache import RemoteVersion
from kubeloop.apiserver.apiextensions.resource import version_priority_key
from kubeloop.apiserver.bootstrap.api_services import OWN_GROUP, group_priority, version_priority
from kubeloop.apiserver.nonresource.discovery import (
    DiscoveryDocuments,
    aggregated_list,
    aggregated_version,
    group_document,
)

# Priorities with which upstream registers the groups and versions of CRDs.
_CUSTOM_GROUP_PRIORITY = 1000
_CUSTOM_VERSION_PRIORITY = 100


class MergedDiscovery(DiscoveryDocuments):
    """Discovery of local and remote group versions."""

    def __init__(
        self, resources: Sequence[Resource], server_address: Callable[[], str], remote: Sequence[RemoteVersion]
    ) -> None:
        super().__init__(resources, server_address)
        self._remote = {(one.group, one.version): one for one in remote if one.group}
        self._order = self._ordered()

    def versions_of(self, group: str) -> tuple[str, ...]:
        """Return the versions of a group by priority."""
        return self._order.get(group, ()) if group else super().versions_of(group)

    def group(self, group: str) -> bytes | None:
        """Return the encoded APIGroup, or None."""
        versions = self._order.get(group)
        if not versions:
            return None
        head = {"kind": "APIGroup", "apiVersion": "v1"}
        return self._cached(("group", group), lambda: head | group_document(group, versions))

    def groups(self) -> bytes:
        """Return the encoded APIGroupList."""
        listed = [group_document(name, versions) for name, versions in self._order.items()]
        return self._cached(("groups",), lambda: {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})

    def aggregated_groups(self) -> bytes:
        """Return the encoded APIGroupDiscoveryList."""
        return self._cached(("aggregated",), self._aggregated_document)

    def _aggregated_document(self) -> dict[str, Any]:
        return aggregated_list(
            {
                "metadata": {"name": group},
                "versions": [self._version_document(group, version) for version in versions],
            }
            for group, versions in self._order.items()
        )

    def _version_document(self, group: str, version: str) -> dict[str, Any]:
        remote = self._remote.get((group, version))
        if remote is None:
            return aggregated_version(version, self._groups[group][version])
        told: dict[str, Any] = {"version": version}
        if remote.resources:
            told["resources"] = remote.resources
        return told | {"freshness": "Current" if remote.fresh else "Stale"}

    def _ordered(self) -> dict[str, tuple[str, ...]]:
        """Return groups and their versions by priority; local ones come first among equals."""
        groups: dict[str, tuple[Any, ...]] = {}
        versions: dict[str, dict[str, tuple[Any, ...]]] = {}
        for index, (group, local) in enumerate(self._groups.items()):
            custom = not self.has_built_in(group)
            groups[group] = (-_CUSTOM_GROUP_PRIORITY if custom else -group_priority(group), 0, index)
            for version in local:
                priority = _CUSTOM_VERSION_PRIORITY if custom else version_priority(group, version)
                versions.setdefault(group, {})[version] = (-priority, version_priority_key(version))
        for (group, version), one in self._remote.items():
            rank = (-one.group_priority, 1, group)
            groups[group] = min(groups.get(group, rank), rank, key=lambda known: known[0])
            versions.setdefault(group, {})[version] = (-one.version_priority, version_priority_key(version))
        ordered = sorted((group for group in groups if group), key=lambda group: (group != OWN_GROUP, groups[group]))
        return {group: tuple(sorted(versions[group], key=versions[group].__getitem__)) for group in ordered}
