# SPDX-License-Identifier: Apache-2.0
"""ResourceQuota: rejects an object that would exceed a quota of its namespace; else charges the quota first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.resource_v1 import DeviceClass, ResourceClaim
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import FieldError, FieldPath, required
from kubeloop.api.quota import (
    QuotaExceeded,
    QuotaRequest,
    UncoveredScopes,
    check_request,
    evaluator_of,
    has_evaluator,
)
from kubeloop.api.quota.devices import DEVICE_CLAIMS, ResourceClaimEvaluator
from kubeloop.api.quota.evaluator import QuotaEvaluator
from kubeloop.api.quota.limited_resources import LimitedResource, LimitedResources
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup, Operation
from kubeloop.apiserver.admission.plugins.quota.quota_accessor import QuotaAccessor

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


class ResourceQuotaConfiguration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Configuration file of the plugin: resources that may be consumed only under a quota."""

    kind: str = ""
    api_version: str = ""
    limited_resources: tuple[LimitedResource, ...] = ()

    def validate(self) -> Iterator[FieldError]:
        """Yield the errors of the configuration."""
        path = FieldPath("limitedResources")
        for index, limited in enumerate(self.limited_resources):
            if not limited.resource:
                yield required(path.index(index).child("resource"))


_NO_CONFIGURATION = ResourceQuotaConfiguration()


class ResourceQuotaPlugin(AdmissionPlugin):
    """Charges ResourceQuotas for creates, and for updates that increase usage."""

    name = "ResourceQuota"
    is_quota = True  # runs last: rejected objects must not be charged

    def __init__(
        self, lookup: Lookup, ledger: QuotaAccessor, config: ResourceQuotaConfiguration = _NO_CONFIGURATION
    ) -> None:
        self._quota_accessor = ledger
        self._limited_resources = config.limited_resources
        self._meters: dict[str, QuotaEvaluator] = {DEVICE_CLAIMS: ResourceClaimEvaluator(_DeviceUsageLookup(lookup))}

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for creates of metered resources, and for updates that can increase usage."""
        if not resource.namespaced or not has_evaluator(resource.group_resource):
            return False
        if operation == "CREATE":
            return not subresource
        return operation == "UPDATE" and (resource.group_resource, subresource) in _UPDATES_INCREASING_USAGE

    def validate(self, attempt: Attributes) -> None:
        """Charge the matching quotas, or reject the object."""
        quotas = self._quota_accessor.get_quotas(attempt.namespace)
        if not quotas and not self._limited_resources:
            return
        meter = self._meter(attempt.resource.group_resource)
        if not meter.handles(attempt.operation, attempt.subresource, attempt.obj, attempt.old_obj):
            return
        request = QuotaRequest(attempt.obj, attempt.old_obj, attempt.now, attempt.subresource != "status")
        try:
            charges = check_request(quotas, meter, request, self._limits_of(attempt.resource.group_resource))
        except QuotaExceeded as refusal:
            raise attempt.forbidden(str(refusal)) from None
        except UncoveredScopes as refusal:
            raise errors.ApiError(str(refusal)) from None
        if not attempt.dry_run:
            for charge in charges:
                self._quota_accessor.update_quota_status(charge, attempt.now)

    def _limits_of(self, qualified: str) -> LimitedResources | None:
        return LimitedResources(self._limited_resources, qualified) if self._limited_resources else None

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
        return self._lookup.list_objects("deviceclasses", group="resource.k8s.io")

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self._lookup.get_object("pods", namespace, name)

    def claims(self, namespace: str) -> Sequence[ResourceClaim]:
        return self._lookup.list_objects("resourceclaims", namespace, "resource.k8s.io")
