"""Amounts of bytes that are no whole numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubeloop.api.meta.field_path import Path, quote
from kubeloop.api.scalars.quantity import parse_quantity


def is_fractional(text: str) -> bool:
    """In canonical form, only such amounts end in small units or have a negative exponent."""
    return (text[-1:] in "mun" or "e-" in text) and parse_quantity(text).milli_value() % 1000 != 0


def fractions(path: Path, amounts: Mapping[str, str], *names: str) -> Iterator[str]:
    for name in names:
        text = amounts.get(name)
        if text is not None and is_fractional(text):
            yield f"{path.key(name)}: fractional byte value {quote(text)} is invalid, must be an integer"
