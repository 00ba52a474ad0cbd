# SPDX-License-Identifier: Apache-2.0
"""Discovery documents: per group and version, or aggregated.

Documents are encoded on first use and cached; a change of the served resources means a new `Discovery`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from kubeloop.api.kinds import Resource, Subresource
from kubeloop.apiserver.request.etag import etag_of
from kubeloop.apiserver.request.negotiation import parse_accept

_AGGREGATED_KIND = ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
AGGREGATED_MEDIA_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def wants_aggregated(accept: str) -> bool:
    """Return True if an Accept header prefers aggregated discovery.

    If it accepts neither form, this is False: the negotiation of the plain form then rejects it.
    """
    for media, params in parse_accept(accept):
        if media not in ("application/json", "application/*", "*/*"):
            continue
        if (params.get("g"), params.get("v"), params.get("as")) == _AGGREGATED_KIND:
            return True
        if "as" not in params:
            return False
    return False


class DiscoveryDocuments:
    """Discovery documents of a set of resources.

    Groups and their versions are listed in the order in which the resources first name them, so that the first version
    of a group is the preferred one; within a version, resources are sorted by name.
    """

    def __init__(self, resources: Sequence[Resource], server_address: Callable[[], str]) -> None:
        self._server_address = server_address
        self._groups: dict[str, dict[str, list[Resource]]] = {}
        for resource in resources:
            self._groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
        self._documents: dict[tuple[str, ...], bytes] = {}
        self._etags: dict[str, str] = {}

    def has_built_in(self, group: str) -> bool:
        """Return True if a group has resources that are not custom."""
        versions = self._groups.get(group, {})
        return any(not resource.is_custom for resources in versions.values() for resource in resources)

    def versions_of(self, group: str) -> tuple[str, ...]:
        """Return the versions of a group, preferred first; empty for a group that isn't served."""
        return tuple(self._groups.get(group, ()))

    def paths(self) -> Iterator[str]:
        """Yield the paths of the documents of built-in groups, and of `/api` and `/apis` themselves."""
        yield from ("/api", "/apis", "/apis/")
        for group, versions in self._groups.items():
            if self.has_built_in(group):
                root = f"/apis/{group}" if group else "/api"
                yield root
                yield from (f"{root}/{version}" for version in versions)

    def core_versions(self) -> bytes:
        """Return the document of `/api`; never cached, as the address may change."""
        return msgspec.json.encode(
            {
                "kind": "APIVersions",
                "versions": self.versions_of(""),
                "serverAddressByClientCIDRs": [
                    {"clientCIDR": "0.0.0.0/0", "serverAddress": self._server_address()},
                ],
            }
        )

    def groups(self) -> bytes:
        """Return the document of `/apis`."""
        return self._cached(
            ("groups",),
            lambda: {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [group_document(name, tuple(versions)) for name, versions in self._named_groups()],
            },
        )

    def group(self, group: str) -> bytes | None:
        """Return the document of `/apis/<group>`, or None."""
        if not group or group not in self._groups:
            return None
        return self._cached(
            ("group", group),
            lambda: {"kind": "APIGroup", "apiVersion": "v1"} | group_document(group, self.versions_of(group)),
        )

    def resources(self, group: str, version: str) -> bytes | None:
        """Return the document of `/api/v1` or `/apis/<group>/<version>`, or None."""
        served = self._groups.get(group, {}).get(version)
        if served is None:
            return None
        return self._cached(("resources", group, version), lambda: _resource_list(group, version, served))

    def aggregated_core(self) -> bytes:
        """Return the aggregated document of `/api`."""
        return self._cached(("aggregated", ""), lambda: _aggregated([("", self._groups.get("", {}))]))

    def aggregated_groups(self) -> bytes:
        """Return the aggregated document of `/apis`."""
        return self._cached(("aggregated",), lambda: _aggregated(self._named_groups()))

    def aggregated_core_etag(self) -> str:
        """Return the ETag of the aggregated document of `/api`."""
        return self._etags.get("core") or self._etags.setdefault("core", etag_of(self.aggregated_core()))

    def aggregated_groups_etag(self) -> str:
        """Return the ETag of the aggregated document of `/apis`."""
        return self._etags.get("groups") or self._etags.setdefault("groups", etag_of(self.aggregated_groups()))

    def _named_groups(self) -> list[tuple[str, dict[str, list[Resource]]]]:
        return [(name, versions) for name, versions in self._groups.items() if name]

    def _cached(self, key: tuple[str, ...], make: Callable[[], dict[str, Any]]) -> bytes:
        document = self._documents.get(key)
        if document is None:
            document = self._documents[key] = msgspec.json.encode(make())
        return document


def group_document(name: str, versions: Sequence[str]) -> dict[str, Any]:
    """Return a group with its versions, the preferred one first."""
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _by_name(resources: Sequence[Resource]) -> list[Resource]:
    return sorted(resources, key=lambda resource: resource.plural)


def _resource_list(group: str, version: str, resources: Sequence[Resource]) -> dict[str, Any]:
    # Upstream's core list has no apiVersion.
    head = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group else {})
    rows = [row for resource in _by_name(resources) for row in _rows(resource)]
    return head | {"groupVersion": f"{group}/{version}" if group else version, "resources": rows}


def _rows(resource: Resource) -> Iterator[dict[str, Any]]:
    """Yield the row of a resource, then those of its subresources."""
    row: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    }
    row |= _short_names_and_categories(resource)
    if resource.is_stored:
        row["storageVersionHash"] = resource.storage_version_hash
    yield row
    for subresource in resource.subresources:
        yield _subresource_row(resource, subresource)


def _subresource_row(resource: Resource, subresource: Subresource) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": f"{resource.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    if subresource.group_version:
        row["group"], _, row["version"] = subresource.group_version.rpartition("/")
    return row | {"kind": subresource.kind or resource.kind, "verbs": subresource.verbs}


def _short_names_and_categories(resource: Resource) -> dict[str, Any]:
    found = {"shortNames": resource.short_names, "categories": resource.categories}
    return {key: names for key, names in found.items() if names}


def _aggregated(groups: Sequence[tuple[str, dict[str, list[Resource]]]]) -> dict[str, Any]:
    return aggregated_list(
        {
            "metadata": {"name": name} if name else {},
            "versions": [aggregated_version(version, resources) for version, resources in versions.items()],
        }
        for name, versions in groups
    )


def aggregated_list(groups: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the APIGroupDiscoveryList of groups in aggregated form."""
    group, version, kind = _AGGREGATED_KIND
    return {"kind": kind, "apiVersion": f"{group}/{version}", "metadata": {}, "items": list(groups)}


def aggregated_version(version: str, resources: Sequence[Resource]) -> dict[str, Any]:
    """Return one local version of a group in aggregated form."""
    return {
        "version": version,
        "resources": [_aggregated_resource(resource) for resource in _by_name(resources)],
        "freshness": "Current",
    }


def _aggregated_resource(resource: Resource) -> dict[str, Any]:
    own_version = resource.group_version if resource.is_custom else ""  # upstream names it for custom resources only
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _response_kind(own_version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    }
    entry |= _short_names_and_categories(resource)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": subresource.name,
                "responseKind": _response_kind(
                    subresource.group_version or own_version, subresource.kind or resource.kind
                ),
                "verbs": subresource.verbs,
            }
            for subresource in resource.subresources
        ]
    return entry


def _response_kind(group_version: str, kind: str) -> dict[str, str]:
    """Return the response kind; empty group and version mean those of the resource itself."""
    group, _, version = group_version.rpartition("/")
    return {"group": group, "version": version, "kind": kind}
