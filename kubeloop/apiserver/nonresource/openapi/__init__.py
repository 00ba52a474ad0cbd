# SPDX-License-Identifier: Apache-2.0
"""OpenAPI documents of the served resources, for kubectl (explain, apply, validation) and client generators.

    resources ─── paths.py ──┬─ v2.py ─┬─ JSON                       /openapi/v2
    definitions ─ schemas.py ┤         └─ protobuf.py                /openapi/v2
    descriptions.py ─────────┤
                             └─ v3.py ─── JSON, one per version      /openapi/v3, /openapi/v3/…

Documents are made on first use and cached encoded; a change of the served resources means a new `OpenAPI`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import msgspec

import kubeloop
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.nonresource.openapi import protobuf, v2, v3
from kubeloop.apiserver.nonresource.openapi.descriptions import (
    DescribedDefinitions,
    TypeDescription,
    package_descriptions,
)
from kubeloop.apiserver.nonresource.openapi.paths import OpenAPIPath, definitions_named_in, discovery_paths, paths_of
from kubeloop.apiserver.nonresource.openapi.schemas import (
    EXTRA_DEFINITIONS,
    DefinitionsSource,
    OpenAPIVersion,
    Schema,
    built_in_definitions,
    referenced_definitions,
)
from kubeloop.apiserver.request.etag import digest_of
from kubeloop.apiserver.request.negotiation import parse_accept

JSON = "application/json"
PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_INFO = {"title": "kubeloop", "version": kubeloop.__version__}
_V3_DEPTHS = {"api": 2, "apis": 3}
_PROTOBUF_V2_ASKED = (PROTOBUF_V2, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")


def v2_media_type(accept: str) -> str | None:
    """Return the media type for `/openapi/v2`, or None if no accepted one is supported."""
    for media, _ in parse_accept(accept or "*/*"):
        if media in _PROTOBUF_V2_ASKED:
            return PROTOBUF_V2
        if media in (JSON, "application/*", "*/*"):
            return JSON
    return None


def v3_media_type(accept: str) -> str | None:
    """Return the media type for `/openapi/v3/…`, which is JSON only, or None."""
    accepted = (media for media, _ in parse_accept(accept or "*/*"))
    return JSON if any(media in (JSON, "application/*", "*/*") for media in accepted) else None


class _Document(NamedTuple):
    body: bytes
    digest: str


class OpenAPI:
    """OpenAPI documents of a set of resources; type definitions are requested when a document is first made."""

    def __init__(
        self,
        resources: Sequence[Resource],
        definitions: DefinitionsSource = built_in_definitions,
        before: OpenAPI | None = None,
        descriptions: Callable[[], Mapping[str, TypeDescription]] = package_descriptions,
    ) -> None:
        """Set up the documents; those of `before` are reused for unchanged versions."""
        self._descriptions = descriptions
        self._resources = resources
        self._definitions = definitions
        self._versions = _by_version(resources)
        self._documents: dict[str, _Document] = before.reusable_documents(self._versions) if before is not None else {}

    def reusable_documents(self, versions: Mapping[str, Sequence[Resource]]) -> dict[str, _Document]:
        """Return the documents of versions with exactly the same resources."""
        same = (name for name, resources in versions.items() if self._versions.get(name) == resources)
        documents = ((f"v3/{name}", self._documents.get(f"v3/{name}")) for name in same)
        return {name: document for name, document in documents if document is not None}

    def v2_json(self) -> bytes:
        """Return the v2 document in JSON."""
        return self._v2(JSON, msgspec.json.encode).body

    def v2_json_etag(self) -> str:
        """Return the ETag of the v2 document in JSON."""
        return f'"{self._v2(JSON, msgspec.json.encode).digest}"'

    def v2_protobuf(self) -> bytes:
        """Return the v2 document in protobuf."""
        return self._v2(PROTOBUF_V2, protobuf.encode).body

    def v2_protobuf_etag(self) -> str:
        """Return the ETag of the v2 document in protobuf."""
        return f'"{self._v2(PROTOBUF_V2, protobuf.encode).digest}"'

    def v3_index(self) -> bytes:
        """Return the index of v3 documents."""
        return self._v3_index().body

    def v3_index_etag(self) -> str:
        """Return the ETag of the v3 index."""
        return f'"{self._v3_index().digest}"'

    def v3_document(self, name: str) -> bytes | None:
        """Return the document of `/openapi/v3/<name>`, as `api/v1` or `apis/apps/v1`; None if there is none."""
        return self._v3(name).body if name in self._v3_names else None

    def v3_digest(self, name: str) -> str | None:
        """Return the digest that links carry as `hash`, and ETags in quotes; None if there is no document."""
        return self._v3(name).digest if name in self._v3_names else None

    def _v2(self, media_type: str, encode: Callable[[dict[str, Any]], bytes]) -> _Document:
        return self._cached(media_type, lambda: encode(self._v2_tree()))

    def _v2_tree(self) -> dict[str, Any]:
        paths, facts = self._paths(), self._all_definitions("v2")
        return v2.v2_document(paths, referenced_definitions({*facts, *definitions_named_in(paths)}, facts), _INFO)

    def _v3(self, name: str) -> _Document:
        return self._cached("v3/" + name, lambda: self._make_v3(self._v3_paths()[name]))

    def _v3_index(self) -> _Document:
        return self._cached("v3", lambda: msgspec.json.encode(self._v3_index_tree()))

    def _v3_index_tree(self) -> dict[str, Any]:
        documents = {
            name: self._cached("v3/" + name, partial(self._make_v3, paths)) for name, paths in self._v3_paths().items()
        }
        return v3.v3_index({name: document.digest for name, document in documents.items()})

    def _make_v3(self, paths: Sequence[OpenAPIPath]) -> bytes:
        needed = referenced_definitions(definitions_named_in(paths), self._all_definitions("v3"))
        return msgspec.json.encode(v3.v3_document(paths, needed, _INFO))

    @cached_property
    def _v3_names(self) -> frozenset[str]:
        return frozenset(self._v3_paths())

    def _v3_paths(self) -> dict[str, list[OpenAPIPath]]:
        """Return the paths of each v3 document."""
        documents: dict[str, list[OpenAPIPath]] = {}
        for path in self._paths():
            documents.setdefault(_v3_name(path), []).append(path)
        return documents

    def _paths(self) -> list[OpenAPIPath]:
        groups: dict[str, dict[str, None]] = {}
        for resource in self._resources:
            groups.setdefault(resource.group, {})[resource.version] = None
        of_resources = (path for resource in self._resources for path in paths_of(resource))
        return sorted([*discovery_paths(groups), *of_resources])

    def _all_definitions(self, version: OpenAPIVersion) -> Mapping[str, Schema]:
        every = _AllDefinitions(self._definitions(version))
        told = self._descriptions()
        return DescribedDefinitions(every, told) if told else every

    def _cached(self, name: str, make: Callable[[], bytes]) -> _Document:
        document = self._documents.get(name)
        if document is None:
            body = make()
            document = self._documents[name] = _Document(body, digest_of(body))
        return document


class _AllDefinitions(Mapping[str, Schema]):
    """Definitions of types plus those that only OpenAPI uses; not copied, as definitions may be computed lazily."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def __getitem__(self, name: str) -> Schema:
        return EXTRA_DEFINITIONS[name] if name in EXTRA_DEFINITIONS else self._definitions[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._definitions
        yield from EXTRA_DEFINITIONS

    def __len__(self) -> int:
        return len(self._definitions) + len(EXTRA_DEFINITIONS)


def _by_version(resources: Sequence[Resource]) -> dict[str, list[Resource]]:
    """Return the resources of each v3 document of a group version."""
    versions: dict[str, list[Resource]] = {}
    for resource in resources:
        root = f"apis/{resource.group}" if resource.group else "api"
        versions.setdefault(f"{root}/{resource.version}", []).append(resource)
    return versions


def _v3_name(path: OpenAPIPath) -> str:
    """Return the v3 document of a path: one per group version, and one for each level above."""
    parts = path.path.strip("/").split("/")
    return "/".join(parts[: _V3_DEPTHS.get(parts[0])])
