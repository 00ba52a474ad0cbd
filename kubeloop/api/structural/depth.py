"""How deep documents and schemas may be nested, so that no client exhausts the stack of those who walk along them."""

from __future__ import annotations

from typing import Any, Final

# Far beyond what people write; upstream has no such limits but the size of an object.
MAX_OBJECT_DEPTH: Final = 150
MAX_SCHEMA_DEPTH: Final = 200


def is_deeper(document: Any, limit: int) -> bool:
    """Whether objects and lists are nested more than so many times; never recursive itself."""
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
