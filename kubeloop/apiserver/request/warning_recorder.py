# SPDX-License-Identifier: Apache-2.0
"""Warnings of one request, limited as upstream limits them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_MAX_CHARACTERS: Final = 4 << 10
_MAX_ITEM_CHARACTERS: Final = 256


class WarningRecorder:
    """Records each warning once.

    If all together exceed 4,096 characters, each is truncated to 256; then the first that reach the limit are kept.
    """

    __slots__ = ("_characters", "_is_truncating", "_texts")

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._characters = 0
        self._is_truncating = False

    def __bool__(self) -> bool:
        return bool(self._texts)

    def __iter__(self) -> Iterator[str]:
        """Yield the texts for the response's headers."""
        longest = _MAX_ITEM_CHARACTERS if self._is_truncating else _MAX_CHARACTERS
        return (text[:longest] for text in self._texts)

    def add(self, text: str) -> None:
        """Record a warning, unless it is empty, known, or beyond the limit."""
        if not text or text in self._texts or (self._is_truncating and self._characters >= _MAX_CHARACTERS):
            return
        self._texts[text] = None
        if self._is_truncating:
            self._characters += min(len(text), _MAX_ITEM_CHARACTERS)
        elif self._characters + len(text) <= _MAX_CHARACTERS:
            self._characters += len(text)
        else:
            self._is_truncating = True
            self._characters = sum(min(len(one), _MAX_ITEM_CHARACTERS) for one in self._texts)
