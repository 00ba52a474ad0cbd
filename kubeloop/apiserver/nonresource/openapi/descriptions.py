# SPDX-License-Identifier: Apache-2.0
"""Descriptions of types and fields for `kubectl explain`, from the PyPI package kubernetes-validate if it is installed.

The package is no dependency, and none of its texts is part of this project: `pip install kubeloop[schemas]` adds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from kubeloop import KUBERNETES_VERSION
from kubeloop.apiserver.nonresource.openapi.schemas import Schema

_PACKAGE: Final = "kubernetes_validate"
_FOLDER: Final = "kubernetes-json-schema"
_CORE: Final = "io.k8s.api.core.v1."
_SHARED_FIELDS: Final = ("apiVersion", "kind", "metadata")  # every kind describes them alike


class TypeDescription(msgspec.Struct, frozen=True):
    """Description of a type, with its properties, or of a property."""

    description: str = ""
    properties: dict[str, TypeDescription] = {}


class _Published(msgspec.Struct, frozen=True):
    definitions: dict[str, TypeDescription] = msgspec.field(name="$defs", default_factory=dict)


@cache
def package_descriptions() -> Mapping[str, TypeDescription]:
    """Return the descriptions by the OpenAPI names of types; empty without the package, or with another version."""
    minor = KUBERNETES_VERSION.rpartition(".")[0]
    try:
        folder = resources.files(_PACKAGE) / _FOLDER / f"v{minor}.0-local"
        return msgspec.json.decode((folder / "_definitions.json").read_bytes(), type=_Published).definitions
    except (ModuleNotFoundError, OSError, msgspec.DecodeError):
        return {}


class DescribedDefinitions(Mapping[str, Schema]):
    """Definitions with descriptions, which are added when a definition is looked up."""

    def __init__(self, definitions: Mapping[str, Schema], descriptions: Mapping[str, TypeDescription]) -> None:
        self._definitions = definitions
        self._descriptions = descriptions

    def __getitem__(self, name: str) -> Schema:
        schema, told = self._definitions[name], self._descriptions.get(name)
        if told is None and "x-kubernetes-group-version-kind" in schema:
            told = self._custom_description(schema)
        return schema if told is None else _described(schema, told)

    def _custom_description(self, schema: Schema) -> TypeDescription:
        """Return the descriptions of a custom resource: of the fields that it shares with built-in kinds."""
        metadata = schema.get("properties", {}).get("metadata", {})
        kind = "PodList" if metadata.get("$ref", "").endswith(".ListMeta") else "Pod"
        known = self._descriptions.get(_CORE + kind, TypeDescription()).properties
        return TypeDescription(properties={name: known[name] for name in _SHARED_FIELDS if name in known})

    def __iter__(self) -> Iterator[str]:
        return iter(self._definitions)

    def __len__(self) -> int:
        return len(self._definitions)


def _described(schema: Schema, told: TypeDescription) -> dict[str, Any]:
    whole = _with_description(schema, told)
    if "properties" in whole:
        none = TypeDescription()
        whole["properties"] = {
            name: _with_description(child, told.properties.get(name, none))
            for name, child in whole["properties"].items()
        }
    return whole


def _with_description(schema: Schema, told: TypeDescription) -> dict[str, Any]:
    return {"description": told.description, **schema} if told.description else dict(schema)
