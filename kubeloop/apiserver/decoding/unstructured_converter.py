# SPDX-License-Identifier: Apache-2.0
"""Errors of Go's map-to-struct converter (DefaultUnstructuredConverter), used for strategic merge patches and apply."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.scalars.quantity import canonical_quantity
from kubeloop.api.scalars.times import normalize_micro_time, normalize_time
from kubeloop.apiserver.decoding.go_base64 import decode_base64
from kubeloop.apiserver.decoding.go_shapes import GoShape
from kubeloop.apiserver.decoding.unmarshal import kind_of, number_text

_GO_KINDS: Final = {dict: "map", list: "slice", str: "string", bool: "bool", int: "int64", float: "float64"}


def conversion_error(value: Any, shape: GoShape) -> str:
    """Return the error of the first value that doesn't fit its type; empty if all fit."""
    if value is None:
        return ""
    found = _GO_KINDS[type(value)]
    match shape.category:
        case "struct":
            return _struct_error(value, shape) if found == "map" else f"cannot restore struct from: {found}"
        case "map":
            return _first(value.values(), shape) if found == "map" else f"cannot restore map from {found}"
        case "list":
            return _first(value, shape) if found == "slice" else f"cannot restore slice from {found}"
        case "any":
            return ""
        case "bytes" | "quantity" | "time" | "micro-time" | "int-or-string":
            return _text_error(value, found, shape)
        case _:
            return _scalar_error(value, found, shape)


def wrap_integers(value: Any, shape: GoShape) -> Any:
    """Return a value without conversion errors as the converter stores it: integers overflow as in Go."""
    match shape.category:
        case "struct" if isinstance(value, dict):
            fields = shape.fields
            return {name: wrap_integers(one, fields[name]) if name in fields else one for name, one in value.items()}
        case "map" if isinstance(value, dict):
            return {name: wrap_integers(one, shape.item) for name, one in value.items()}
        case "list" if isinstance(value, list):
            return [wrap_integers(one, shape.item) for one in value]
        case "integer" if value is not None and shape.go_type == "int32":
            return (int(value) + 2**31) % 2**32 - 2**31
    return value


def _struct_error(value: dict[str, Any], shape: GoShape) -> str:
    errors = (conversion_error(value.get(name), field) for name, field in shape.fields.items() if name in value)
    return next(filter(None, errors), "")


def _first(values: Any, shape: GoShape) -> str:
    return next(filter(None, (conversion_error(one, shape.item) for one in values)), "")


def _scalar_error(value: Any, found: str, shape: GoShape) -> str:
    wanted = {"string": "string", "boolean": "bool", "number": "float64"}.get(shape.category, "int64")
    if found == wanted or (wanted == "float64" and found == "int64"):
        return ""
    if shape.category == "integer" and found == "float64":
        return "" if value.is_integer() else f"cannot convert float64 to {shape.go_type}"
    if shape.category == "string" and found == "int64":
        return f"cannot convert int64 to {shape.go_type}"
    return f"unrecognized type: {shape.go_type if shape.category == 'integer' else wanted}"


def _text_error(value: Any, found: str, shape: GoShape) -> str:
    """Return the error of types that unmarshal their JSON themselves."""
    try:
        match shape.category:
            case "bytes":
                return _bytes_error(value, found)
            case "quantity":
                canonical_quantity(value if found == "string" else number_text(value) or "?")
            case "int-or-string":
                if found not in ("string", "int64") or (found == "int64" and not -(2**31) <= value < 2**31):
                    text = f"{kind_of(value)} {number_text(value) or ''}".rstrip()
                    return f"json: cannot unmarshal {text} into Go value of type int32"
            case _ if found != "string":
                return f"json: cannot unmarshal {kind_of(value)} into Go value of type string"
            case "time":
                normalize_time(value)
            case _:
                normalize_micro_time(value)
    except ValueError as error:
        return str(error)
    return ""


def _bytes_error(value: Any, found: str) -> str:
    if found != "string":
        return f"cannot restore slice from {found}" if found != "slice" else ""
    try:
        decode_base64(value)
    except ValueError as error:
        return f"error decoding from json: {error}"
    return ""
