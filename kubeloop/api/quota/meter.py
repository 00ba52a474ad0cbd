"""Base meter of a kind, which counts objects; subclasses measure more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kubeloop.api.generated.core_v1 import ResourceQuota, ScopedResourceSelectorRequirement
from kubeloop.api.quota.amounts import ONE, Amounts


class QuotaEvaluator:
    """Measures the usage of one kind, given with its group: `deployments.apps` (upstream's Evaluator)."""

    def __init__(self, qualified: str, *other_names: str) -> None:
        self.names = (f"count/{qualified}", *other_names)

    def concerns(self, operation: str, subresource: str, new: Any, old: Any) -> bool:
        """Return True if a write may change the usage."""
        return operation == "CREATE" and not subresource

    def measured(self, names: Iterable[str]) -> list[str]:
        """Return the quota names that this kind counts towards, sorted."""
        return sorted(name for name in names if name in self.names)

    def unstated(self, names: list[str], obj: Any) -> str:
        """Return the resources that quotas require an object to specify, but it doesn't; empty if none."""
        return ""

    def in_scope(self, scope: ScopedResourceSelectorRequirement, obj: Any) -> bool:
        """Return True if an object matches a quota's scope. Most kinds match none."""
        return False

    def usage(self, obj: Any, now: datetime) -> Amounts:
        """Return the usage of an object."""
        return dict.fromkeys(self.names, ONE)

    def binds(self, quota: ResourceQuota, obj: Any) -> bool:
        """Return True if a quota applies to the object: it limits a measured name, and all its scopes match."""
        return bool(self.measured(quota.status.hard)) and all(self.in_scope(scope, obj) for scope in scopes_of(quota))


def scopes_of(quota: ResourceQuota) -> list[ScopedResourceSelectorRequirement]:
    """Return a quota's scopes and scope selector as requirements."""
    spec = quota.spec
    scopes = [ScopedResourceSelectorRequirement(scope_name=name, operator="Exists") for name in spec.scopes]
    return scopes + list(spec.scope_selector.match_expressions if spec.scope_selector is not None else ())


def matches_scope_selector(scope: ScopedResourceSelectorRequirement, values: Iterable[str]) -> bool:
    """Return True if any of an object's values for a scope satisfies the scope's operator."""
    values = list(values)
    if scope.operator == "Exists":
        return bool(values)
    if scope.operator == "DoesNotExist":
        return not values
    if scope.operator == "In":
        return any(value in scope.values for value in values)
    return not values or any(value not in scope.values for value in values)
