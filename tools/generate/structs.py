# SPDX-License-Identifier: Apache-2.0
"""Writes one module of frozen msgspec structs for each API group version."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any

Facts = Mapping[str, Mapping[str, Any]]

_SCALARS = {"string": "str", "boolean": "bool", "number": "int | float", "integer": "wire.Int64"}
_ZERO = {
    "str": "str",
    "bool": "bool",
    "int | float": "float",
    "wire.Int32": "int",
    "wire.Int64": "int",
    "bytes": "bytes",
}
_ZERO_TEXT = {"str": '""', "bool": "False", "float": "0.0", "int": "0", "bytes": 'b""'}
_NAMED = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "wire.Quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "wire.Time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "wire.MicroTime",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "wire.Int32 | str",
}
_WORDS = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+[0-9]*(?![a-z0-9])|[A-Z]?[a-z0-9]+")
# The resource version leads, so that the API server can stamp it into encoded bytes at a known place.
_LEADING = ("kind", "apiVersion", "resourceVersion", "metadata", "spec", "status")


def module_of(definition: str) -> str:
    """`io.k8s.api.core.v1.Pod` lives in `core_v1`."""
    parts = definition.split(".")
    return f"{parts[-3]}_{parts[-2]}".replace("-", "_")


def class_of(definition: str) -> str:
    return definition.rpartition(".")[2]


def snake(wire_name: str) -> str:
    """`podIPs` is `pod_ips`; a keyword, or a type that annotations use, gets a trailing underscore."""
    name = "_".join(_WORDS.findall(wire_name)).lower()
    return name + "_" if keyword.iskeyword(name) or name in _ZERO_TEXT else name


def is_struct(definition: str, facts: Facts) -> bool:
    return "properties" in facts[definition] and definition not in _NAMED


def write_module(module: str, members: list[str], facts: Facts, wire: Mapping[str, Any]) -> str:
    """The source of one module, or nothing when no member is a struct."""
    structs = [name for name in members if is_struct(name, facts)]
    if not structs:
        return ""
    ordered = _ordered(structs, facts, wire)
    text = "".join("\n\n" + "\n".join(_write_class(name, facts, wire)) for name in ordered)
    used = sorted({m for m in re.findall(r"\b(\w+_v\d\w*)\.", text) if m != module})
    imports = "".join(f"from kubeloop.api.generated import {m}\n" for m in used)
    return (
        "from __future__ import annotations\n\nfrom collections.abc import Mapping\n\n"
        "import msgspec\nfrom msgspec import Raw, Struct\n\n"
        f"from kubeloop.api.scalars import wire\n{imports}{text}\n"
    )


def _ordered(structs: list[str], facts: Facts, wire: Mapping[str, Any]) -> Iterator[str]:
    """Sort structs after those that they contain by value, whose class their default needs."""
    done: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        if name in done:
            return
        done.add(name)
        for field_name, prop in facts[name]["properties"].items():
            target = prop.get("$ref", "").rpartition("/")[2]
            if target in structs and _holds_by_value(name, field_name, wire):
                yield from visit(target)
        yield name

    for name in structs:
        yield from visit(name)


def _holds_by_value(name: str, field_name: str, wire: Mapping[str, Any]) -> bool:
    known = wire.get(name, {})
    return field_name in known.get("always", ()) and field_name not in known.get("pointer", ())


def _write_class(name: str, facts: Facts, wire: Mapping[str, Any]) -> Iterator[str]:
    properties = facts[name]["properties"]
    gvks = facts[name].get("x-kubernetes-group-version-kind", [])
    yield f"class {class_of(name)}(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):"
    ordered = sorted(properties, key=lambda f: (_LEADING.index(f) if f in _LEADING else len(_LEADING), f))
    if not ordered:
        yield "    pass"
    for field_name in ordered:
        if len(gvks) == 1 and field_name in ("kind", "apiVersion"):
            gvk = gvks[0]
            version = f"{gvk['group']}/{gvk['version']}" if gvk["group"] else gvk["version"]
            value = gvk["kind"] if field_name == "kind" else version
            yield _line(field_name, "str", f'default_factory=lambda: "{value}"')
        else:
            yield _field(name, field_name, properties[field_name], facts, wire)
    nullable = [snake(f) for f in ordered if _is_null_when_empty(name, f, facts, wire)]
    if nullable:
        # Upstream's stored form does not distinguish an empty list from none.
        yield "\n    def __post_init__(self) -> None:"
        yield from (f'        wire.empty_is_null(self, "{field_name}")' for field_name in nullable)


def _is_null_when_empty(name: str, field_name: str, facts: Facts, wire: Mapping[str, Any]) -> bool:
    if not _holds_by_value(name, field_name, wire):
        return False
    kind = _type(facts[name]["properties"][field_name], facts, module_of(name))
    return kind.startswith(("tuple", "Mapping")) and field_name != "items"


def _field(name: str, field_name: str, prop: Mapping[str, Any], facts: Facts, wire: Mapping[str, Any]) -> str:
    here = module_of(name)
    kind = _type(prop, facts, here)
    always = field_name in wire.get(name, {}).get("always", ())
    pointer = field_name in wire.get(name, {}).get("pointer", ())
    nullable = "default_factory=wire.always_null" if always else "default=None"
    if kind.startswith("tuple"):
        return (
            _line(field_name, kind + " | None", nullable)
            if always or pointer
            else _line(field_name, kind, "default=()")
        )
    if kind.startswith("Mapping"):
        return (
            _line(field_name, kind + " | None", nullable)
            if always or pointer
            else _line(field_name, kind, "default_factory=dict")
        )
    if pointer and kind != "Raw":
        return _line(field_name, kind + " | None", nullable)
    if kind in _ZERO:
        zero = _ZERO[kind]
        return _line(field_name, kind, f"default_factory={zero}" if always else f"default={_ZERO_TEXT[zero]}")
    if kind == "wire.Quantity" and always:
        return _line(field_name, kind, 'default_factory=lambda: wire.Quantity("0")')
    if kind == "wire.Int32 | str" and always:
        return _line(field_name, kind, "default_factory=int")
    if kind == "Raw":
        return _line(field_name, kind, "default_factory=wire.null_json" if always else "default=wire.NO_JSON")
    if kind in _NAMED.values():
        return _line(field_name, kind + " | None", nullable)
    return (
        _line(field_name, kind, f"default_factory={kind}")
        if always
        else _line(field_name, kind + " | None", "default=None")
    )


def _line(wire_name: str, kind: str, default: str) -> str:
    name = snake(wire_name)
    if name != wire_name:
        default += f', name="{wire_name}"'
    elif default.startswith("default="):
        return f"    {name}: {kind} = {default.removeprefix('default=')}"
    return f"    {name}: {kind} = msgspec.field({default})"


def _type(prop: Mapping[str, Any], facts: Facts, here: str) -> str:
    if "$ref" in prop:
        return _referred(prop["$ref"].rpartition("/")[2], facts, here)
    kind = prop.get("type")
    if kind == "array":
        return f"tuple[{_type(prop['items'], facts, here)}, ...]"
    if kind == "object" and "additionalProperties" in prop:
        return f"Mapping[str, {_type(prop['additionalProperties'], facts, here)}]"
    if kind == "string" and prop.get("format") == "byte":
        return "bytes"
    if kind == "integer" and prop.get("format") == "int32":
        return "wire.Int32"
    return _SCALARS.get(str(kind), "Raw")


def _referred(target: str, facts: Facts, here: str) -> str:
    if target in _NAMED:
        return _NAMED[target]
    if is_struct(target, facts):
        module = module_of(target)
        return class_of(target) if module == here else f"{module}.{class_of(target)}"
    return _type(facts[target], facts, here) if facts[target].get("type") else "Raw"
