"""How values are written in cells: ages, labels, selectors, shortened lists, and the words for what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from kubeloop.api.scalars.times import human_duration
from kubeloop.api.selectors import SelectorError, from_label_selector

if TYPE_CHECKING:
    from kubeloop.api.generated import core_v1, meta_v1

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
INVALID = "<invalid>"


class Condition(Protocol):
    """What every kind's conditions have."""

    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...


def _read(moment: str) -> datetime:
    """Moments in decoded objects are in canonical form already, which the standard library reads fastest."""
    return datetime.fromisoformat(moment)


def since(moment: str | None, now: datetime) -> str:
    """`5m` for a moment five minutes ago."""
    return human_duration((now - _read(moment)).total_seconds()) if moment else UNKNOWN


def age(obj: Any, now: datetime) -> str:
    return since(obj.metadata.creation_timestamp, now)


def between(start: str, end: str) -> str:
    return human_duration((_read(end) - _read(start)).total_seconds())


def quantity(amount: str | None) -> str:
    """Go's way of writing a quantity that may be absent."""
    return "<nil>" if amount is None else str(amount)


def labels(pairs: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items())) or NONE


def selector(value: meta_v1.LabelSelector | None) -> str:
    try:
        return str(from_label_selector(value)) or NONE
    except SelectorError:
        return "<error>"


def containers(template: core_v1.PodTemplateSpec | None) -> Iterable[str]:
    """Two cells: the names and the images of a template's containers."""
    found = template.spec.containers or () if template else ()
    yield ",".join(container.name for container in found)
    yield ",".join(container.image for container in found)


def shortened(items: list[str], limit: int = 3, separator: str = ",") -> str:
    """The first few items, and how many more there are."""
    shown = separator.join(items[:limit])
    return f"{shown} + {len(items) - limit} more..." if len(items) > limit else shown


def has_condition(conditions: Iterable[Condition] | None, type: str) -> bool:
    """Whether the first condition of a type is true."""
    return next((condition.status == "True" for condition in conditions or () if condition.type == type), False)
