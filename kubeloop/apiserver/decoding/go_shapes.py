# SPDX-License-Identifier: Apache-2.0
"""Go types behind the schema: the expected values, and the type names of error messages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Final, Literal

from kubeloop.api.schema import definitions
from kubeloop.apiserver.decoding.go_types import go_place, named_types

Category = Literal[
    "struct", "map", "list", "string", "bytes", "integer", "number", "boolean",
    "int-or-string", "quantity", "time", "micro-time", "any",
]  # fmt: skip

_REF: Final = "#/definitions/"
_SPECIAL: Final[Mapping[str, tuple[Category, str]]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": ("quantity", "resource.Quantity"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": ("time", "v1.Time"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": ("micro-time", "v1.MicroTime"),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": ("int-or-string", "intstr.IntOrString"),
}
# Types with their own decoders, which keep the JSON as it is.
_FREE_FORM: Final = frozenset(
    (
        "JSON",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
        "FieldsV1",
        "RawExtension",
    )
)
_SCALARS: Final[Mapping[tuple[str, str], tuple[Category, str]]] = {
    ("string", "byte"): ("bytes", "[]uint8"),
    ("string", ""): ("string", "string"),
    ("integer", "int32"): ("integer", "int32"),
    ("integer", "int64"): ("integer", "int64"),
    ("boolean", ""): ("boolean", "bool"),
    ("number", "double"): ("number", "float64"),
}


class GoShape:
    """Type of one place in an object, as Go's decoder sees it."""

    def __init__(self, category: Category, go_type: str, source: Mapping[str, Any], definition: str = "") -> None:
        self.category = category
        self.go_type = go_type
        self._source = source
        self._definition = definition

    @property
    def name(self) -> str:
        """Name of a struct without its package."""
        return self._definition.rpartition(".")[2]

    def place(self, field: str) -> str:
        """Return the place of a struct's field in error messages."""
        return go_place(self._definition, field)

    @cached_property
    def fields(self) -> Mapping[str, GoShape]:
        """Fields of a struct by wire name."""
        named = named_types(self._definition)
        return {
            field: _shape_at(prop, named.get(field, "")) for field, prop in self._source.get("properties", {}).items()
        }

    @cached_property
    def item(self) -> GoShape:
        """Type of the items of a list or map."""
        inner = self._source.get("items") or self._source["additionalProperties"]
        # Of `[]v1.Capability` or `map[string]v1.ExtraValue`, the part behind the brackets.
        _, bracket, named = self.go_type.partition("]")
        return _shape_at(inner, named if bracket else "")


@cache
def shape_of(definition: str) -> GoShape:
    """Return the shape of a named type, such as `io.k8s.api.core.v1.Pod`."""
    special = _SPECIAL.get(definition)
    source = definitions()[definition]
    if special:
        return GoShape(*special, source)
    package, _, name = definition.rpartition(".")
    go_type = f"{package.rpartition('.')[2]}.{name}"
    return GoShape("any" if name in _FREE_FORM else "struct", go_type, source, definition)


def _shape_at(source: Mapping[str, Any], named: str = "") -> GoShape:
    """Return the shape of a field or item; `named` is the name of its type, if it has one."""
    reference = source.get("$ref")
    if reference:
        return shape_of(reference.removeprefix(_REF))
    found: str = source.get("type", "any")
    if source.get("format") == "int-or-string":
        return GoShape("int-or-string", "intstr.IntOrString", source)
    if found == "array":
        return GoShape("list", named or "[]" + _shape_at(source["items"]).go_type, source)
    if found == "object" and "additionalProperties" in source:
        return GoShape("map", named or "map[string]" + _shape_at(source["additionalProperties"]).go_type, source)
    scalar = _SCALARS.get((found, source.get("format", "")))
    return GoShape(scalar[0], named or scalar[1], source) if scalar else GoShape("any", "interface {}", source)
