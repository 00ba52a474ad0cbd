# SPDX-License-Identifier: Apache-2.0
"""Type of a kind's entry in the validation table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubeloop.api.features.gates import Features
from kubeloop.api.meta.field_path import FieldErrors

CreateRule = Callable[[Any], FieldErrors]
UpdateRule = Callable[[Any, Any], FieldErrors]
TimedRule = Callable[[Any, Any, datetime], FieldErrors]


def accept_create(obj: Any) -> FieldErrors:
    """Accept every new object."""
    return []


def accept_update(new: Any, old: Any) -> FieldErrors:
    """Accept every update."""
    return []


@dataclass(frozen=True)
class ValidationRules:
    """Validation rules of one kind. A subresource that is not listed gets only the metadata rules.

    Timed rules compare times in the object with the current time.
    """

    create: CreateRule = accept_create
    update: UpdateRule = accept_update
    subresources: Mapping[str, UpdateRule] = field(default_factory=dict)
    timed_subresources: Mapping[str, TimedRule] = field(default_factory=dict)

    def update_rule(self, subresource: str) -> UpdateRule:
        """Return the rule for updates of a subresource, or of the object itself if empty."""
        if not subresource:
            return self.update
        return self.subresources.get(subresource, accept_update)


# Makes the rules of a kind that asks feature gates, or whose rules cache, for the features of one server.
RulesFactory = Callable[[Features], ValidationRules]
METADATA_ONLY = ValidationRules()
