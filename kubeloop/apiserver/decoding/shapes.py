"""The Go types behind the schema: what may stand where, and what the type is called in error messages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Final, Literal

from kubeloop.api.schema import definitions

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
# Types with decoders of their own that keep the JSON they are given.
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


class Shape:
    """One place in an object as Go's decoder sees it."""

    def __init__(self, category: Category, go_type: str, source: Mapping[str, Any], name: str = "") -> None:
        self.category = category
        self.go_type = go_type
        self.name = name
        self._source = source

    @cached_property
    def fields(self) -> Mapping[str, Shape]:
        """A struct's fields by wire name."""
        return {field: _field_shape(prop) for field, prop in self._source.get("properties", {}).items()}

    @cached_property
    def item(self) -> Shape:
        """What a list or map holds."""
        return _field_shape(self._source.get("items") or self._source["additionalProperties"])


@cache
def shape_of(definition: str) -> Shape:
    """The shape of a named type, such as `io.k8s.api.core.v1.Pod`."""
    special = _SPECIAL.get(definition)
    source = definitions()[definition]
    if special:
        return Shape(*special, source)
    package, _, name = definition.rpartition(".")
    go_type = f"{package.rpartition('.')[2]}.{name}"
    return Shape("any" if name in _FREE_FORM else "struct", go_type, source, name)


def _field_shape(source: Mapping[str, Any]) -> Shape:
    reference = source.get("$ref")
    if reference:
        return shape_of(reference.removeprefix(_REF))
    found: str = source.get("type", "any")
    if source.get("format") == "int-or-string":
        return Shape("int-or-string", "intstr.IntOrString", source)
    if found == "array":
        return Shape("list", "[]" + _field_shape(source["items"]).go_type, source)
    if found == "object" and "additionalProperties" in source:
        return Shape("map", "map[string]" + _field_shape(source["additionalProperties"]).go_type, source)
    scalar = _SCALARS.get((found, source.get("format", "")))
    return Shape(*scalar, source) if scalar else Shape("any", "interface {}", source)
