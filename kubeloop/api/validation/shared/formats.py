# SPDX-License-Identifier: Apache-2.0
"""Formats of upstream's declarative validation; their messages differ from the handwritten ones."""

from __future__ import annotations

import re
from typing import Final

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, too_long
from kubeloop.api.meta.name_rules import (
    Check,
    check_c_identifier,
    check_dns1123_label,
    check_dns1123_subdomain,
    check_path_segment_name,
)
from kubeloop.api.validation.shared.objectmeta import byte_length
from kubeloop.api.validation.shared.scalars import check_errors, validate_qualified_name

_CASELESS: Final = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_NO_PREFIX: Final = "must include a prefix (e.g. 'example.com/key')"
_RESERVED_DOMAINS: Final = (".k8s.io", ".kubernetes.io")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LONGEST_POOL: Final = 253
_LONGEST_DOMAIN: Final = 63
_LONGEST_IDENTIFIER: Final = 32


def validate_short_name(value: str, path: FieldPath) -> FieldErrors:
    """Validate a k8s-short-name: a DNS label."""
    return [invalid(path, value, message) for message in _told(check_dns1123_label, value)]


def validate_long_name(value: str, path: FieldPath) -> FieldErrors:
    """Validate a k8s-long-name: a DNS subdomain."""
    return [invalid(path, value, message) for message in _told(check_dns1123_subdomain, value)]


def validate_caseless_long_name(value: str, path: FieldPath) -> FieldErrors:
    """Validate a DNS subdomain in any case; the message has its own example."""
    messages = _told(check_dns1123_subdomain, value.lower())
    told = (one.replace("example.com", "Example.com") for one in messages)
    return [invalid(path, value, _CASELESS + one[one.index(" (e.g.") :] if "(e.g." in one else one) for one in told]


def validate_label_key(value: str, path: FieldPath) -> FieldErrors:
    """Validate a label key."""
    return validate_qualified_name(value, path)


def validate_prefixed_label_key(value: str, path: FieldPath) -> FieldErrors:
    """Validate a label key with a prefix."""
    errors = validate_qualified_name(value, path)
    return errors if errors or "/" in value else [invalid(path, value, _NO_PREFIX)]


def validate_unreserved_domain(value: str, path: FieldPath) -> FieldErrors:
    """Validate that the domain of a prefixed key does not belong to Kubernetes."""
    domain = value.partition("/")[0].lower().strip().rstrip(".")
    if any(f".{domain}".endswith(suffix) for suffix in _RESERVED_DOMAINS):
        reserved = ", ".join(f"*{suffix}" for suffix in _RESERVED_DOMAINS)
        return [invalid(path, value, f"domain names {reserved} are reserved")]
    return []


def validate_uuid(value: str, path: FieldPath) -> FieldErrors:
    """Validate a UUID in lower case."""
    return [] if _UUID.fullmatch(value) else [invalid(path, value, "must be a lowercase UUID in 8-4-4-4-12 format")]


def validate_path_segment_name(value: str, path: FieldPath) -> FieldErrors:
    """Validate a name that can be a segment of a URL path."""
    return check_errors(check_path_segment_name, value, path)


def validate_pool_name(value: str, path: FieldPath) -> FieldErrors:
    """Validate the name of a resource pool: long names separated by slashes."""
    errors: FieldErrors = [too_long(path, _LONGEST_POOL)] if byte_length(value) > _LONGEST_POOL else []
    for index, part in enumerate(value.split("/")):
        if not part:
            errors.append(invalid(path, value, f"segment {index}: must not be empty"))
            continue
        messages = _told(check_dns1123_subdomain, part)
        errors += [invalid(path, part, f"segment {index}: {message}") for message in messages]
    return errors


def validate_fully_qualified_name(value: str, path: FieldPath) -> FieldErrors:
    """Validate a domain and an identifier; a name with more than one slash is not checked further, as upstream."""
    domain, *rest = value.split("/")
    if not rest:
        told = "a fully qualified name must be a domain and a name separated by a slash"
        return [*_identifier(domain, path), invalid(path, value, told)]
    if len(rest) > 1:
        return []
    name = _identifier(rest[0], path) if rest[0] else [invalid(path, "", "name must not be empty")]
    return _domain(domain, path) + name


def _domain(value: str, path: FieldPath) -> FieldErrors:
    if not value:
        return [invalid(path, "", "prefix must not be empty")]
    errors: FieldErrors = [too_long(path, _LONGEST_DOMAIN)] if byte_length(value) > _LONGEST_DOMAIN else []
    messages = _told(check_dns1123_subdomain, value)
    return errors + [invalid(path, value, f"prefix: {message}") for message in messages]


def _identifier(value: str, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = [too_long(path, _LONGEST_IDENTIFIER)] if byte_length(value) > _LONGEST_IDENTIFIER else []
    return errors + check_errors(check_c_identifier, value, path)


def _told(check: Check, value: str) -> list[str]:
    """Return a check's messages with "bytes" for "characters", as declarative validation words them."""
    messages = check(value)
    return [one.removesuffix("characters") + "bytes" if one.endswith("characters") else one for one in messages]
