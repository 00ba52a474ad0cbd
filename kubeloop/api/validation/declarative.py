"""Checks that upstream generates from its types, where their words differ from those of its handwritten rules."""

from __future__ import annotations

from typing import Any

from kubeloop.api.fields import FieldErrors, Path, invalid
from kubeloop.api.validation.scalars import IMMUTABLE


def immutable(new: Any, old: Any, path: Path) -> FieldErrors:
    """A field that can't change; the refused value is not shown."""
    return [] if new == old else [invalid(path, None, IMMUTABLE)]
