# SPDX-License-Identifier: Apache-2.0
"""Decision on a write by a namespace's quotas, and their new usage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from kubeloop.api.generated.core_v1 import ResourceQuota
from kubeloop.api.quota.amounts import ZERO, Amounts, add, amounts_of, format_amounts, mask, subtract_non_negative
from kubeloop.api.quota.evaluator import QuotaEvaluator
from kubeloop.api.quota.limited_resources import LimitedResources


class QuotaExceeded(Exception):
    """Raised for a write that exceeds a quota; the message is shown to clients."""


class QuotaUsage(NamedTuple):
    """New usage of one quota."""

    quota: ResourceQuota
    used: Amounts


class UncoveredScopes(Exception):
    """Raised for a write in limited scopes without a quota; upstream answers it as an internal error."""


class QuotaRequest(NamedTuple):
    """Write to be charged: new and old object, and the time. Without `enforced` it may exceed the limits."""

    new: Any
    old: Any | None
    now: datetime
    enforced: bool = True


def check_request(
    quotas: Sequence[ResourceQuota],
    meter: QuotaEvaluator,
    request: QuotaRequest,
    limited: LimitedResources | None = None,
) -> list[QuotaUsage]:
    """Return the quotas whose usage changes; raises `QuotaExceeded`, or `UncoveredScopes` for limited scopes."""
    new, old, now = request.new, request.old, request.now
    binding = [quota for quota in quotas if meter.matches(quota, new)]
    for quota in binding:
        _demand_known_use(quota, meter, new)
    if not binding and limited is None:
        return []
    usage = meter.usage(new, now)
    grown = usage if old is None else subtract_non_negative(usage, meter.usage(old, now))
    if limited is not None and any(amount != ZERO for amount in grown.values()):
        _demand_coverage(limited, quotas, binding, meter, new, usage)
    charges = []
    for quota in binding:
        # An object that enters a quota's scope by an update is charged in full.
        added = grown if old is None or meter.matches(quota, old) else usage
        added = {name: amount for name, amount in mask(added, quota.status.hard.keys()).items() if amount != ZERO}
        if added:
            charges.append(_charged(quota, added, request.enforced))
    return charges


def _demand_coverage(
    limited: LimitedResources,
    quotas: Sequence[ResourceQuota],
    binding: Sequence[ResourceQuota],
    meter: QuotaEvaluator,
    new: Any,
    usage: Amounts,
) -> None:
    names = limited.uncovered_names(usage, binding, meter)
    if names:
        raise QuotaExceeded(f"insufficient quota to consume: {','.join(names)}")
    scopes = limited.uncovered_scopes(new, quotas, meter)
    if scopes:
        shown = " ".join(f"{{{one.scope_name} {one.operator} [{' '.join(one.values)}]}}" for one in scopes)
        raise UncoveredScopes(f"insufficient quota to match these scopes: [{shown}]")


def _demand_known_use(quota: ResourceQuota, meter: QuotaEvaluator, new: Any) -> None:
    names = meter.matching_resources(quota.status.hard)
    unstated = meter.missing_constraints(names, new)
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
