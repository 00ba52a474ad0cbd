# SPDX-License-Identifier: Apache-2.0
"""Limits of the nesting of documents and schemas, so that no client can exhaust the stack."""

from __future__ import annotations

from typing import Any, Final

# Far beyond real schemas; upstream limits only the size of an object.
MAX_OBJECT_DEPTH: Final = 150
MAX_SCHEMA_DEPTH: Final = 200


def exceeds_depth(document: Any, limit: int) -> bool:
    """Return True if objects and lists are nested deeper than a limit; not recursive itself."""
    level = [document]
    for _ in range(limit):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
