# SPDX-License-Identifier: Apache-2.0
"""Warnings about fractional amounts of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubeloop.api.meta.field_path import FieldPath, quote
from kubeloop.api.scalars.quantity import parse_quantity


def is_fractional(text: str) -> bool:
    """Return True if a canonical amount is fractional; only these have small units or a negative exponent."""
    return (text[-1:] in "mun" or "e-" in text) and parse_quantity(text).milli_value() % 1000 != 0


def fraction_warnings(path: FieldPath, amounts: Mapping[str, str], *names: str) -> Iterator[str]:
    """Yield warnings about fractional amounts of the named resources."""
    for name in names:
        text = amounts.get(name)
        if text is not None and is_fractional(text):
            yield f"{path.key(name)}: fractional byte value {quote(text)} is invalid, must be an integer"
