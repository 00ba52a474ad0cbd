# SPDX-License-Identifier: Apache-2.0
"""Schema as ownership sees it: every place is a leaf, a record of fields, a set, or a list-map.

Compiled lazily from `Node`s, once per place, into the form that comparison and merging need on every write.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, Literal, NamedTuple
from weakref import WeakKeyDictionary

from kubeloop.api.apply.fields.fieldset import FieldTree
from kubeloop.api.apply.fields.path_elements import field_element, key_element, single_key_element, value_element
from kubeloop.api.apply.zero_values import KEY_DEFAULTS, is_struct_by_value, sent_when_empty, zero_of
from kubeloop.api.schema import SchemaNode

Scalar = Literal["string", "numeric", "boolean", "untyped"]

# Upstream treats these untyped values as atomic; any other free-form object is owned field by field.
_OPAQUE = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


Kind = Literal[0, 1, 2, 3]
LEAF: Final = 0
RECORD: Final = 1
SET: Final = 2
KEYED: Final = 3
"""Plain numbers, because the walkers ask for them at every place of every write."""


class InvalidListItem(ValueError):
    """Raised for a list item that cannot be distinguished from its siblings."""


class ShapeField(NamedTuple):
    """Struct field: its wire element, its shape, its presence even if empty (`always`), and `leaf`."""

    element: str
    shape: OwnershipShape
    always: bool
    leaf: bool


class ContainerField(NamedTuple):
    """Field that may hold other fields."""

    name: str
    element: str
    shape: OwnershipShape


Plan = tuple[FieldTree, tuple[ContainerField, ...]]
"""For records with certain field names: their set of fields so far, and the containers that may add to it."""

FreshPlan = tuple[FieldTree, tuple[ContainerField, ...], tuple[tuple[ContainerField, Any], ...]]
"""The same for new records, and those fields, each with its value, that an empty record has already."""


class OwnershipShape:
    """Schema of one place of an object, as ownership sees it."""

    def __init__(self, node: SchemaNode | None, *, open_below: bool = False) -> None:
        self._node = node
        self.plans: dict[tuple[str, ...], Plan] = {}
        self.fresh_plans: dict[tuple[str, ...], FreshPlan] = {}
        # In custom resources, preserving unknown fields is inherited by everything below.
        self._open = open_below or (node is not None and _says_open(node))

    @cached_property
    def kind(self) -> Kind:
        """Kind of the place: leaf, record, set or list-map."""
        node = self._node
        if node is None:
            return RECORD
        if node.type in ("any", "object"):
            return LEAF if self.is_atomic else RECORD
        if node.type == "array" and node.list_type != "atomic":
            return KEYED if node.list_keys else SET
        return LEAF

    @cached_property
    def is_free_form(self) -> bool:
        """True if only the value defines the kind: maps are records of free-form values, anything else a leaf."""
        return self._node is None or self._node.type == "any"

    @cached_property
    def is_open_map(self) -> bool:
        """True for a free-form value that is declared to be an object."""
        node = self._node
        if node is None or node.type != "any" or _definition_of(node) == _OPAQUE:
            return False
        return bool(_fact(node, "type") == "object")

    @cached_property
    def is_atomic(self) -> bool:
        """True if the value is owned and replaced as a whole."""
        node = self._node
        if node is None:
            return False
        if node.type == "any":
            return _definition_of(node) == _OPAQUE or _fact(node, "x-kubernetes-map-type") == "atomic"
        return node.is_atomic

    @cached_property
    def accepted_type(self) -> Literal["map", "list", "any"] | Scalar:
        """Type that a value must have; null is always accepted."""
        if self.is_free_form:
            return "any"
        assert self._node is not None
        kind = self._node.type
        if kind == "object":
            return "map"
        if kind == "array":
            return "list"
        if kind in ("integer", "number"):
            return "numeric"
        if kind == "boolean":
            return "boolean"
        # Upstream accepts any scalar for dates, quantities and other formats; only plain strings must be strings.
        plain = kind == "string" and self._node.format in ("", "byte") and _definition_of(self._node) != _QUANTITY
        return "string" if plain else "untyped"

    @cached_property
    def fields(self) -> dict[str, ShapeField]:
        """Known fields of a struct by name."""
        node = self._node
        if node is None or not node.is_struct:
            return {}
        type_name = _type_name(node)
        found: dict[str, ShapeField] = {}
        for name, child in node.fields.items():
            shape = OwnershipShape(child, open_below=self._open)
            found[name] = ShapeField(
                field_element(name), shape, _is_value(type_name, name, child, node), shape.kind == LEAF
            )
        return found

    @cached_property
    def item(self) -> OwnershipShape | None:
        """Shape of list items, map values and unknown fields; None where unknown fields are not allowed."""
        node = self._node
        if node is None:
            return self
        if node.item is not None:
            return OwnershipShape(node.item, open_below=self._open)
        if node.type == "any" or node.is_map or node.type == "array" or self._open:
            return FREE_FORM
        return None

    @cached_property
    def unknown_field_shape(self) -> OwnershipShape:
        """Shape of unknown fields."""
        return self.item or FREE_FORM

    def at(self, name: str) -> OwnershipShape:
        """Return the shape of a field, known or not."""
        known = self.fields.get(name)
        return self.unknown_field_shape if known is None else known.shape

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Sorted keys of a list-map."""
        return tuple(sorted(self._node.list_keys)) if self._node is not None else ()

    @cached_property
    def _only_key(self) -> str | None:
        return self.keys[0] if len(self.keys) == 1 else None

    @cached_property
    def key_defaults(self) -> dict[str, Any]:
        """Values of absent keys: the default, or the zero value of a field that built-in types always send."""
        found: dict[str, Any] = {}
        item = self._node.item if self._node is not None else None
        if item is None:
            return found
        for name in self.keys:
            key = item.fields.get(name)
            if key is None:
                continue
            default = key.default
            if default is None and _type_name(item):
                default = (
                    zero_of(key.type) if name in item.required else KEY_DEFAULTS.get(_type_name(item), {}).get(name)
                )
            if default is not None:
                found[name] = default
        return found

    @cached_property
    def zero(self) -> dict[str, Any]:
        """JSON encoding of this struct's Go zero value: its structs, and the zero values of required fields."""
        node = self._node
        if node is None or not _type_name(node):
            return {}
        structs = {name: shape.zero for name, (_, shape, always, _) in self.fields.items() if always}
        required = {
            name: node.fields[name].type for name in node.required if name in node.fields and name not in structs
        }
        return sent_when_empty(_type_name(node), required) | structs

    def element_of(self, item: Any) -> str:
        """Return the path element of a list item; raises BadItem."""
        if self.kind == SET:
            if isinstance(item, dict):
                raise InvalidListItem("associative list without keys has an element that's a map type")
            if isinstance(item, list):
                raise InvalidListItem("not supported: associative list with lists as elements")
            if item is None:
                raise InvalidListItem("associative list without keys has an element that's an explicit null")
            return value_element(item)
        return self._key_of(item)

    def _key_of(self, item: Any) -> str:
        if item is None:
            raise InvalidListItem("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise InvalidListItem("associative list with keys may not have non-map elements")
        if self._only_key is not None and self._only_key in item:
            return single_key_element(self._only_key, item[self._only_key])
        pairs: list[tuple[str, Any]] = []
        for name in self.keys:
            if name in item:
                pairs.append((name, item[name]))
            elif name in self.key_defaults:
                pairs.append((name, self.key_defaults[name]))
        if not pairs:
            assert self._node is not None
            names = " ".join(f'"{name}"' for name in self._node.list_keys)
            raise InvalidListItem(
                f"associative list with keys has an element that omits all key fields [{names}] "
                "(and doesn't have default values for any key fields)"
            )
        return key_element(pairs)


FREE_FORM = OwnershipShape(None)
"""Values without a schema."""

_SHAPES: WeakKeyDictionary[SchemaNode, OwnershipShape] = WeakKeyDictionary()


def shape_of(node: SchemaNode) -> OwnershipShape:
    """Return the shape of a whole object, compiled once for each root node."""
    shape = _SHAPES.get(node)
    if shape is None:
        shape = _SHAPES[node] = OwnershipShape(node)
    return shape


def _definition_of(node: SchemaNode) -> str:
    """Return the name of the type a node refers to; empty for an inline one, as in custom resources."""
    return str(node._own.get("$ref", "")).rpartition("/")[2]


def _type_name(node: SchemaNode) -> str:
    return _definition_of(node).rpartition(".")[2]


def _is_value(type_name: str, name: str, child: SchemaNode, parent: SchemaNode) -> bool:
    """Return True if a field holds a Go struct by value; only built-in types, which have names, do."""
    if not type_name or not child.is_struct or not _definition_of(child):
        return False
    return is_struct_by_value(type_name, name, required=name in parent.required)


def _fact(node: SchemaNode, key: str) -> Any:
    """Return a fact that Node does not distinguish itself: it counts every free-form value as atomic."""
    return node._fact(key)


def _says_open(node: SchemaNode) -> bool:
    return bool(_fact(node, "x-kubernetes-preserve-unknown-fields"))
