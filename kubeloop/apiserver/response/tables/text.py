# SPDX-License-Identifier: Apache-2.0
"""Text of table cells: ages, labels, selectors, shortened lists, and placeholders for missing values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from kubeloop.api.scalars.times import human_duration
from kubeloop.api.selectors import SelectorError, label_selector_as_selector

if TYPE_CHECKING:
    from kubeloop.api.generated import core_v1, meta_v1

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
INVALID = "<invalid>"


class PrintableCondition(Protocol):
    """Common fields of all kinds' conditions."""

    @property
    def type(self) -> str:
        """Type of the condition."""

    @property
    def status(self) -> str:
        """Status of the condition: True, False or Unknown."""


def _read(moment: str) -> datetime:
    """Parse a timestamp; decoded objects have the canonical form, which the standard library parses fastest."""
    return datetime.fromisoformat(moment)


def format_age_since(moment: str | None, now: datetime) -> str:
    """Return the time since a timestamp, such as `5m`; `<unknown>` without one."""
    return human_duration((now - _read(moment)).total_seconds()) if moment else UNKNOWN


def format_age(obj: Any, now: datetime) -> str:
    """Return the time since the object's creation."""
    return format_age_since(obj.metadata.creation_timestamp, now)


def format_duration_between(start: str, end: str) -> str:
    """Return the duration between two timestamps."""
    return human_duration((_read(end) - _read(start)).total_seconds())


def format_quantity(amount: str | None) -> str:
    """Return a quantity as Go prints it, `<nil>` if absent."""
    return "<nil>" if amount is None else str(amount)


def format_labels(pairs: Mapping[str, str]) -> str:
    """Return labels as sorted `key=value` pairs, or `<none>`."""
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items())) or NONE


def format_selector(value: meta_v1.LabelSelector | None) -> str:
    """Return a label selector as text, or `<none>`; `<error>` if it is invalid."""
    try:
        return str(label_selector_as_selector(value)) or NONE
    except SelectorError:
        return "<error>"


def container_cells(template: core_v1.PodTemplateSpec | None) -> Iterable[str]:
    """Yield two cells: the names and the images of a template's containers."""
    found = template.spec.containers or () if template else ()
    yield ",".join(container.name for container in found)
    yield ",".join(container.image for container in found)


def format_shortened(items: list[str], limit: int = 3, separator: str = ",") -> str:
    """Return the first items, and the number of further ones."""
    shown = separator.join(items[:limit])
    return f"{shown} + {len(items) - limit} more..." if len(items) > limit else shown


def has_condition(conditions: Iterable[PrintableCondition] | None, type: str) -> bool:
    """Return True if the first condition of a type is True."""
    return next((condition.status == "True" for condition in conditions or () if condition.type == type), False)
