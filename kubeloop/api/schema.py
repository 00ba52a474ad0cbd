# SPDX-License-Identifier: Apache-2.0
"""Schemas of all kinds as data, for patches, server-side apply and OpenAPI.

`generated/schema.json` holds OpenAPI facts (types, references, list and merge keys), one definition per
type. A `Node` is a place in an object seen through that data, resolved lazily because types may refer to themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, cached_property
from importlib import resources
from typing import Any, Literal

NodeType = Literal["object", "array", "string", "integer", "number", "boolean", "int-or-string", "any"]


class _Definitions(dict[str, dict[str, Any]]):
    """Definitions that are served by default; those of optional resources are read on the first lookup of one."""

    def __missing__(self, name: str) -> dict[str, Any]:
        return _read("schema_offered.json")[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in _read("schema_offered.json")


@cache
def definitions() -> Mapping[str, Mapping[str, Any]]:
    """Return the type definitions by OpenAPI name, such as `io.k8s.api.core.v1.Pod`.

    Any definition can be looked up; only those that are served by default are listed.
    """
    return _Definitions(_read("schema.json"))


@cache
def _read(name: str) -> dict[str, dict[str, Any]]:
    text = resources.files("kubeloop.api.generated").joinpath(name).read_bytes()
    loaded: dict[str, dict[str, Any]] = json.loads(text)
    return loaded


class SchemaNode:
    """Schema of one place in an object: its type, its children, and the merge rules of its lists and maps."""

    def __init__(self, own: Mapping[str, Any], defs: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._defs = definitions() if defs is None else defs
        self._own = own
        reference = own.get("$ref")
        self._target: Mapping[str, Any] = self._defs[reference.rpartition("/")[2]] if reference else own

    def _fact(self, key: str, default: Any = None) -> Any:
        """Return a fact of the field itself, or else of the type that the field refers to."""
        return self._own.get(key, self._target.get(key, default))

    @cached_property
    def type(self) -> NodeType:
        """JSON type of the value; `any` for free-form JSON."""
        if self._fact("x-kubernetes-int-or-string") or self._fact("format") == "int-or-string":
            return "int-or-string"
        if "properties" in self._target or "additionalProperties" in self._target:
            return "object"
        found: NodeType = self._target.get("type", "any")
        # An object with neither properties nor value type is free-form JSON (FieldsV1, RawExtension).
        return "any" if found == "object" else found

    @cached_property
    def format(self) -> str:
        """OpenAPI format; empty if there is none."""
        return str(self._fact("format", ""))

    @cached_property
    def fields(self) -> Mapping[str, SchemaNode]:
        """Known fields of a struct by wire name; empty for anything else."""
        return {name: SchemaNode(prop, self._defs) for name, prop in self._target.get("properties", {}).items()}

    @cached_property
    def item(self) -> SchemaNode | None:
        """Schema of a list's items or a map's values."""
        inner = self._target.get("items") or self._target.get("additionalProperties")
        return SchemaNode(inner, self._defs) if isinstance(inner, Mapping) else None

    @property
    def is_struct(self) -> bool:
        """True if the node has known fields."""
        return bool(self._target.get("properties"))

    @cached_property
    def opaque_struct(self) -> str | None:
        """Name of the Go struct that holds free-form JSON without having its fields; None for other types."""
        name = str(self._own.get("$ref", "")).rpartition(".")[2]
        return name if name in ("JSON", "RawExtension") else None

    @property
    def is_map(self) -> bool:
        """True if the node is an object without known fields."""
        return self.type == "object" and not self.is_struct

    @cached_property
    def required(self) -> frozenset[str]:
        """Names of the required fields."""
        return frozenset(self._target.get("required", ()))

    @cached_property
    def list_type(self) -> Literal["atomic", "set", "map"]:
        """Value of x-kubernetes-list-type."""
        found: Literal["atomic", "set", "map"] = self._fact("x-kubernetes-list-type", "atomic")
        return found

    @cached_property
    def list_keys(self) -> tuple[str, ...]:
        """Value of x-kubernetes-list-map-keys."""
        return tuple(self._fact("x-kubernetes-list-map-keys", ()))

    @cached_property
    def is_atomic(self) -> bool:
        """True if a map or struct is owned and replaced as a whole."""
        return self.type == "any" or self._fact("x-kubernetes-map-type") == "atomic"

    @cached_property
    def patch_strategies(self) -> frozenset[str]:
        """Strategies of a strategic merge patch: any of `merge`, `retainKeys`, `replace`."""
        return frozenset(filter(None, self._fact("x-kubernetes-patch-strategy", "").split(",")))

    @cached_property
    def patch_merge_key(self) -> str:
        """Merge key of a strategic merge patch; empty if there is none."""
        return str(self._fact("x-kubernetes-patch-merge-key", ""))

    @property
    def default(self) -> Any:
        """Default of an absent list-map key (`TCP` for `protocol`), or None."""
        return self._own.get("default")


@cache
def node_of(definition: str) -> SchemaNode:
    """Return the root node of a named type, such as `io.k8s.api.core.v1.Pod`."""
    return SchemaNode({"$ref": "#/definitions/" + definition})
