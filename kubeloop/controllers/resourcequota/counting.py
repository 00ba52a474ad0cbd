"""How much of a quota is used: every kind that it names is counted in its namespace, within its scopes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from kubeloop.api.generated.core_v1 import ResourceQuota
from kubeloop.api.quota.amounts import ZERO, Amounts, amounts_of, only, plus
from kubeloop.api.quota.meter import Meter, scopes_of


class Countable(Protocol):
    """A kind whose objects can be counted."""

    @property
    def meter(self) -> Meter: ...

    @property
    def is_known(self) -> bool:
        """Whether all of its objects are known by now."""

    def objects(self, namespace: str) -> Iterable[Any]: ...


@dataclass(frozen=True, slots=True)
class Count:
    """What is used, and which names could not be counted because their objects are not known yet."""

    used: Amounts
    unknown: frozenset[str]


def count(quota: ResourceQuota, kinds: Iterable[Countable], now: datetime) -> Count:
    """Count anew. What no kind knows of is in neither part of the answer."""
    used: Amounts = {}
    unknown: set[str] = set()
    for kind in kinds:
        names = kind.meter.measured(quota.spec.hard)
        if not names:
            continue
        if not kind.is_known:
            unknown.update(names)
            continue
        used = plus(used, dict.fromkeys(names, ZERO))
        for obj in kind.objects(quota.metadata.namespace):
            used = _with(used, only(share(kind.meter, quota, obj, now), names))
    return Count({name: amount for name, amount in used.items() if name not in unknown}, frozenset(unknown))


def share(meter: Meter, quota: ResourceQuota, obj: Any, now: datetime) -> Amounts:
    """What an object takes of a quota: nothing if it is outside of its scopes."""
    if not all(meter.in_scope(scope, obj) for scope in scopes_of(quota)):
        return {}
    return meter.usage(obj, now)


def status_change(quota: ResourceQuota, counted: Amounts) -> dict[str, dict[str, str | None]]:
    """What has to change in a quota's status, as a patch of it; empty if nothing has. What could not be counted
    keeps its last number.
    """
    hard, used = amounts_of(quota.spec.hard), amounts_of(quota.status.used)
    wanted = only({**used, **counted}, hard)
    # A quota without limits has a status too, by which one sees that it was looked at.
    return {
        field: change
        for field, change in (
            ("hard", _difference(amounts_of(quota.status.hard), hard)),
            ("used", _difference(used, wanted)),
        )
        if change
    }


def lacks_usage(quota: ResourceQuota, meters: Iterable[Meter]) -> bool:
    """Whether somebody waits for this quota's first count: until then nothing that it limits can be created."""
    if amounts_of(quota.spec.hard) != amounts_of(quota.status.hard):
        return True
    uncounted = [name for name in quota.status.hard if name not in quota.status.used]
    return bool(uncounted) and any(meter.measured(uncounted) for meter in meters)


def _with(used: Amounts, more: Amounts) -> Amounts:
    """Add to a sum that is nobody else's yet."""
    for name, amount in more.items():
        used[name] += amount
    return used


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {name: str(after[name]) for name in after if before.get(name) != after[name]}
    changed.update((name, None) for name in before if name not in after)
    return changed
