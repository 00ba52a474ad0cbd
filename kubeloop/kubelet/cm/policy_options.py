# SPDX-License-Identifier: Apache-2.0
"""Values of the options of resource manager policies. Pure."""

from __future__ import annotations

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


class InvalidPolicyOption(ValueError):
    """Raised for an option that does not exist, is not enabled, or has a value that it cannot have."""


def parse_bool_option(name: str, value: str) -> bool:
    """Return the value of an option as Go parses it. Raises `InvalidPolicyOption`."""
    if value not in _TRUE | _FALSE:
        cause = f'strconv.ParseBool: parsing "{value}": invalid syntax'
        raise InvalidPolicyOption(f'bad value for option "{name}": {cause}')
    return value in _TRUE
