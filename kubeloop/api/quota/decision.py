"""Decision on a write by a namespace's quotas, and their new usage."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from kubeloop.api.generated.core_v1 import ResourceQuota
from kubeloop.api.quota.amounts import ZERO, Amounts, add, amounts_of, format_amounts, mask, subtract_non_negative
from kubeloop.api.quota.meter import QuotaEvaluator


class QuotaExceeded(Exception):
    """Raised for a write that exceeds a quota; the message is shown to clients."""


class QuotaUsage(NamedTuple):
    """New usage of one quota."""

    quota: ResourceQuota
    used: Amounts


def check_request(
    quotas: Iterable[ResourceQuota],
    meter: QuotaEvaluator,
    new: Any,
    old: Any | None,
    now: datetime,
    enforced: bool = True,
) -> list[QuotaUsage]:
    """Return the quotas whose usage changes; raises QuotaRefusal.

    Without `enforced`, usage is charged even beyond the limit.
    """
    binding = [quota for quota in quotas if meter.binds(quota, new)]
    for quota in binding:
        _demand_known_use(quota, meter, new)
    if not binding:
        return []
    usage = meter.usage(new, now)
    grown = usage if old is None else subtract_non_negative(usage, meter.usage(old, now))
    charges = []
    for quota in binding:
        # An object that enters a quota's scope by an update is charged in full.
        added = grown if old is None or meter.binds(quota, old) else usage
        added = {name: amount for name, amount in mask(added, quota.status.hard.keys()).items() if amount != ZERO}
        if added:
            charges.append(_charged(quota, added, enforced))
    return charges


def _demand_known_use(quota: ResourceQuota, meter: QuotaEvaluator, new: Any) -> None:
    names = meter.measured(quota.status.hard)
    unstated = meter.unstated(names, new)
    if unstated:
        raise QuotaExceeded(f"failed quota: {quota.metadata.name}: {unstated}")
    if any(name not in quota.status.used for name in names):
        raise QuotaExceeded(f"status unknown for quota: {quota.metadata.name}, resources: {','.join(names)}")


def _charged(quota: ResourceQuota, added: Amounts, enforced: bool) -> QuotaUsage:
    used = amounts_of(quota.status.used)
    after = add(used, added)
    if enforced:
        hard = mask(amounts_of(quota.status.hard), added.keys())
        exceeded = [name for name in added if after[name] > hard[name]]
        if exceeded:
            raise QuotaExceeded(
                f"exceeded quota: {quota.metadata.name}, requested: {format_amounts(mask(added, exceeded))}, "
                f"used: {format_amounts(mask(used, exceeded))}, limited: {format_amounts(mask(hard, exceeded))}"
            )
    return QuotaUsage(quota, after)
