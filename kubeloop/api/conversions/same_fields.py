# SPDX-License-Identifier: Apache-2.0
"""Conversion between versions of a kind that have the same fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api import codec
from kubeloop.api.kinds import type_of

Plain = dict[str, Any]


def to_version(definition: str, change: Callable[[Plain], None] | None = None) -> Callable[[Any], Any]:
    """Return a converter from any version to this type, with an optional change of the plain form."""

    def convert(obj: Any) -> Any:
        plain = codec.to_plain(obj)
        del plain["apiVersion"]
        if change is not None:
            change(plain)
        return codec.from_plain(plain, type_of(definition))

    return convert
