# SPDX-License-Identifier: Apache-2.0
"""OpenAPI documents of this server merged with those of extension API servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubeloop.api.kinds import Resource
from kubeloop.apiserver.aggregator.discovery_cache import RemoteVersion, digest_v3
from kubeloop.apiserver.nonresource.openapi import OpenAPI
from kubeloop.apiserver.nonresource.openapi.schemas import DefinitionsSource
from kubeloop.apiserver.nonresource.openapi.v3 import link_to

_V2_REFERENCE = "#/definitions/"


class MergedOpenAPI(OpenAPI):
    """OpenAPI of local and remote group versions."""

    def __init__(
        self,
        resources: Sequence[Resource],
        definitions: DefinitionsSource,
        before: OpenAPI | None,
        remote: Sequence[RemoteVersion],
    ) -> None:
        super().__init__(resources, definitions, before)
        self._remote = {one.root: one for one in remote}

    def v3_document(self, name: str) -> bytes | None:
        """Return the v3 document of a group version, or None."""
        remote = self._remote.get(name)
        return super().v3_document(name) if remote is None else remote.v3 or None

    def v3_digest(self, name: str) -> str | None:
        """Return the digest of a v3 document, or None."""
        remote = self._remote.get(name)
        if remote is None:
            return super().v3_digest(name)
        return digest_v3(remote) if remote.v3 else None

    def _v3_index_tree(self) -> dict[str, Any]:
        tree = super()._v3_index_tree()
        for name, one in self._remote.items():
            tree["paths"].pop(name, None)
            if one.v3:
                tree["paths"][name] = {"serverRelativeURL": link_to(name, digest_v3(one))}
        return tree

    def _v2_tree(self) -> dict[str, Any]:
        tree = super()._v2_tree()
        for one in self._remote.values():
            if one.v2:
                added = msgspec.json.decode(one.v2)
                add_specification(tree, added["paths"], added["definitions"])
        return tree


def add_specification(tree: dict[str, Any], paths: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Add paths to a v2 document with the definitions they reference; conflicting definitions are renamed."""
    wanted = _referenced(paths, definitions)
    names = {name: _free_name(name, definitions[name], tree["definitions"]) for name in wanted}
    for name in wanted:
        tree["definitions"].setdefault(names[name], _rename_references(definitions[name], names))
    tree["paths"] |= _rename_references(paths, names)


def _free_name(name: str, definition: Any, known: Mapping[str, Any]) -> str:
    """Return the name if it is free or has an equal definition, else the next free numbered name."""
    free, number = name, 2
    while free in known and known[free] != definition:
        free, number = f"{name}_v{number}", number + 1
    return free


def _referenced(paths: Any, definitions: Mapping[str, Any]) -> list[str]:
    found: dict[str, None] = {}
    pending = [paths]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            name = _reference_name(node.get("$ref"))
            if name in definitions and name not in found:
                found[name] = None
                pending.append(definitions[name])
            pending += node.values()
    return list(found)


def _rename_references(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, list):
        return [_rename_references(one, names) for one in node]
    if not isinstance(node, dict):
        return node
    name = _reference_name(node.get("$ref"))
    if name in names:
        return node | {"$ref": _V2_REFERENCE + names[name]}
    return {key: _rename_references(value, names) for key, value in node.items()}


def _reference_name(reference: object) -> str:
    return reference.removeprefix(_V2_REFERENCE) if isinstance(reference, str) else ""
