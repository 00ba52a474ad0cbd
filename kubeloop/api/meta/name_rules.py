# SPDX-License-Identifier: Apache-2.0
"""Validation of names, keys and values; each check returns upstream's messages.

A check returns an empty list for a valid value. Lengths count UTF-8 bytes, whatever the message calls them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, required

Check = Callable[[str], list[str]]

DNS_LABEL_MAX: Final = 63
DNS_SUBDOMAIN_MAX: Final = 253
LABEL_VALUE_MAX: Final = 63
PORT_NAME_MAX: Final = 15
_MAX_INT32: Final = 2**31 - 1


class _Form:
    """Regular expression with its message and examples."""

    def __init__(self, sentence: str, pattern: str, *examples: str) -> None:
        self.fits = re.compile(pattern).fullmatch
        self.message = regex_message(sentence, pattern, *examples)


def regex_message(sentence: str, pattern: str, *examples: str) -> str:
    """Return the message that explains a pattern, with examples in upstream's spacing."""
    if not examples:
        return f"{sentence} (regex used for validation is '{pattern}')"
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{sentence} (e.g. {listed}regex used for validation is '{pattern}')"


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORED: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_NAME_PART: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_DNS_LABEL: Final = _Form(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_DNS_SUBDOMAIN: Final = _Form(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_DNS_SUBDOMAIN_UNDERSCORED: Final = _Form(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character",
    rf"{_UNDERSCORED}(\.{_UNDERSCORED})*",
    "example.com",
)
_DNS1035_LABEL: Final = _Form(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "my-name",
    "abc-123",
)
_WILDCARD: Final = _Form(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    rf"\*\.{_SUBDOMAIN}",
    "*.example.com",
)
_LABEL_KEY: Final = _Form(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _NAME_PART,
    "MyName",
    "my.name",
    "123-abc",
)
_LABEL_VALUE: Final = _Form(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    f"({_NAME_PART})?",
    "MyValue",
    "my_value",
    "12345",
)
_C_IDENTIFIER: Final = _Form(
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'",
    "[A-Za-z_][A-Za-z0-9_]*",
    "my_name",
    "MY_NAME",
    "MyName",
)
_PERCENT: Final = _Form(
    "a valid percent string must be a numeric string followed by an ending '%'", "[0-9]+%", "1%", "93%"
)
_HEADER_NAME: Final = _Form(
    "a valid HTTP header must consist of alphanumeric characters or '-'", "[-A-Za-z0-9]+", "X-Header-Name"
)
_ENV_NAME: Final = _Form(
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', "
    "and must not start with a digit",
    "[-._a-zA-Z][-._a-zA-Z0-9]*",
    "my.env-name",
    "MY_ENV.NAME",
    "MyEnvName1",
)
_CONFIG_KEY: Final = _Form(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "[-._a-zA-Z0-9]+",
    "key.name",
    "KEY_NAME",
    "key-name",
)
_PATH: Final = _Form("Invalid path", _HTTP_PATH)


# Fast path: keys are checked on every write and mostly short and valid.
_fits_qualified_name: Final = re.compile(f"(?:{_SUBDOMAIN}/)?{_NAME_PART}").fullmatch


def max_length_message(limit: int) -> str:
    """Return the message for a value that is too long."""
    return f"must be no more than {limit} characters"


def range_message(low: int, high: int) -> str:
    """Return the message for a number outside an inclusive range."""
    return f"must be between {low} and {high}, inclusive"


def _longer(value: str, limit: int) -> bool:
    return len(value) > limit or (not value.isascii() and len(value.encode(errors="surrogatepass")) > limit)


def _check(form: _Form, value: str, limit: int | None = None) -> list[str]:
    messages = [max_length_message(limit)] if limit is not None and _longer(value, limit) else []
    return messages if form.fits(value) else [*messages, form.message]


def check_dns1123_label(value: str) -> list[str]:
    """Validate a DNS-1123 label."""
    messages = _check(_DNS_LABEL, value, DNS_LABEL_MAX)
    if messages and messages[-1] == _DNS_LABEL.message and _DNS_SUBDOMAIN.fits(value):
        messages[-1] = "must not contain dots"
    return messages


def check_dns1123_subdomain(value: str) -> list[str]:
    """Validate a DNS-1123 subdomain."""
    return _check(_DNS_SUBDOMAIN, value, DNS_SUBDOMAIN_MAX)


def check_dns1123_subdomain_with_underscore(value: str) -> list[str]:
    """Validate a DNS-1123 subdomain that may contain underscores."""
    return _check(_DNS_SUBDOMAIN_UNDERSCORED, value, DNS_SUBDOMAIN_MAX)


def check_dns1035_label(value: str) -> list[str]:
    """Validate a DNS-1035 label."""
    return _check(_DNS1035_LABEL, value, DNS_LABEL_MAX)


def check_wildcard_dns1123_subdomain(value: str) -> list[str]:
    """Validate a DNS-1123 subdomain that begins with a wildcard."""
    return _check(_WILDCARD, value, DNS_SUBDOMAIN_MAX)


def check_generate_name(check: Check, prefix: str) -> list[str]:
    """Validate a generateName: the appended suffix makes a dash at its end valid."""
    return check(f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix)


def check_qualified_name(value: str) -> list[str]:
    """Validate a label or annotation key, a resource or finalizer name: [DNS prefix, slash,] name."""
    if len(value) <= LABEL_VALUE_MAX and _fits_qualified_name(value):
        return []
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return [
            f"a valid label key {_LABEL_KEY.message} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    messages: list[str] = []
    if slash and not prefix:
        messages.append("prefix part must be non-empty")
    elif slash:
        # Key messages come from a newer rule set upstream, which says bytes where names say characters.
        found = check_dns1123_subdomain(prefix)
        messages.extend(f"prefix part {message.replace('253 characters', '253 bytes')}" for message in found)
    if not name:
        messages.append("name part must be non-empty")
    elif _longer(name, LABEL_VALUE_MAX):
        messages.append(f"name part must be no more than {LABEL_VALUE_MAX} bytes")
    if not _LABEL_KEY.fits(name):
        messages.append(f"name part {_LABEL_KEY.message}")
    return messages


def check_label_value(value: str) -> list[str]:
    """Validate a label value."""
    messages = [f"must be no more than {LABEL_VALUE_MAX} bytes"] if _longer(value, LABEL_VALUE_MAX) else []
    return messages if _LABEL_VALUE.fits(value) else [*messages, _LABEL_VALUE.message]


def check_c_identifier(value: str) -> list[str]:
    """Validate a C identifier."""
    return _check(_C_IDENTIFIER, value)


def check_percent(value: str) -> list[str]:
    """Validate a percentage such as `25%`."""
    return _check(_PERCENT, value)


def check_http_header_name(value: str) -> list[str]:
    """Validate the name of an HTTP header."""
    return _check(_HEADER_NAME, value)


def check_in_range(value: int, low: int, high: int) -> list[str]:
    """Validate that a number lies in an inclusive range."""
    return [] if low <= value <= high else [range_message(low, high)]


def check_port_number(port: int) -> list[str]:
    """Validate a port number: 1 to 65535."""
    return check_in_range(port, 1, 65535)


def check_user_id(value: int) -> list[str]:
    """Validate a user ID: 0 to 2147483647."""
    return check_in_range(value, 0, _MAX_INT32)


check_group_id = check_user_id


def check_port_name(value: str) -> list[str]:
    """Validate a port's IANA service name."""
    messages = [max_length_message(PORT_NAME_MAX)] if _longer(value, PORT_NAME_MAX) else []
    if not re.fullmatch("[-a-z0-9]+", value):
        messages.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        messages.append("must contain at least one letter (a-z)")
    if "--" in value:
        messages.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        messages.append("must not begin or end with a hyphen")
    return messages


def check_env_var_name(value: str) -> list[str]:
    """Validate the strict form of an environment variable's name."""
    return _check(_ENV_NAME, value) + _parent_folder(value)


def check_relaxed_env_var_name(value: str) -> list[str]:
    """Validate an environment variable's name: printable ASCII without `=`."""
    if not value:
        return ["environment variable name must be non-empty"]
    if value.isascii() and value.isprintable() and "=" not in value:
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def check_config_map_key(value: str) -> list[str]:
    """Validate a key of a ConfigMap or Secret."""
    return _check(_CONFIG_KEY, value, DNS_SUBDOMAIN_MAX) + _parent_folder(value)


def _parent_folder(value: str) -> list[str]:
    """Reject names that would leave their directory when they become files: `.`, `..` and a leading `..`."""
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def check_path_segment_name(value: str) -> list[str]:
    """Validate a name that can be a segment of a URL path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return check_path_segment_prefix(value)


def check_path_segment_prefix(value: str) -> list[str]:
    """Validate the prefix of a name that can be a segment of a URL path."""
    return [f"may not contain '{refused}'" for refused in ("/", "%") if refused in value]


def validate_fully_qualified_name(path: FieldPath, name: str) -> FieldErrors:
    """Validate a DNS subdomain of at least three parts, such as a signer's or webhook's name."""
    if not name:
        return [required(path)]
    if messages := check_dns1123_subdomain(name):
        return [invalid(path, name, ",".join(messages))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def validate_fully_qualified_domain_name(path: FieldPath, name: str) -> FieldErrors:
    """Validate a domain of at least two labels; a trailing dot is allowed."""
    if not name:
        return [required(path)]
    name = name.removesuffix(".")
    if messages := check_dns1123_subdomain(name):
        return [invalid(path, name, ",".join(messages))]
    labels = name.split(".")
    if len(labels) < 2:
        return [invalid(path, name, "should be a domain with at least two segments separated by dots")]
    for label in labels:
        if messages := check_dns1123_label(label):
            return [invalid(path, label, ",".join(messages))]
    return []


def validate_domain_prefixed_path(path: FieldPath, value: str) -> FieldErrors:
    """Validate a domain, a slash and a path, such as `acme.io/foo/bar`."""
    if not value:
        return [required(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, host, message) for message in check_dns1123_subdomain(host)]
    return errors if _PATH.fits(rest) else [*errors, invalid(path, rest, _PATH.message)]


def validate_domain_prefixed_key(path: FieldPath, value: str) -> FieldErrors:
    """Validate a domain, a slash and a name, such as `acme.io/foo`."""
    if not value:
        return [required(path)]
    if errors := [invalid(path, value, message) for message in check_qualified_name(value)]:
        return errors
    if "/" not in value:
        return [invalid(path, value, 'must be a domain-prefixed key (such as "acme.io/foo")')]
    return []
