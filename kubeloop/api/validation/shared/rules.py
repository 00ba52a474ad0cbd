"""What a kind brings to validation beyond the rules that hold for every object's metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeloop.api.meta.field_path import FieldErrors

CreateRule = Callable[[Any], FieldErrors]
UpdateRule = Callable[[Any, Any], FieldErrors]


def nothing_on_create(obj: Any) -> FieldErrors:
    return []


def nothing_on_update(new: Any, old: Any) -> FieldErrors:
    return []


@dataclass(frozen=True)
class Rules:
    """The checks of one kind. A subresource that is not listed gets the metadata rules alone."""

    create: CreateRule = nothing_on_create
    update: UpdateRule = nothing_on_update
    subresources: Mapping[str, UpdateRule] = field(default_factory=dict)

    def update_rule(self, subresource: str) -> UpdateRule:
        if not subresource:
            return self.update
        return self.subresources.get(subresource, nothing_on_update)


METADATA_ONLY = Rules()
