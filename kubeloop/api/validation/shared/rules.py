"""Type of a kind's entry in the validation table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeloop.api.meta.field_path import FieldErrors

CreateRule = Callable[[Any], FieldErrors]
UpdateRule = Callable[[Any, Any], FieldErrors]


def nothing_on_create(obj: Any) -> FieldErrors:
    """Accept every new object."""
    return []


def nothing_on_update(new: Any, old: Any) -> FieldErrors:
    """Accept every update."""
    return []


@dataclass(frozen=True)
class Rules:
    """Validation rules of one kind. A subresource that is not listed gets only the metadata rules."""

    create: CreateRule = nothing_on_create
    update: UpdateRule = nothing_on_update
    subresources: Mapping[str, UpdateRule] = field(default_factory=dict)

    def update_rule(self, subresource: str) -> UpdateRule:
        """Return the rule for updates of a subresource, or of the object itself if empty."""
        if not subresource:
            return self.update
        return self.subresources.get(subresource, nothing_on_update)


METADATA_ONLY = Rules()
