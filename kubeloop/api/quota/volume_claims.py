"""Usage of PersistentVolumeClaims: count and storage, in total and by storage class."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, ScopedResourceSelectorRequirement
from kubeloop.api.quota.amounts import ONE, Amounts
from kubeloop.api.quota.meter import QuotaEvaluator, matches_scope_selector
from kubeloop.api.scalars.quantity import Quantity, parse_quantity

_STORAGE = "requests.storage"
_CLAIMS = "persistentvolumeclaims"
_BY_CLASS = ".storageclass.storage.k8s.io/"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


class VolumeClaimEvaluator(QuotaEvaluator):
    """Meter of PersistentVolumeClaims."""

    def __init__(self) -> None:
        super().__init__(_CLAIMS, _CLAIMS, _STORAGE)

    def concerns(self, operation: str, subresource: str, new: object, old: object) -> bool:
        """Return True for creates and updates, also of the status, which shows allocated storage."""
        return operation in ("CREATE", "UPDATE") and subresource in ("", "status")

    def measured(self, names: Iterable[str]) -> list[str]:
        """Return the quota names that claims count towards, sorted."""
        by_class = (_BY_CLASS + _CLAIMS, _BY_CLASS + _STORAGE)
        return sorted(name for name in names if name in self.names or name.endswith(by_class))

    def in_scope(self, scope: ScopedResourceSelectorRequirement, obj: PersistentVolumeClaim) -> bool:
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
