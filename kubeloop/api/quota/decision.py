"""Decision on a write by a namespace's quotas, and their new usage."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from kubeloop.api.generated.core_v1 import ResourceQuota
from kubeloop.api.quota.amounts import ZERO, Amounts, amounts_of, growth, only, plus, spelled
from kubeloop.api.quota.meter import Meter


class QuotaRefusal(Exception):
    """Raised for a write that exceeds a quota; the message is shown to clients."""


class Charge(NamedTuple):
    """New usage of one quota."""

    quota: ResourceQuota
    used: Amounts


def charges_of(
    quotas: Iterable[ResourceQuota], meter: Meter, new: Any, old: Any | None, now: datetime, enforced: bool = True
) -> list[Charge]:
    """Return the quotas whose usage changes; raises QuotaRefusal.

    Without `enforced`, usage is charged even beyond the limit.
    """
    binding = [quota for quota in quotas if meter.binds(quota, new)]
    for quota in binding:
        _demand_known_use(quota, meter, new)
    if not binding:
        return []
    usage = meter.usage(new, now)
    grown = usage if old is None else growth(usage, meter.usage(old, now))
    charges = []
    for quota in binding:
        # An object that enters a quota's scope by an update is charged in full.
        added = grown if old is None or meter.binds(quota, old) else usage
        added = {name: amount for name, amount in only(added, quota.status.hard.keys()).items() if amount != ZERO}
        if added:
            charges.append(_charged(quota, added, enforced))
    return charges


def _demand_known_use(quota: ResourceQuota, meter: Meter, new: Any) -> None:
    names = meter.measured(quota.status.hard)
    unstated = meter.unstated(names, new)
    if unstated:
        raise QuotaRefusal(f"failed quota: {quota.metadata.name}: {unstated}")
    if any(name not in quota.status.used for name in names):
        raise QuotaRefusal(f"status unknown for quota: {quota.metadata.name}, resources: {','.join(names)}")


def _charged(quota: ResourceQuota, added: Amounts, enforced: bool) -> Charge:
    used = amounts_of(quota.status.used)
    after = plus(used, added)
    if enforced:
        hard = only(amounts_of(quota.status.hard), added.keys())
        exceeded = [name for name in added if after[name] > hard[name]]
        if exceeded:
            raise QuotaRefusal(
                f"exceeded quota: {quota.metadata.name}, requested: {spelled(only(added, exceeded))}, "
                f"used: {spelled(only(used, exceeded))}, limited: {spelled(only(hard, exceeded))}"
            )
    return Charge(quota, after)
