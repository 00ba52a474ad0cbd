# SPDX-License-Identifier: Apache-2.0
"""Cache of an extension API server's discovery and OpenAPI documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.aggregator.proxy_identity import plain_get
from kubeloop.apiserver.aggregator.remote import RemoteAPIServer
from kubeloop.apiserver.request.etag import digest_of

_AGGREGATED_MEDIA_TYPE = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ACCEPT_DISCOVERY = f"application/json;{_AGGREGATED_MEDIA_TYPE},application/json"

Tree = dict[str, Any]


class CachedDocument(NamedTuple):
    """Cached document with its ETag."""

    etag: str
    body: bytes


class RemoteVersion(NamedTuple):
    """Discovery and OpenAPI of one remote group version; `fresh` is False if its server did not answer."""

    group: str
    version: str
    group_priority: int
    version_priority: int
    resources: tuple[Tree, ...] = ()
    fresh: bool = False
    v2: bytes = b""
    v3: bytes = b""

    @property
    def root(self) -> str:
        """Path prefix of the version, without a leading slash."""
        return f"apis/{self.group}/{self.version}"


class RemoteDocumentReader:
    """Reads one remote's documents repeatedly; unchanged ones are not transferred again."""

    def __init__(self) -> None:
        self._documents: dict[str, CachedDocument] = {}
        self._resources: tuple[Tree, ...] = ()
        self._v2 = self._v3 = b""

    def cached_version(self, remote: RemoteAPIServer, fresh: bool) -> RemoteVersion:
        """Return the cached state."""
        spec = remote.api.spec
        priorities = spec.group_priority_minimum, spec.version_priority
        return RemoteVersion(spec.group, spec.version, *priorities, self._resources, fresh, self._v2, self._v3)

    async def read(self, remote: RemoteAPIServer) -> RemoteVersion:
        """Read the documents; on failure keep the last resources, marked stale, and drop the OpenAPI."""
        try:
            self._resources = await self._read_resources(remote)
        except (RemoteUnreachable, msgspec.DecodeError, KeyError, TypeError, AttributeError):
            return self.cached_version(remote, fresh=False)
        self._v3 = await self._get_or_empty(remote, f"/openapi/v3/apis/{remote.group}/{remote.version}")
        self._v2 = _only_under(await self._get_or_empty(remote, "/openapi/v2"), remote.root + "/")
        return self.cached_version(remote, fresh=True)

    async def _read_resources(self, remote: RemoteAPIServer) -> tuple[Tree, ...]:
        listed = await self._get(remote, "/apis", _ACCEPT_DISCOVERY)
        if listed is not None:
            found = _resources_in(listed, remote.group, remote.version)
            if found is not None:
                return found
        plain = await self._get(remote, remote.root, "application/json")
        if plain is None:
            raise RemoteUnreachable(f"{remote.root} not found")
        return to_aggregated_resources(msgspec.json.decode(plain)["resources"])

    async def _get_or_empty(self, remote: RemoteAPIServer, path: str) -> bytes:
        try:
            return await self._get(remote, path, "application/json") or b""
        except RemoteUnreachable:
            return b""

    async def _get(self, remote: RemoteAPIServer, path: str, accept: str) -> bytes | None:
        """Return a document, or None if there is none."""
        before = self._documents.get(path)
        headers = {"accept": accept} | ({"if-none-match": before.etag} if before is not None and before.etag else {})
        head, body = await remote.document(plain_get(path, headers))
        if head.status == 304 and before is not None:
            return before.body
        if head.status != 200:
            self._documents.pop(path, None)
            return None
        self._documents[path] = CachedDocument(head.headers.get("etag", ""), body)
        return body


def _resources_in(document: bytes, group: str, version: str) -> tuple[Tree, ...] | None:
    """Return a version's resources in an aggregated discovery list; None if it is no such list or lacks the version."""
    listed = msgspec.json.decode(document)
    if listed.get("kind") != "APIGroupDiscoveryList":
        return None
    for one in listed.get("items") or ():
        if one["metadata"].get("name", "") == group:
            for told in one.get("versions") or ():
                if told["version"] == version:
                    return tuple(told.get("resources") or ())
    return None


def to_aggregated_resources(rows: Iterable[Mapping[str, Any]]) -> tuple[Tree, ...]:
    """Convert an APIResourceList to the aggregated form, with subresources nested in their resource."""
    found: dict[str, Tree] = {}
    for row in rows:
        name, _, subresource = row["name"].partition("/")
        kind = {"group": row.get("group", ""), "version": row.get("version", ""), "kind": row["kind"]}
        if subresource:
            entry = {"subresource": subresource, "responseKind": kind, "verbs": row.get("verbs") or []}
            owner = found.setdefault(name, {"resource": name, "scope": _scope(row), "verbs": []})
            owner.setdefault("subresources", []).append(entry)
        else:
            known = found.setdefault(name, {})
            known |= {"resource": name, "responseKind": kind, "scope": _scope(row), "verbs": row.get("verbs") or []}
            known["singularResource"] = row.get("singularName", "")
            known |= {key: row[key] for key in ("shortNames", "categories") if row.get(key)}
    return tuple(found[name] for name in sorted(found))


def _scope(row: Mapping[str, Any]) -> str:
    return "Namespaced" if row.get("namespaced") else "Cluster"


def _only_under(document: bytes, prefix: str) -> bytes:
    """Return the paths under a prefix, and all definitions; the merge selects the referenced ones."""
    try:
        whole = msgspec.json.decode(document)
        paths = {path: item for path, item in whole["paths"].items() if path.startswith(prefix)}
        return msgspec.json.encode({"paths": paths, "definitions": whole.get("definitions") or {}})
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return b""


def digest_v3(version: RemoteVersion) -> str:
    """Return the digest of the version's OpenAPI v3 document."""
    return digest_of(version.v3)


def sorted_versions(versions: Iterable[RemoteVersion]) -> Sequence[RemoteVersion]:
    """Return the versions sorted by name, so that equal sets are equal sequences."""
    return sorted(versions, key=lambda one: (one.group, one.version))
