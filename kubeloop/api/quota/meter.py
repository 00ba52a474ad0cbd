"""How a kind is measured: by its number, unless a subclass knows more of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kubeloop.api.generated.core_v1 import ResourceQuota, ScopedResourceSelectorRequirement
from kubeloop.api.quota.amounts import ONE, Amounts


class Meter:
    """Measures the objects of one kind, given with its group: `deployments.apps`."""

    def __init__(self, qualified: str, *other_names: str) -> None:
        self.names = (f"count/{qualified}", *other_names)

    def concerns(self, operation: str, subresource: str, new: Any, old: Any) -> bool:
        """Whether such a write may change what is used."""
        return operation == "CREATE" and not subresource

    def measured(self, names: Iterable[str]) -> list[str]:
        """Those of the names that this kind counts towards, in order."""
        return sorted(name for name in names if name in self.names)

    def unstated(self, names: list[str], obj: Any) -> str:
        """What an object must say because quotas limit these names, but doesn't; empty when nothing is missing."""
        return ""

    def in_scope(self, scope: ScopedResourceSelectorRequirement, obj: Any) -> bool:
        """Whether a quota's scope holds the object. Most kinds are in none."""
        return False

    def usage(self, obj: Any, now: datetime) -> Amounts:
        """What the object takes."""
        return dict.fromkeys(self.names, ONE)

    def binds(self, quota: ResourceQuota, obj: Any) -> bool:
        """Whether a quota is about the object: it limits something that is measured here, in all of its scopes."""
        return bool(self.measured(quota.status.hard)) and all(self.in_scope(scope, obj) for scope in scopes_of(quota))


def scopes_of(quota: ResourceQuota) -> list[ScopedResourceSelectorRequirement]:
    spec = quota.spec
    scopes = [ScopedResourceSelectorRequirement(scope_name=name, operator="Exists") for name in spec.scopes]
    return scopes + list(spec.scope_selector.match_expressions if spec.scope_selector is not None else ())


def value_in_scope(scope: ScopedResourceSelectorRequirement, values: Iterable[str]) -> bool:
    """Whether any of an object's values for a scope is meant by the scope's operator."""
    values = list(values)
    if scope.operator == "Exists":
        return bool(values)
    if scope.operator == "DoesNotExist":
        return not values
    if scope.operator == "In":
        return any(value in scope.values for value in values)
    return not values or any(value not in scope.values for value in values)
