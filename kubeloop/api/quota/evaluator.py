# SPDX-License-Identifier: Apache-2.0
"""Usage of objects by kind: their number; of services and volume claims more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kubeloop.api.generated.core_v1 import (
    PersistentVolumeClaim,
    ResourceQuota,
    ScopedResourceSelectorRequirement,
    Service,
)
from kubeloop.api.quota.amounts import ONE, ZERO, Amounts
from kubeloop.api.scalars.quantity import Quantity, parse_quantity

_LOAD_BALANCERS = "services.loadbalancers"
_NODE_PORTS = "services.nodeports"
_STORAGE = "requests.storage"
_CLAIMS = "persistentvolumeclaims"
_BY_CLASS = ".storageclass.storage.k8s.io/"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


class QuotaEvaluator:
    """Measures the usage of one kind, given with its group: `deployments.apps` (upstream's Evaluator)."""

    def __init__(self, qualified: str, *other_names: str) -> None:
        self.names = (f"count/{qualified}", *other_names)

    def handles(self, operation: str, subresource: str, new: Any, old: Any) -> bool:
        """Return True if a write may change the usage."""
        return operation == "CREATE" and not subresource

    def matching_resources(self, names: Iterable[str]) -> list[str]:
        """Return the quota names that this kind counts towards, sorted."""
        return sorted(name for name in names if name in self.names)

    def missing_constraints(self, names: list[str], obj: Any) -> str:
        """Return the resources that quotas require an object to specify, but it doesn't; empty if none."""
        return ""

    def matches_scope(self, scope: ScopedResourceSelectorRequirement, obj: Any) -> bool:
        """Return True if an object matches a quota's scope. Most kinds match none."""
        return False

    def usage(self, obj: Any, now: datetime) -> Amounts:
        """Return the usage of an object."""
        return dict.fromkeys(self.names, ONE)

    def matches(self, quota: ResourceQuota, obj: Any) -> bool:
        """Return True if a quota applies to the object: it limits a measured name, and all its scopes match."""
        return bool(self.matching_resources(quota.status.hard)) and all(
            self.matches_scope(scope, obj) for scope in scopes_of(quota)
        )


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


class ServiceEvaluator(QuotaEvaluator):
    """Meter of services."""

    def __init__(self) -> None:
        super().__init__("services", "services", _LOAD_BALANCERS, _NODE_PORTS)

    def handles(self, operation: str, subresource: str, new: object, old: object) -> bool:
        """Return True for creates and updates, which may change the type."""
        return operation in ("CREATE", "UPDATE") and not subresource

    def usage(self, obj: Service, now: datetime) -> Amounts:
        """Return a service's usage: count, load balancers and node ports."""
        spec = obj.spec
        balanced = spec.type == "LoadBalancer"
        ports = 0
        if balanced and spec.allocate_load_balancer_node_ports is False:
            ports = sum(1 for port in spec.ports if port.node_port)
        elif balanced or spec.type == "NodePort":
            # Ports are not allocated yet on create, so the intent counts.
            ports = len(spec.ports)
        return {
            **super().usage(obj, now),
            _LOAD_BALANCERS: ONE if balanced else ZERO,
            _NODE_PORTS: Quantity.of(ports),
        }


class VolumeClaimEvaluator(QuotaEvaluator):
    """Meter of PersistentVolumeClaims."""

    def __init__(self) -> None:
        super().__init__(_CLAIMS, _CLAIMS, _STORAGE)

    def handles(self, operation: str, subresource: str, new: object, old: object) -> bool:
        """Return True for creates and updates, also of the status, which shows allocated storage."""
        return operation in ("CREATE", "UPDATE") and subresource in ("", "status")

    def matching_resources(self, names: Iterable[str]) -> list[str]:
        """Return the quota names that claims count towards, sorted."""
        by_class = (_BY_CLASS + _CLAIMS, _BY_CLASS + _STORAGE)
        return sorted(name for name in names if name in self.names or name.endswith(by_class))

    def matches_scope(self, scope: ScopedResourceSelectorRequirement, obj: PersistentVolumeClaim) -> bool:
        """Return True if a claim matches a VolumeAttributesClass scope."""
        return scope.scope_name == "VolumeAttributesClass" and matches_scope_selector(scope, _attributes_classes(obj))

    def usage(self, obj: PersistentVolumeClaim, now: datetime) -> Amounts:
        """Return a claim's usage: count and storage, in total and by storage class."""
        used = dict.fromkeys((f"count/{_CLAIMS}", _CLAIMS), ONE)
        storage = _storage(obj)
        if storage is not None:
            used[_STORAGE] = storage
        storage_class = obj.metadata.annotations.get(_CLASS_ANNOTATION) or obj.spec.storage_class_name
        if storage_class:
            for name in (_CLAIMS, _STORAGE):
                if name in used:
                    used[storage_class + _BY_CLASS + name] = used[name]
        return used


def _storage(claim: PersistentVolumeClaim) -> Quantity | None:
    """Return the storage in whole bytes: as requested, or as allocated if that is more."""
    asked = claim.spec.resources.requests.get("storage")
    if asked is None:
        return None
    amount = parse_quantity(asked).rounded_up(0)
    allocated = claim.status.allocated_resources.get("storage")
    return amount if allocated is None else max(amount, parse_quantity(allocated).rounded_up(0))


def _attributes_classes(claim: PersistentVolumeClaim) -> list[str]:
    """Return every VolumeAttributesClass that the claim has, had or is about to get."""
    target = claim.status.modify_volume_status
    named = (
        claim.spec.volume_attributes_class_name,
        claim.status.current_volume_attributes_class_name,
        target.target_volume_attributes_class_name if target is not None else None,
    )
    return [name for name in dict.fromkeys(named) if name]
