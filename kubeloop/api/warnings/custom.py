# SPDX-License-Identifier: Apache-2.0
"""Warnings about custom resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kubeloop.api.meta.field_path import quote
from kubeloop.api.meta.name_rules import check_qualified_name
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.api.warnings.rules import Warnings

_STANDARD: Final = frozenset(("orphan", "foregroundDeletion", "kubernetes"))
_PREFER: Final = "to avoid accidental conflicts with other finalizer writers"


def _of_new(obj: CustomResourceObject) -> Sequence[str]:
    return [text for one in sorted(set(obj.metadata.finalizers)) for text in _finalizer_warnings(one)]


def _of_changed(new: CustomResourceObject, old: CustomResourceObject) -> Sequence[str]:
    added = set(new.metadata.finalizers) - set(old.metadata.finalizers)
    return [*_excused(new, old), *(text for one in sorted(added) for text in _finalizer_warnings(one))]


def _excused(new: CustomResourceObject, _: CustomResourceObject) -> Sequence[str]:
    """Return warnings for rule violations that are excused because the value is unchanged."""
    return [error.message() for error in new.ratcheted_errors]


def _finalizer_warnings(name: str) -> Iterator[str]:
    said = f"metadata.finalizers: {quote(name)}:"
    yield from (f"{said} {message}" for message in check_qualified_name(name))
    if "/" in name or name in _STANDARD:
        return
    path = " including a path (/)" if "." in name else ""
    yield f"{said} prefer a domain-qualified finalizer name{path} {_PREFER}"


INSTANCE = Warnings(create=_of_new, update=_of_changed, status=_excused)
