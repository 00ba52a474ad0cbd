# SPDX-License-Identifier: Apache-2.0
"""Normalization of empty lists that are always written: storage treats empty and absent alike, so they are null."""

from __future__ import annotations

from typing import Any

from kubeloop.api.codec import force_setattr


def null_if_empty(owner: Any, *fields: str) -> None:
    """Replace empty lists in fields by None."""
    for field in fields:
        if getattr(owner, field) == ():
            force_setattr(owner, field, None)
