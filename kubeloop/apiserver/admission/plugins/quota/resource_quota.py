"""ResourceQuota: rejects an object that would exceed a quota of its namespace; else charges the quota first."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.resource_v1 import DeviceClass, ResourceClaim
from kubeloop.api.kinds import Resource
from kubeloop.api.quota import QuotaExceeded, check_request, evaluator_of, has_evaluator
from kubeloop.api.quota.devices import DEVICE_CLAIMS, ResourceClaimEvaluator
from kubeloop.api.quota.meter import QuotaEvaluator
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup, Operation
from kubeloop.apiserver.admission.plugins.quota.quota_ledger import QuotaAccessor

# Updates that can increase usage: resizing a pod, and a claim's status with storage that it already has.
_UPDATES_INCREASING_USAGE = frozenset(
    (
        ("pods", ""),
        ("pods", "resize"),
        ("services", ""),
        ("persistentvolumeclaims", ""),
        ("persistentvolumeclaims", "status"),
        (DEVICE_CLAIMS, ""),
    )
)


class ResourceQuotaPlugin(AdmissionPlugin):
    """Charges ResourceQuotas for creates, and for updates that increase usage."""

    name = "ResourceQuota"
    charges = True  # runs last: rejected objects must not be charged

    def __init__(self, lookup: Lookup, ledger: QuotaAccessor) -> None:
        self._ledger = ledger
        self._meters: dict[str, QuotaEvaluator] = {DEVICE_CLAIMS: ResourceClaimEvaluator(_DeviceUsageLookup(lookup))}

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for creates of metered resources, and for updates that can increase usage."""
        if not resource.namespaced or not has_evaluator(resource.qualified):
            return False
        if operation == "CREATE":
            return not subresource
        return operation == "UPDATE" and (resource.qualified, subresource) in _UPDATES_INCREASING_USAGE

    def check(self, attempt: Attributes) -> None:
        """Charge the matching quotas, or reject the object."""
        quotas = self._ledger.quotas(attempt.namespace)
        if not quotas:
            return
        meter = self._meter(attempt.resource.qualified)
        if not meter.concerns(attempt.operation, attempt.subresource, attempt.obj, attempt.old):
            return
        enforced = attempt.subresource != "status"
        try:
            charges = check_request(quotas, meter, attempt.obj, attempt.old, attempt.now, enforced)
        except QuotaExceeded as refusal:
            raise attempt.forbidden(str(refusal)) from None
        if not attempt.dry_run:
            for charge in charges:
                self._ledger.enter(charge, attempt.now)

    def _meter(self, qualified: str) -> QuotaEvaluator:
        meter = self._meters.get(qualified)
        if meter is None:
            meter = self._meters[qualified] = evaluator_of(qualified)
        return meter


class _DeviceUsageLookup:
    """Stored objects on which the usage of ResourceClaims depends."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def device_classes(self) -> Sequence[DeviceClass]:
        return self._lookup.every("deviceclasses", group="resource.k8s.io")

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self._lookup.find("pods", namespace, name)

    def claims(self, namespace: str) -> Sequence[ResourceClaim]:
        return self._lookup.every("resourceclaims", namespace, "resource.k8s.io")
