# SPDX-License-Identifier: Apache-2.0
"""Dropping of fields of disabled features, unless the stored object already uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features

# A use of a feature: its name, the struct that holds the field, the field.
Use = tuple[str, Any, str]


def drop_disabled(uses_in: Callable[[Any], Iterator[Use]], new: Any, old: Any, features: Features) -> None:
    """Clear in `new` every use of a disabled feature that `old` (None on create) doesn't use yet."""
    uses = list(uses_in(new))
    if not uses:
        return
    already_used = set() if old is None else {feature for feature, _, _ in uses_in(old)}
    for feature, owner, field in uses:
        if feature not in already_used and not features.is_enabled(feature):
            force_setattr(owner, field, _cleared(getattr(owner, field)))


def _cleared(value: Any) -> Any:
    if isinstance(value, tuple):
        return ()
    return {} if isinstance(value, Mapping) else None
