# SPDX-License-Identifier: Apache-2.0
"""Converts Python types to the structural schema of a custom resource. Pure.

Constraints come from `msgspec.Meta`; others, such as CEL rules, from its `extra_json_schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import cleandoc
from typing import Any, Final

import msgspec
from msgspec import inspect

from kubeloop.api import codec

Schema = dict[str, Any]

ANYTHING: Final[Schema] = {"x-kubernetes-preserve-unknown-fields": True}
_GENERATED: Final = "kubeloop.api.generated."
# Simple types: our schema for each of msgspec's.
_PLAIN: Final[dict[type, Schema]] = {
    inspect.AnyType: ANYTHING,
    inspect.RawType: ANYTHING,
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer", "format": "int64"},
    inspect.FloatType: {"type": "number"},
    inspect.StrType: {"type": "string"},
    inspect.BytesType: {"type": "string", "format": "byte"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.DateType: {"type": "string", "format": "date"},
    inspect.UUIDType: {"type": "string", "format": "uuid"},
}
# Constraint names of msgspec and of schemas, by type.
_BOUNDS: Final = {"ge": "minimum", "le": "maximum", "multiple_of": "multipleOf"}
_LENGTHS: Final = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}
_PROPERTIES: Final = ("minProperties", "maxProperties")
_SEQUENCES: Final = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)
_SETS: Final = (inspect.SetType, inspect.FrozenSetType)


class SchemaError(TypeError):
    """Type without a structural schema; the message has its path and the reason."""


def schema_of(kind: Any, path: str = "") -> Schema:
    """Return the schema of a type; `path` is its position, for errors."""
    return _schema(inspect.type_info(kind), path, ())


def _schema(info: inspect.Type, path: str, within: tuple[type, ...]) -> Schema:
    if isinstance(info, inspect.Metadata):
        return _schema(info.type, path, within) | (info.extra_json_schema or {})
    if isinstance(info, inspect.UnionType):
        return _of_union(info, path, within)
    if isinstance(info, inspect.StructType):
        return _of_struct(info, path, within)
    if isinstance(info, inspect.DictType):
        return _of_dict(info, path, within)
    if isinstance(info, _SEQUENCES):
        return _of_sequence(info, path, within)
    if isinstance(info, inspect.EnumType):
        return _of_values([one.value for one in info.cls], path)
    if isinstance(info, inspect.LiteralType):
        return _of_values(list(info.values), path)
    if isinstance(info, inspect.CustomType) and issubclass(info.cls, str):
        return {"type": "string"}
    plain = _PLAIN.get(type(info))
    if plain is None:
        raise SchemaError(f"{path or 'the type'}: {type(info).__name__} has no structural schema")
    return plain | _constraints(info, str(plain.get("type")))


def _of_struct(info: inspect.StructType, path: str, within: tuple[type, ...]) -> Schema:
    if info.cls.__module__.startswith(_GENERATED):  # Kubernetes' own: checked where it is used
        return {"type": "object", **ANYTHING}
    if info.cls in within:
        raise SchemaError(f"{path}: {info.cls.__name__} is recursive, which a structural schema cannot express")
    properties, required = {}, []
    for field in info.fields:
        where = f"{path}.{field.encode_name}"
        properties[field.encode_name] = _schema(field.type, where, (*within, info.cls)) | _default(field)
        if field.required:
            required.append(field.encode_name)
    schema: Schema = {"type": "object", "properties": properties}
    if info.cls.__doc__:
        schema["description"] = cleandoc(info.cls.__doc__)
    return schema | ({"required": required} if required else {})


def _default(field: inspect.Field) -> Schema:
    """Return the default that the server fills in; omitted for empty values, as with `omit_defaults`."""
    value = field.default
    if value is msgspec.NODEFAULT:
        value = None if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    plain = codec.to_plain(value)
    return {} if plain in (None, {}, []) else {"default": plain}


def _of_union(info: inspect.UnionType, path: str, within: tuple[type, ...]) -> Schema:
    others = [one for one in info.types if not isinstance(one, inspect.NoneType)]
    nullable = {"nullable": True} if len(others) < len(info.types) else {}
    if len(others) == 1:
        return _schema(others[0], path, within) | nullable
    if {type(one) for one in others} == {inspect.IntType, inspect.StrType}:
        return {"x-kubernetes-int-or-string": True, **nullable}
    raise SchemaError(f"{path}: of union types, only int | str and T | None have a structural schema")


def _of_dict(info: inspect.DictType, path: str, within: tuple[type, ...]) -> Schema:
    if not isinstance(info.key_type, inspect.StrType | inspect.AnyType):
        raise SchemaError(f"{path}: the keys of an object are strings")
    values = _schema(info.value_type, f"{path}[*]", within)
    return {"type": "object", "additionalProperties": values} | _lengths(info, _PROPERTIES)


def _of_sequence(info: Any, path: str, within: tuple[type, ...]) -> Schema:
    schema: Schema = {"type": "array", "items": _schema(info.item_type, f"{path}[*]", within)}
    if isinstance(info, _SETS):
        schema["x-kubernetes-list-type"] = "set"
    return schema | _lengths(info, _LENGTHS["array"])


def _of_values(values: list[Any], path: str) -> Schema:
    for kind, name in ((str, "string"), (int, "integer")):
        if all(isinstance(one, kind) for one in values):
            return {"type": name, "enum": sorted(values)}
    raise SchemaError(f"{path}: the values of an enumeration are strings or whole numbers")


def _constraints(info: Any, kind: str) -> Schema:
    found = {name: value for word, name in _BOUNDS.items() if (value := getattr(info, word, None)) is not None}
    for word, bound, exclusive in (("gt", "minimum", "exclusiveMinimum"), ("lt", "maximum", "exclusiveMaximum")):
        if (value := getattr(info, word, None)) is not None:
            found |= {bound: value, exclusive: True}
    if (pattern := getattr(info, "pattern", None)) is not None:
        found["pattern"] = pattern
    return found | (_lengths(info, _LENGTHS[kind]) if kind in _LENGTHS else {})


def _lengths(info: Any, names: tuple[str, str]) -> Schema:
    bounds = zip(names, (getattr(info, "min_length", None), getattr(info, "max_length", None)), strict=True)
    return {name: value for name, value in bounds if value is not None}


def at_path(schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Return the part of a schema at a simple path such as `.spec.replicas`."""
    for name in path.removeprefix(".").split("."):
        try:
            schema = schema["properties"][name]
        except KeyError:
            raise SchemaError(f"{path}: there is no {name}") from None
    return schema
