# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens in the Authorization header, read as upstream reads them."""

from __future__ import annotations

from typing import Final

EXTRA_SPACE_WARNING: Final = (
    "the provided Authorization header contains extra space before the bearer token, and is ignored"
)


def bearer_token_of(header: str) -> str:
    """Return the token of an Authorization header; empty if it has none.

    A second space before the token makes it empty; what follows the token is ignored.
    """
    parts = header.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


def has_extra_space(header: str) -> bool:
    """Return True if a token is ignored because of a space before it."""
    parts = header.strip().split(" ", 2)
    return len(parts) == 3 and parts[0].lower() == "bearer" and not parts[1]
