# SPDX-License-Identifier: Apache-2.0
"""Usage of ResourceClaims: count, and devices by class, also under the names of extended resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Protocol

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.resource_v1 import (
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.quota.amounts import ONE, ZERO, Amounts, add, maximum
from kubeloop.api.quota.evaluator import QuotaEvaluator
from kubeloop.api.quota.pods import PodEvaluator
from kubeloop.api.quota.resource_names import DEVICE_CLASS, REQUESTS, is_extended_quota_resource
from kubeloop.api.scalars.quantity import Quantity

DEVICE_CLAIMS: Final = "resourceclaims.resource.k8s.io"
_FOR_EXTENDED_RESOURCES = "resource.kubernetes.io/extended-resource-claim"
_BY_CLASS = ".deviceclass.resource.k8s.io/devices"
# A request for all devices can't get more than a claim can hold.
_MOST_DEVICES = 32


class ClaimQuotaLister(Protocol):
    """Lister of the objects that the usage of a ResourceClaim depends on."""

    def device_classes(self) -> Iterable[DeviceClass]:
        """Return all DeviceClasses."""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, or None."""

    def claims(self, namespace: str) -> Iterable[ResourceClaim]:
        """Return the ResourceClaims of a namespace."""


class ResourceClaimEvaluator(QuotaEvaluator):
    """Meter of ResourceClaims; needs the DeviceClasses, and the owning pod, which may be charged already."""

    def __init__(self, around: ClaimQuotaLister) -> None:
        super().__init__(DEVICE_CLAIMS)
        self._around = around
        self._pods = PodEvaluator()

    def handles(self, operation: str, subresource: str, new: object, old: object) -> bool:
        """Return True for creates and updates of the claim itself."""
        return operation in ("CREATE", "UPDATE") and not subresource

    def matching_resources(self, names: Iterable[str]) -> list[str]:
        """Return the quota names that claims count towards, sorted."""
        return sorted(n for n in names if n in self.names or n.endswith(_BY_CLASS) or self._is_extended_by_class(n))

    def _is_extended_by_class(self, name: str) -> bool:
        if not is_extended_quota_resource(name):
            return False
        resource = name.removeprefix(REQUESTS)
        classes = self._class_names()
        return resource.removeprefix(DEVICE_CLASS) in classes or resource in classes.values()

    def usage(self, obj: ResourceClaim, now: datetime) -> Amounts:
        """Return the claim's usage: one claim, and its devices by class and extended resource."""
        by_class: Amounts = {}
        for request in obj.spec.devices.requests or ():
            by_class = add(by_class, _devices(request))
        used = {self.names[0]: ONE}
        used.update((name + _BY_CLASS, amount) for name, amount in by_class.items())
        paid = self._paid_by_pod(obj, now)
        classes = self._class_names()
        for name, amount in by_class.items():
            for alias in filter(None, (DEVICE_CLASS + name, classes.get(name))):
                rest = amount - paid.get(REQUESTS + alias, ZERO)
                if rest > ZERO:
                    used[REQUESTS + alias] = rest
        return used

    def _class_names(self) -> Mapping[str, str]:
        """Return each class's extended resource name by class name, empty if it has none."""
        return {one.metadata.name: one.spec.extended_resource_name or "" for one in self._around.device_classes()}

    def _paid_by_pod(self, claim: ResourceClaim, now: datetime) -> Amounts:
        """Return the extended resources already charged to the pod that the claim was created for."""
        if not _is_for_extended_resources(claim):
            return {}
        owner = controller_of(claim.metadata.owner_references)
        if owner is None or (owner.kind, owner.api_version) != ("Pod", "v1"):
            return {}
        pod = self._around.pod(claim.metadata.namespace, owner.name)
        if pod is None or pod.metadata.uid != owner.uid or not self._stands_for(claim, pod):
            return {}
        return self._pods.usage(pod, now)

    def _stands_for(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Return True if the pod names the claim or, if it names none, the claim is its first."""
        named = pod.status.extended_resource_claim_status
        if named is not None:
            return named.resource_claim_name == claim.metadata.name
        mine = _age(claim)
        return all(
            _age(other) >= mine
            for other in self._around.claims(claim.metadata.namespace)
            if _is_for_extended_resources(other)
            and (owner := controller_of(other.metadata.owner_references)) is not None
            and owner.uid == pod.metadata.uid
        )


def _is_for_extended_resources(claim: ResourceClaim) -> bool:
    return claim.metadata.annotations.get(_FOR_EXTENDED_RESOURCES) == "true"


def _age(claim: ResourceClaim) -> tuple[str, str]:
    return (claim.metadata.creation_timestamp or "", claim.metadata.name)


def _devices(request: DeviceRequest) -> Amounts:
    """Return devices by class; of several alternatives, the maximum for each class."""
    if request.first_available:
        return maximum(*({each.device_class_name: _count(each)} for each in request.first_available))
    return {} if request.exactly is None else {request.exactly.device_class_name: _count(request.exactly)}


def _count(request: ExactDeviceRequest | DeviceSubRequest) -> Quantity:
    if request.allocation_mode == "All":
        return Quantity.of(_MOST_DEVICES)
    return Quantity.of(request.count) if request.allocation_mode == "ExactCount" else ZERO
