"""ResourceQuota: an object that would exceed a quota of its namespace is refused; any other is charged first."""

from __future__ import annotations

from datetime import datetime

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.api.kinds import Resource
from kubeloop.api.owners import controller_of
from kubeloop.api.quota import QuotaRefusal, charges_of, is_metered, meter_of
from kubeloop.api.quota.amounts import Amounts
from kubeloop.api.quota.devices import DeviceClaimMeter
from kubeloop.api.quota.meter import Meter
from kubeloop.api.quota.pods import PodMeter
from kubeloop.apiserver.admission import Attempt, Lookup, Operation, Plugin
from kubeloop.apiserver.admission.quota_ledger import Ledger

_DEVICE_CLAIMS = "resourceclaims.resource.k8s.io"
_FOR_EXTENDED_RESOURCES = "resource.kubernetes.io/extended-resource-claim"
# What updates can make larger. A pod grows by being resized, a claim's status tells of storage that it got already.
_GROWING = frozenset(
    (
        ("pods", ""),
        ("pods", "resize"),
        ("services", ""),
        ("persistentvolumeclaims", ""),
        ("persistentvolumeclaims", "status"),
        (_DEVICE_CLAIMS, ""),
    )
)


class ResourceQuotaPlugin(Plugin):
    name = "ResourceQuota"

    def __init__(self, lookup: Lookup, ledger: Ledger) -> None:
        self._ledger = ledger
        self._devices = _Devices(lookup)
        self._meters: dict[str, Meter] = {}

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        if not resource.namespaced or not is_metered(resource.qualified):
            return False
        if operation == "CREATE":
            return not subresource
        return operation == "UPDATE" and (resource.qualified, subresource) in _GROWING

    def check(self, attempt: Attempt) -> None:
        quotas = self._ledger.quotas(attempt.namespace)
        if not quotas:
            return
        meter = self._meter(attempt.resource.qualified)
        if not meter.concerns(attempt.operation, attempt.subresource, attempt.obj, attempt.old):
            return
        enforced = attempt.subresource != "status"
        try:
            charges = charges_of(quotas, meter, attempt.obj, attempt.old, attempt.now, enforced)
        except QuotaRefusal as refusal:
            raise attempt.forbidden(str(refusal)) from None
        if not attempt.dry_run:
            for charge in charges:
                self._ledger.enter(charge, attempt.now)

    def _meter(self, qualified: str) -> Meter:
        meter = self._meters.get(qualified)
        if meter is None:
            meter = self._devices.meter if qualified == _DEVICE_CLAIMS else meter_of(qualified)
            self._meters[qualified] = meter
        return meter


class _Devices:
    """What a claim of devices depends on beside itself: classes of devices, and the pod that it was made for."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._pods = PodMeter()
        self.meter = DeviceClaimMeter(self._class_names, self._paid_by_pod)

    def _class_names(self) -> dict[str, str]:
        classes = self._lookup.every("deviceclasses", group="resource.k8s.io")
        return {each.metadata.name: each.spec.extended_resource_name or "" for each in classes}

    def _paid_by_pod(self, claim: ResourceClaim, now: datetime) -> Amounts:
        """What a pod was charged for as extended resources already, if the claim is the one that stands for them."""
        if claim.metadata.annotations.get(_FOR_EXTENDED_RESOURCES) != "true":
            return {}
        owner = controller_of(claim.metadata.owner_references)
        if owner is None or (owner.kind, owner.api_version) != ("Pod", "v1"):
            return {}
        pod: Pod | None = self._lookup.find("pods", claim.metadata.namespace, owner.name)
        if pod is None or pod.metadata.uid != owner.uid or not self._stands_for(claim, pod):
            return {}
        return self._pods.usage(pod, now)

    def _stands_for(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Whether the pod names the claim or, while it names none, no other claim of the pod came first."""
        named = pod.status.extended_resource_claim_status
        if named is not None:
            return named.resource_claim_name == claim.metadata.name
        mine = _age(claim)
        return all(
            _age(other) >= mine
            for other in self._lookup.every("resourceclaims", claim.metadata.namespace, "resource.k8s.io")
            if other.metadata.annotations.get(_FOR_EXTENDED_RESOURCES) == "true"
            and (owner := controller_of(other.metadata.owner_references)) is not None
            and owner.uid == pod.metadata.uid
        )


def _age(claim: ResourceClaim) -> tuple[str, str]:
    return (claim.metadata.creation_timestamp or "", claim.metadata.name)
