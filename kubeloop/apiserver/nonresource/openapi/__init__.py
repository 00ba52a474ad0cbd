"""OpenAPI documents of what the server serves, for kubectl's explain, apply and validation, and for client makers.

    resources ─ paths.py ──┬─ v2.py ─┬─ JSON                    /openapi/v2
    facts ──── schemas.py ─┤         └─ protobuf.py             /openapi/v2
                           └─ v3.py ─── JSON, one a version     /openapi/v3, /openapi/v3/…

Documents are made when first asked for and kept encoded; a change of the served resources is a new `OpenAPI`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import msgspec

import kubeloop
from kubeloop.api import schema
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.nonresource.openapi import protobuf, v2, v3
from kubeloop.apiserver.nonresource.openapi.paths import Path, definitions_named_in, discovery_paths, paths_of
from kubeloop.apiserver.nonresource.openapi.schemas import EXTRA_DEFINITIONS, Schema, reached_from
from kubeloop.apiserver.request.etag import digest_of
from kubeloop.apiserver.request.negotiation import clauses

JSON = "application/json"
PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# No descriptions anywhere: what kinds are for is told by Kubernetes' own documentation.
_INFO = {"title": "kubeloop", "version": kubeloop.__version__}
_V3_DEPTHS = {"api": 2, "apis": 3}
_PROTOBUF_V2_ASKED = (PROTOBUF_V2, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")


def v2_media_type(accept: str) -> str | None:
    """The media type to answer `/openapi/v2` with, or None where nothing that is asked for can be given."""
    for media, _ in clauses(accept or "*/*"):
        if media in _PROTOBUF_V2_ASKED:
            return PROTOBUF_V2
        if media in (JSON, "application/*", "*/*"):
            return JSON
    return None


def v3_media_type(accept: str) -> str | None:
    """The same for `/openapi/v3/…`, which is given in JSON alone."""
    accepted = (media for media, _ in clauses(accept or "*/*"))
    return JSON if any(media in (JSON, "application/*", "*/*") for media in accepted) else None


class _Document(NamedTuple):
    body: bytes
    digest: str


class OpenAPI:
    """The OpenAPI documents of a set of resources.

    `definitions` gives the facts about their types, in the words of version 2, when a document is first made.
    """

    def __init__(
        self,
        resources: Sequence[Resource],
        definitions: Callable[[], Mapping[str, Schema]] = schema.definitions,
        before: OpenAPI | None = None,
    ) -> None:
        """`before` are the documents until now, of which those of unchanged versions are kept."""
        self._resources = resources
        self._definitions = definitions
        self._versions = _by_version(resources)
        self._documents: dict[str, _Document] = before.unchanged(self._versions) if before is not None else {}

    def unchanged(self, versions: Mapping[str, Sequence[Resource]]) -> dict[str, _Document]:
        """The documents of those versions that have the very same resources."""
        same = (name for name, resources in versions.items() if self._versions.get(name) == resources)
        documents = ((f"v3/{name}", self._documents.get(f"v3/{name}")) for name in same)
        return {name: document for name, document in documents if document is not None}

    def v2_json(self) -> bytes:
        return self._v2(JSON, msgspec.json.encode).body

    def v2_json_etag(self) -> str:
        return f'"{self._v2(JSON, msgspec.json.encode).digest}"'

    def v2_protobuf(self) -> bytes:
        return self._v2(PROTOBUF_V2, protobuf.encode).body

    def v2_protobuf_etag(self) -> str:
        return f'"{self._v2(PROTOBUF_V2, protobuf.encode).digest}"'

    def v3_index(self) -> bytes:
        return self._v3_index().body

    def v3_index_etag(self) -> str:
        return f'"{self._v3_index().digest}"'

    def v3_document(self, name: str) -> bytes | None:
        """What `/openapi/v3/<name>` answers, as in `api/v1` or `apis/apps/v1`; None where there is nothing."""
        return self._v3(name).body if name in self._v3_names else None

    def v3_digest(self, name: str) -> str | None:
        """The fingerprint that links carry as `hash`, and ETags in quotes."""
        return self._v3(name).digest if name in self._v3_names else None

    def _v2(self, media_type: str, encode: Callable[[dict[str, Any]], bytes]) -> _Document:
        return self._kept(media_type, lambda: encode(self._v2_tree()))

    def _v2_tree(self) -> dict[str, Any]:
        paths, facts = self._paths(), self._facts()
        return v2.document(paths, reached_from({*facts, *definitions_named_in(paths)}, facts), _INFO)

    def _v3(self, name: str) -> _Document:
        return self._kept("v3/" + name, lambda: self._make_v3(self._v3_paths()[name]))

    def _v3_index(self) -> _Document:
        return self._kept("v3", lambda: msgspec.json.encode(self._v3_index_tree()))

    def _v3_index_tree(self) -> dict[str, Any]:
        documents = {
            name: self._kept("v3/" + name, partial(self._make_v3, paths)) for name, paths in self._v3_paths().items()
        }
        return v3.index({name: document.digest for name, document in documents.items()})

    def _make_v3(self, paths: Sequence[Path]) -> bytes:
        needed = reached_from(definitions_named_in(paths), self._facts())
        return msgspec.json.encode(v3.document(paths, needed, _INFO))

    @cached_property
    def _v3_names(self) -> frozenset[str]:
        return frozenset(self._v3_paths())

    def _v3_paths(self) -> dict[str, list[Path]]:
        """The paths of each version 3 document."""
        documents: dict[str, list[Path]] = {}
        for path in self._paths():
            documents.setdefault(_v3_name(path), []).append(path)
        return documents

    def _paths(self) -> list[Path]:
        groups: dict[str, dict[str, None]] = {}
        for resource in self._resources:
            groups.setdefault(resource.group, {})[resource.version] = None
        of_resources = (path for resource in self._resources for path in paths_of(resource))
        return sorted([*discovery_paths(groups), *of_resources])

    def _facts(self) -> Mapping[str, Schema]:
        return _Facts(self._definitions())

    def _kept(self, name: str, make: Callable[[], bytes]) -> _Document:
        document = self._documents.get(name)
        if document is None:
            body = make()
            document = self._documents[name] = _Document(body, digest_of(body))
        return document


class _Facts(Mapping[str, Schema]):
    """Definitions and those that only OpenAPI talks about; nothing is copied, for definitions may be made as needed."""

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
    """The resources that each version 3 document of a group's version is about."""
    versions: dict[str, list[Resource]] = {}
    for resource in resources:
        root = f"apis/{resource.group}" if resource.group else "api"
        versions.setdefault(f"{root}/{resource.version}", []).append(resource)
    return versions


def _v3_name(path: Path) -> str:
    """The document that a path is told in: one a group and version, and one for each step above these."""
    parts = path.path.strip("/").split("/")
    return "/".join(parts[: _V3_DEPTHS.get(parts[0])])
