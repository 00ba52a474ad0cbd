"""Warnings about custom resource definitions and custom objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.fields import quote
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.api.names import check_qualified_name
from kubeloop.api.structural.instance import Instance
from kubeloop.api.warnings.rules import Warnings, always

_STANDARD: Final = frozenset(("orphan", "foregroundDeletion", "kubernetes"))
_PREFER: Final = "to avoid accidental conflicts with other finalizer writers"
_RULES: Final = "x-kubernetes-validations"


def _unenforced(definition: CustomResourceDefinition) -> Sequence[str]:
    """Our own words: upstream would enforce the rules."""
    return [
        f"spec.versions[{index}].schema.openAPIV3Schema: {_RULES} are stored, but not enforced yet"
        for index, version in enumerate(definition.spec.versions or ())
        if version.schema is not None and _has_rules(codec.to_plain(version.schema.open_apiv3_schema))
    ]


def _has_rules(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    return bool(schema.get(_RULES)) or any(_has_rules(inner) for inner in _inner(schema))


def _inner(schema: Mapping[str, Any]) -> Iterator[Any]:
    yield from (schema.get("properties") or {}).values()
    yield from (schema.get("items"), schema.get("additionalProperties"), schema.get("not"))
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(keyword) or ()


def _of_new(obj: Instance) -> Sequence[str]:
    return [text for one in sorted(set(obj.metadata.finalizers)) for text in _finalizer_warnings(one)]


def _of_changed(new: Instance, old: Instance) -> Sequence[str]:
    added = set(new.metadata.finalizers) - set(old.metadata.finalizers)
    return [text for one in sorted(added) for text in _finalizer_warnings(one)]


def _finalizer_warnings(name: str) -> Iterator[str]:
    said = f"metadata.finalizers: {quote(name)}:"
    yield from (f"{said} {message}" for message in check_qualified_name(name))
    if "/" in name or name in _STANDARD:
        return
    path = " including a path (/)" if "." in name else ""
    yield f"{said} prefer a domain-qualified finalizer name{path} {_PREFER}"


DEFINITION = always(_unenforced)
INSTANCE = Warnings(create=_of_new, update=_of_changed)
