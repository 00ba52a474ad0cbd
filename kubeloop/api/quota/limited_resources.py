# SPDX-License-Identifier: Apache-2.0
"""Resources whose consumption is limited by default: a quota must cover them (ResourceQuotaConfiguration)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import ResourceQuota, ScopedResourceSelectorRequirement
from kubeloop.api.quota.amounts import ZERO, Amounts
from kubeloop.api.quota.evaluator import QuotaEvaluator, scopes_of


class LimitedResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Resource that may be consumed only if a quota limits it."""

    api_group: str = ""
    resource: str = ""
    match_contains: tuple[str, ...] = ()
    match_scopes: tuple[ScopedResourceSelectorRequirement, ...] = ()

    @property
    def group_resource(self) -> str:
        """Resource with its group, such as `deployments.apps`."""
        return f"{self.resource}.{self.api_group}" if self.api_group else self.resource


class LimitedResources:
    """Limits of one kind of object."""

    def __init__(self, configured: Iterable[LimitedResource], group_resource: str) -> None:
        configured = tuple(configured)
        own = [one for one in configured if one.group_resource == group_resource]
        self._contained = tuple(text for one in own for text in one.match_contains)
        # Upstream matches the scopes of all entries, whatever their resource.
        self._scopes = tuple(scope for one in configured for scope in one.match_scopes)

    def uncovered_names(self, usage: Amounts, binding: Iterable[ResourceQuota], meter: QuotaEvaluator) -> list[str]:
        """Return the consumed resource names that need a quota and have none, sorted."""
        needed = {
            name for name, amount in usage.items() if amount > ZERO and any(text in name for text in self._contained)
        }
        return sorted(needed.difference(*(meter.matching_resources(quota.status.hard) for quota in binding)))

    def uncovered_scopes(
        self, obj: Any, quotas: Sequence[ResourceQuota], meter: QuotaEvaluator
    ) -> list[ScopedResourceSelectorRequirement]:
        """Return the scopes of an object that need a quota and have none."""
        covered = {
            scope.scope_name for quota in quotas for scope in scopes_of(quota) if meter.matches_scope(scope, obj)
        }
        return [scope for scope in self._scopes if meter.matches_scope(scope, obj) and scope.scope_name not in covered]
