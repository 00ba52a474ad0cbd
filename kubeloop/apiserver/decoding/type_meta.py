# SPDX-License-Identifier: Apache-2.0
"""Kind and version of a body, and checks that they fit the resource."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kubeloop.api.kinds import Resource
from kubeloop.apiserver.decoding.go_json import Number, Pairs, replace_surrogates
from kubeloop.apiserver.decoding.scheme import internal_type, is_registered, scheme_name
from kubeloop.apiserver.decoding.unmarshal import kind_of

_HEADER_TYPE: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_FIELDS: Final = {"apiversion": "apiVersion", "kind": "kind"}


class TypeMeta(NamedTuple):
    """Group, version and kind of a body."""

    group: str
    version: str
    kind: str

    @property
    def group_version(self) -> str:
        """Group and version as in apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version


class UnrecognizedError(ValueError):
    """Error for a body without recognizable kind and version."""


class KindMismatchError(ValueError):
    """Error for a body whose kind is not accepted by the resource."""


def parse_type_meta(document: Any) -> TypeMeta:
    """Return the kind and version of a document, with case-insensitive keys as upstream's first pass."""
    found = {"apiVersion": "", "kind": ""}
    if document is not None and not isinstance(document, Pairs | dict):
        raise UnrecognizedError(
            _json_error(f"cannot unmarshal {kind_of(document)} into Go value of type {_HEADER_TYPE}")
        )
    problem = ""
    for key, value in document.items() if document is not None else ():
        field = _FIELDS.get(key.lower())
        if field is None or value is None:
            continue
        if isinstance(value, Number) or not isinstance(value, str):
            found_kind = kind_of(value)
            problem = problem or f"cannot unmarshal {found_kind} into Go struct field .{field} of type string"
        else:
            found[field] = replace_surrogates(value)
    if problem:
        raise UnrecognizedError(_json_error(problem))
    return TypeMeta(*_group_and_version(found["apiVersion"]), found["kind"])


def _json_error(what: str) -> str:
    return f"couldn't get version/kind; json parse error: json: {what}"


def _group_and_version(text: str) -> tuple[str, str]:
    if text in ("", "/"):
        return "", ""
    if text.count("/") > 1:
        raise UnrecognizedError(f"unexpected GroupVersion string: {text}")
    group, _, version = text.rpartition("/")
    return group, version


def with_defaults_of(meta: TypeMeta, resource: Resource) -> TypeMeta:
    """Return the type with missing parts taken from the resource."""
    group, version, kind = meta
    if not version and group in ("", resource.group):
        group, version = resource.group, resource.version
    return TypeMeta(group, version, kind or resource.kind)


def check_registered(meta: TypeMeta, resource: Resource) -> None:
    """Raise MisfitError for an unregistered kind or version."""
    if not meta.version:
        raise KindMismatchError("Object 'apiVersion' is missing")
    if not is_registered(meta.group_version, meta.kind, resource.group):
        scheme = scheme_name(resource.group)
        raise KindMismatchError(
            f'no kind "{meta.kind}" is registered for version "{meta.group_version}" in scheme "{scheme}"'
        )


def check_convertible(meta: TypeMeta, resource: Resource) -> None:
    """Raise MisfitError for a kind that is no version of the resource's kind."""
    wanted = internal_type(resource.group, resource.kind)
    if internal_type(meta.group, meta.kind) != wanted:
        raise KindMismatchError(f"converting ({meta.version}.{meta.kind}) to ({wanted}): unknown conversion")
