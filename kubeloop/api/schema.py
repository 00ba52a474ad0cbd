"""The shape of every kind as data: what patches, server-side apply and OpenAPI need to know.

`generated/schema.json` holds facts in OpenAPI's own words (types, references, list and merge keys), one definition a
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
    """The types that are served by default; those that are served when asked for are read when one is looked up."""

    def __missing__(self, name: str) -> dict[str, Any]:
        return _read("schema_offered.json")[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in _read("schema_offered.json")


@cache
def definitions() -> Mapping[str, Mapping[str, Any]]:
    """Type definitions by their OpenAPI name, such as `io.k8s.api.core.v1.Pod`.

    Any can be looked up; only those that are served by default are listed.
    """
    return _Definitions(_read("schema.json"))


@cache
def _read(name: str) -> dict[str, dict[str, Any]]:
    text = resources.files("kubeloop.api.generated").joinpath(name).read_bytes()
    loaded: dict[str, dict[str, Any]] = json.loads(text)
    return loaded


class Node:
    """One place in an object: its type, its children, and how lists and maps there merge."""

    def __init__(self, own: Mapping[str, Any], defs: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._defs = definitions() if defs is None else defs
        self._own = own
        reference = own.get("$ref")
        self._target: Mapping[str, Any] = self._defs[reference.rpartition("/")[2]] if reference else own

    def _fact(self, key: str, default: Any = None) -> Any:
        """A fact stated at the field wins over the same fact stated at the type it refers to."""
        return self._own.get(key, self._target.get(key, default))

    @cached_property
    def type(self) -> NodeType:
        if self._fact("x-kubernetes-int-or-string") or self._fact("format") == "int-or-string":
            return "int-or-string"
        if "properties" in self._target or "additionalProperties" in self._target:
            return "object"
        found: NodeType = self._target.get("type", "any")
        # An object with neither properties nor value type is free-form JSON (FieldsV1, RawExtension).
        return "any" if found == "object" else found

    @cached_property
    def format(self) -> str:
        return str(self._fact("format", ""))

    @cached_property
    def fields(self) -> Mapping[str, Node]:
        """A struct's known fields by wire name; empty for anything else."""
        return {name: Node(prop, self._defs) for name, prop in self._target.get("properties", {}).items()}

    @cached_property
    def item(self) -> Node | None:
        """What a list or a map holds."""
        inner = self._target.get("items") or self._target.get("additionalProperties")
        return Node(inner, self._defs) if isinstance(inner, Mapping) else None

    @property
    def is_struct(self) -> bool:
        return bool(self._target.get("properties"))

    @property
    def is_map(self) -> bool:
        return self.type == "object" and not self.is_struct

    @cached_property
    def required(self) -> frozenset[str]:
        return frozenset(self._target.get("required", ()))

    @cached_property
    def list_type(self) -> Literal["atomic", "set", "map"]:
        found: Literal["atomic", "set", "map"] = self._fact("x-kubernetes-list-type", "atomic")
        return found

    @cached_property
    def list_keys(self) -> tuple[str, ...]:
        return tuple(self._fact("x-kubernetes-list-map-keys", ()))

    @cached_property
    def atomic(self) -> bool:
        """A map or struct that is owned and replaced as a whole."""
        return self.type == "any" or self._fact("x-kubernetes-map-type") == "atomic"

    @cached_property
    def patch_strategies(self) -> frozenset[str]:
        """Strategic merge patch: any of `merge`, `retainKeys`, `replace`."""
        return frozenset(filter(None, self._fact("x-kubernetes-patch-strategy", "").split(",")))

    @cached_property
    def patch_merge_key(self) -> str:
        return str(self._fact("x-kubernetes-patch-merge-key", ""))

    @property
    def default(self) -> Any:
        """The value an absent list-map key stands for (`protocol` is `TCP`), or None."""
        return self._own.get("default")


@cache
def node_of(definition: str) -> Node:
    """The root node of a named type, such as `io.k8s.api.core.v1.Pod`."""
    return Node({"$ref": "#/definitions/" + definition})
