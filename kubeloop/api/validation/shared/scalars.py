# SPDX-License-Identifier: Apache-2.0
"""Validation of single values, shared by many kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubeloop.api.addresses import check_legacy_ip
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, not_supported, required
from kubeloop.api.meta.name_rules import Check, check_percent, check_port_name, check_port_number
from kubeloop.api.strategy.equality import is_semantically_equal
from kubeloop.api.validation.shared.cached_names import key_messages, label_messages, subdomain_messages

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
POSITIVE: Final = "must be greater than zero"
IMMUTABLE: Final = "field is immutable"
_FILE_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"


def check_errors(check: Check, value: str, path: FieldPath) -> FieldErrors:
    """Return the errors of a name check."""
    return [invalid(path, value, message) for message in check(value)]


def validate_dns_label(value: str, path: FieldPath) -> FieldErrors:
    """Validate a DNS-1123 label."""
    messages = label_messages(value)
    return [invalid(path, value, message) for message in messages] if messages else []


def validate_dns_subdomain(value: str, path: FieldPath) -> FieldErrors:
    """Validate a DNS-1123 subdomain."""
    messages = subdomain_messages(value)
    return [invalid(path, value, message) for message in messages] if messages else []


def validate_qualified_name(value: str, path: FieldPath) -> FieldErrors:
    """Validate a qualified name, such as a label key."""
    messages = key_messages(value)
    return [invalid(path, value, message) for message in messages] if messages else []


def validate_nonnegative(value: int | None, path: FieldPath) -> FieldErrors:
    """Validate that a number is not negative."""
    return [invalid(path, value, NOT_NEGATIVE)] if value is not None and value < 0 else []


def validate_positive(value: int, path: FieldPath) -> FieldErrors:
    """Validate that a number is positive."""
    return [invalid(path, value, POSITIVE)] if value <= 0 else []


def validate_unchanged(new: Any, old: Any, path: FieldPath, shown: Any = ...) -> FieldErrors:
    """Validate that a field is unchanged; `shown` replaces the new value in the error."""
    return [] if is_semantically_equal(new, old) else [invalid(path, new if shown is ... else shown, IMMUTABLE)]


def validate_enum(value: str | None, supported: Iterable[str], path: FieldPath) -> FieldErrors:
    """Validate a required member of an enumeration; the error lists it in the given order."""
    if value in (supported := tuple(supported)):
        return []
    return [not_supported(path, value, supported)] if value else [required(path)]


def validate_port_or_name(port: int | str, path: FieldPath) -> FieldErrors:
    """Validate a port number or port name."""
    if isinstance(port, str):
        return check_errors(check_port_name, port, path)
    return [invalid(path, port, message) for message in check_port_number(port)]


def validate_file_mode(mode: int | None, path: FieldPath) -> FieldErrors:
    """Validate the permission bits of a file."""
    return [invalid(path, mode, _FILE_MODE)] if mode is not None and not 0 <= mode <= 0o777 else []


def validate_legacy_ip(value: str, path: FieldPath, kept: Iterable[str] = ()) -> FieldErrors:
    """Validate an IP address; those in `kept` may have non-canonical forms."""
    if value in tuple(kept):
        return []
    return [invalid(path, value, message) for message in check_legacy_ip(value, strict=True)]


def validate_int_or_percent(value: int | str, path: FieldPath) -> FieldErrors:
    """Validate a non-negative number or a percentage."""
    if isinstance(value, str):
        return check_errors(check_percent, value, path)
    return validate_nonnegative(value, path)


def validate_not_more_than_100_percent(value: int | str | None, path: FieldPath) -> FieldErrors:
    """Validate that a percentage is at most 100%."""
    percent = percent_of(value)
    if percent is None or percent <= 100:
        return []
    return [invalid(path, value, "must not be greater than 100%")]


def percent_of(value: int | str | None) -> int | None:
    """Return the number of a percentage; None if the value is none."""
    return int(value[:-1]) if isinstance(value, str) and not check_percent(value) else None
