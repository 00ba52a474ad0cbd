# SPDX-License-Identifier: Apache-2.0
"""Declarative validation as a table: the checks that upstream generates from tags on its types, one line per field.

A table has shapes by name, a shape has fields and unions. On an update only changed fields are checked again. Checks
that end the validation of a field (presence, length, immutability) are reported together; the value itself is checked
only if none of them fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import msgspec

from kubeloop.api import codec
from kubeloop.api.features.gates import Features
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from kubeloop.api.scalars.wire import always_null
from kubeloop.api.strategy.equality import is_semantically_equal
from kubeloop.api.validation.shared.declarative import mark_generated
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.objectmeta import byte_length
from kubeloop.api.validation.shared.scalars import IMMUTABLE

FormatCheck = Callable[[str, FieldPath], FieldErrors]
_ABSENT: Final = (None, "", 0, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldTags:
    """Constraints of a field. `shape` is that of its value, or of each item of a list."""

    required: bool = False
    gate: str = ""  # feature without which the field is forbidden
    immutable: Literal["", "always", "with its gate"] = ""
    presence_immutable: bool = False  # may change, but be neither set nor cleared
    kept_once_set: bool = False  # may change, but not be cleared
    fixed_once_set: bool = False  # may neither change nor be cleared
    monotonic: bool = False  # may not decrease
    max_items: int = 0
    max_bytes: int = 0
    keys: tuple[str, ...] = ()  # list-map keys that identify items
    items_immutable: bool = False  # items may change, but be neither added nor removed
    format: FormatCheck | None = None
    custom: Callable[[Any, FieldPath], FieldErrors] | None = None
    minimum: int | None = None
    maximum: int | None = None
    symbols: tuple[str, ...] = ()
    shape: str = ""


@dataclass(frozen=True, slots=True)
class StructTags:
    """Fields of a struct by JSON name; exactly one member of each union must be set."""

    fields: Mapping[str, FieldTags]
    unions: tuple[tuple[str, ...], ...] = ()


Table = Mapping[str, StructTags]


@dataclass(frozen=True, slots=True)
class DeclarativeValidation:
    """Declarative validation of one table, with the features of one server."""

    table: Table
    features: Features

    def validate_create(self, obj: Any, shape: str, path: FieldPath) -> FieldErrors:
        """Validate a new struct of a shape."""
        return mark_generated(_Run(self, False).struct(obj, None, shape, path))

    def validate_update(self, new: Any, old: Any, shape: str, path: FieldPath) -> FieldErrors:
        """Validate a changed struct of a shape."""
        if is_semantically_equal(new, old):
            return []
        return mark_generated(_Run(self, True).struct(new, old, shape, path))


@dataclass(frozen=True, slots=True)
class _Run:
    validation: DeclarativeValidation
    is_update: bool

    def struct(self, new: Any, old: Any, shape: str, path: FieldPath) -> FieldErrors:
        """Validate a struct; `old` is None for one that was absent before."""
        rules = self.validation.table[shape]
        errors: FieldErrors = []
        for members in rules.unions:
            errors += _union(new, old, members, path)
        for name, field in rules.fields.items():
            value = getattr(new, _attribute(type(new), name))
            before = None if old is None else getattr(old, _attribute(type(old), name))
            if old is None or not is_semantically_equal(value, before):
                errors += self._field(_Value(value, before, _is_pointer(type(new), name)), field, path.child(name))
        return errors

    def _field(self, value: _Value, field: FieldTags, path: FieldPath) -> FieldErrors:
        errors = self._presence(value, field, path)
        if errors or not value.is_set:
            return errors
        if isinstance(value.new, tuple):
            return self._items(value, field, path)
        if field.shape:
            return self.struct(value.new, value.old if value.was_set else None, field.shape, path)
        errors = _scalar(value.new, field, path)
        if field.monotonic and self.is_update and value.was_set and value.new < value.old:
            errors.append(invalid(path, value.new, f"may not be decreased from {value.old}"))
        return errors

    def _presence(self, value: _Value, field: FieldTags, path: FieldPath) -> FieldErrors:
        errors: FieldErrors = []
        gated = bool(field.gate) and not self.validation.features.is_enabled(field.gate)
        if gated and value.is_set:
            errors.append(forbidden(path, ""))
        if self.is_update and (field.immutable == "always" or (field.immutable and not gated)):
            errors.append(invalid(path, None, IMMUTABLE))
        if field.max_items and len(value.new or ()) > field.max_items:
            errors.append(too_many(path, len(value.new), field.max_items))
        if field.required and not value.is_set:
            errors.append(required(path))
        if self.is_update and field.presence_immutable and value.is_set != value.was_set:
            told = "field cannot be set once created" if value.is_set else "field cannot be cleared once set"
            errors.append(invalid(path, None, told))
        if self.is_update and value.was_set:
            errors += _once_set(value, field, path)
        if self.is_update and field.items_immutable:
            errors += _same_items(value.new or (), value.old or (), field.keys, path)
        return errors

    def _items(self, value: _Value, field: FieldTags, path: FieldPath) -> FieldErrors:
        errors = self._repeated(value.new, field, path) if field.keys else []
        before = {_key(one, field.keys): one for one in reversed(value.old or ())} if field.keys else {}
        for index, item in enumerate(value.new if field.shape else ()):
            old = before.get(_key(item, field.keys)) if field.keys else None
            if old is None or not is_semantically_equal(item, old):
                errors += self.struct(item, old, field.shape, path.index(index))
        return errors

    def _repeated(self, items: Sequence[Any], field: FieldTags, path: FieldPath) -> FieldErrors:
        seen = [_key(one, field.keys) for one in items]
        names = tuple(self.validation.table[field.shape].fields) if field.shape else ()
        return [duplicate(path.index(i), _shown(items[i], names)) for i, key in enumerate(seen) if key in seen[:i]]


@dataclass(frozen=True, slots=True)
class _Value:
    """New and old value of a field; a pointer counts as set even if it points to a zero value."""

    new: Any
    old: Any
    is_pointer: bool

    @property
    def is_set(self) -> bool:
        return _is_set(self.new, self.is_pointer)

    @property
    def was_set(self) -> bool:
        return _is_set(self.old, self.is_pointer)


def _is_set(value: Any, is_pointer: bool) -> bool:
    if isinstance(value, msgspec.Raw):
        return bytes(value) not in (b"", b"null")
    if is_pointer and not isinstance(value, tuple):
        return value is not None
    return value not in _ABSENT


def _once_set(value: _Value, field: FieldTags, path: FieldPath) -> FieldErrors:
    """Validate that a field that had a value is not cleared, or not changed at all."""
    if not value.is_set and (field.kept_once_set or field.fixed_once_set):
        return [invalid(path, None, "field cannot be cleared once set")]
    if field.fixed_once_set:
        return [invalid(path, None, "field cannot be modified once set")]
    return []


def _scalar(value: Any, field: FieldTags, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if field.custom is not None:
        errors += field.custom(value, path)
    if field.format is not None:
        errors += field.format(value, path)
    if field.max_bytes and byte_length(value) > field.max_bytes:
        errors.append(too_long(path, field.max_bytes))
    if field.minimum is not None and value < field.minimum:
        errors.append(invalid(path, value, f"must be greater than or equal to {field.minimum}"))
    if field.maximum is not None and value > field.maximum:
        errors.append(invalid(path, value, f"must be less than or equal to {field.maximum}"))
    if field.symbols and value not in field.symbols:
        errors.append(not_supported(path, value, field.symbols))
    return errors


def _union(new: Any, old: Any, members: Sequence[str], path: FieldPath) -> FieldErrors:
    given = _members_of(new, members)
    if old is not None and given == _members_of(old, members):
        return []
    names = ", ".join(f"`{name}`" for name in members)
    if not given:
        return [invalid(path, "", f"must specify one of: {names}")]
    if len(given) > 1:
        return [invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {names}")]
    return []


def _members_of(obj: Any, members: Sequence[str]) -> list[str]:
    kind = type(obj)
    return [name for name in members if _is_set(getattr(obj, _attribute(kind, name)), _is_pointer(kind, name))]


def _same_items(new: Sequence[Any], old: Sequence[Any], keys: Sequence[str], path: FieldPath) -> FieldErrors:
    now, before = [_key(one, keys) for one in new], [_key(one, keys) for one in old]
    added = [forbidden(path.index(i), "item may not be added") for i, key in enumerate(now) if key not in before]
    return added + [forbidden(path, "item may not be removed") for key in before if key not in now]


def _shown(item: Any, names: Sequence[str]) -> Any:
    """Return an item whose fields are shown in the order of the table, which is upstream's; others follow."""
    plain = codec.to_plain(item)
    return ordered_object({name: plain[name] for name in dict.fromkeys((*names, *plain)) if name in plain})


def _key(item: Any, keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(item, _attribute(type(item), name)) for name in keys)


@cache
def _attributes(kind: type[msgspec.Struct]) -> Mapping[str, tuple[str, bool]]:
    """Return by JSON name the attribute, and True if None differs from zero there."""
    return {
        one.encode_name: (one.name, one.default is None or one.default_factory is always_null)
        for one in msgspec.structs.fields(kind)
    }


def _attribute(kind: type[msgspec.Struct], name: str) -> str:
    return _attributes(kind)[name][0]


def _is_pointer(kind: type[msgspec.Struct], name: str) -> bool:
    return _attributes(kind)[name][1]
