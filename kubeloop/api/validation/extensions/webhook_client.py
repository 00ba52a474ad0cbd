# SPDX-License-Identifier: Apache-2.0
"""Validation of a webhook's client configuration: a URL or a service."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, quote, required
from kubeloop.api.meta.name_rules import check_dns1123_subdomain, check_port_number

_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2}).{0,2}")
_FORM: Final = "; desired format: https://host[/path]"


def validate_client_config(config: Any, path: FieldPath) -> FieldErrors:
    """Validate that exactly one of `url` and `service` is set, and that it is valid."""
    if (config.url is None) == (config.service is None):
        return [required(path, "exactly one of url or service is required")]
    if config.url is not None:
        return _validate_url(config.url, path.child("url"))
    return _validate_service(config.service, path.child("service"))


def _validate_url(url: str, path: FieldPath) -> FieldErrors:
    parsed, problem = _parse(url)
    if parsed is None:
        return [required(path, f"url must be a valid URL: parse {quote(url)}: {problem}{_FORM}")]
    user, at, host = parsed.netloc.rpartition("@")
    errors: FieldErrors = []
    if parsed.scheme != "https":
        errors.append(invalid(path, parsed.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not host:
        errors.append(invalid(path, host, f"host must be specified{_FORM}"))
    if at:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if parsed.fragment:
        errors.append(invalid(path, parsed.fragment, "fragments are not permitted in the URL"))
    if parsed.query:
        errors.append(invalid(path, parsed.query, "query parameters are not permitted in the URL"))
    return errors


def _parse(url: str) -> tuple[SplitResult | None, str]:
    """Parse a URL and return it, or the reason for failure; Python's parser is more lenient than Go's."""
    if any(ord(char) < 0x20 or char == "\x7f" for char in url):
        return None, "net/url: invalid control character in URL"
    if url.startswith(":"):
        return None, "missing protocol scheme"
    try:
        parsed = urlsplit(url)
    except ValueError:
        return None, "missing ']' in host"
    if " " in parsed.netloc:
        return None, 'invalid character " " in host name'
    port = parsed.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")
    if port[2] and not (port[2].isascii() and port[2].isdigit()):
        return None, f"invalid port {quote(':' + port[2])} after host"
    if (escape := _BAD_ESCAPE.search(parsed.path)) is not None:
        return None, f"invalid URL escape {quote(escape.group())}"
    return parsed, ""


def _validate_service(service: Any, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    # Upstream confuses the two, so a missing field is reported at the other one.
    if not service.namespace:
        errors.append(required(path.child("name")))
    if not service.name:
        errors.append(required(path.child("namespace")))
    port = service.port or 0
    if messages := check_port_number(port):
        errors.append(invalid(path.child("port"), port, f"port is not valid: {', '.join(messages)}"))
    return errors + _validate_path(service.path or "", path.child("path"))


def _validate_path(text: str, path: FieldPath) -> FieldErrors:
    if text in ("", "/"):
        return []
    if text == "//":
        return [invalid(path, text, "segment[0] may not be empty")]
    errors: FieldErrors = [] if text.startswith("/") else [invalid(path, text, "must start with a '/'")]
    for index, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(path, text, f"segment[{index}] may not be empty"))
            continue
        messages = check_dns1123_subdomain(step)
        errors += [invalid(path, text, f"segment[{index}]: {message}") for message in messages]
    return errors
