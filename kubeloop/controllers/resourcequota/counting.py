"""Computes the usage of a quota: counts every kind that it names, in its namespace and scopes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from kubeloop.api.generated.core_v1 import ResourceQuota
from kubeloop.api.quota.amounts import ZERO, Amounts, add, amounts_of, mask
from kubeloop.api.quota.meter import QuotaEvaluator, scopes_of


class Countable(Protocol):
    """Kind whose objects can be counted."""

    @property
    def meter(self) -> QuotaEvaluator:
        """Meter of the kind."""

    @property
    def is_known(self) -> bool:
        """True if all objects of the kind are known."""

    def objects(self, namespace: str) -> Iterable[Any]:
        """Return the objects in a namespace."""


@dataclass(frozen=True, slots=True)
class CalculatedUsage:
    """Usage, and the names that could not be counted because their objects are not known yet."""

    used: Amounts
    unknown: frozenset[str]


def calculate_usage(quota: ResourceQuota, kinds: Iterable[Countable], now: datetime) -> CalculatedUsage:
    """Count the usage; names that no kind measures are in neither part of the result."""
    used: Amounts = {}
    unknown: set[str] = set()
    for kind in kinds:
        names = kind.meter.measured(quota.spec.hard)
        if not names:
            continue
        if not kind.is_known:
            unknown.update(names)
            continue
        used = add(used, dict.fromkeys(names, ZERO))
        for obj in kind.objects(quota.metadata.namespace):
            used = _with(used, mask(object_usage(kind.meter, quota, obj, now), names))
    return CalculatedUsage({name: amount for name, amount in used.items() if name not in unknown}, frozenset(unknown))


def object_usage(meter: QuotaEvaluator, quota: ResourceQuota, obj: Any, now: datetime) -> Amounts:
    """Return an object's usage of a quota; empty if it is outside of its scopes."""
    if not all(meter.in_scope(scope, obj) for scope in scopes_of(quota)):
        return {}
    return meter.usage(obj, now)


def status_patch(quota: ResourceQuota, counted: Amounts) -> dict[str, dict[str, str | None]]:
    """Return the changes of a quota's status; empty if there are none.

    Names that could not be counted keep their last value.
    """
    hard, used = amounts_of(quota.spec.hard), amounts_of(quota.status.used)
    wanted = mask({**used, **counted}, hard)
    # A quota without limits gets a status too, which shows that it was processed.
    return {
        field: change
        for field, change in (
            ("hard", _difference(amounts_of(quota.status.hard), hard)),
            ("used", _difference(used, wanted)),
        )
        if change
    }


def lacks_usage(quota: ResourceQuota, meters: Iterable[QuotaEvaluator]) -> bool:
    """Return True if the quota awaits its first count, which blocks the creation of what it limits."""
    if amounts_of(quota.spec.hard) != amounts_of(quota.status.hard):
        return True
    uncounted = [name for name in quota.status.hard if name not in quota.status.used]
    return bool(uncounted) and any(meter.measured(uncounted) for meter in meters)


def _with(used: Amounts, more: Amounts) -> Amounts:
    """Add to a sum in place."""
    for name, amount in more.items():
        used[name] += amount
    return used


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {name: str(after[name]) for name in after if before.get(name) != after[name]}
    changed.update((name, None) for name in before if name not in after)
    return changed
