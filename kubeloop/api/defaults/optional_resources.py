# SPDX-License-Identifier: Apache-2.0
"""Defaults of kinds in versions that are not served by default."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.resource import default_device_count, default_tolerations
from kubeloop.api.generated.apiserverinternal_v1alpha1 import StorageVersion
from kubeloop.api.generated.resource_v1alpha3 import ResourcePoolStatusRequest
from kubeloop.api.generated.resource_v1beta1 import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate

_NOTHING: Final = msgspec.Raw(b"{}")
_POOLS: Final = 100


def default_pool_status_request(request: ResourcePoolStatusRequest) -> None:
    """Apply the defaults of a ResourcePoolStatusRequest."""
    if request.spec.limit is None:
        force_setattr(request.spec, "limit", _POOLS)


def default_storage_version(version: StorageVersion) -> None:
    """Set the spec, which has no fields and is always present."""
    force_setattr(version, "spec", _NOTHING)


def default_claim_v1beta1(claim: ResourceClaim) -> None:
    """Apply the defaults of a v1beta1 ResourceClaim, whose exact requests are the requests themselves."""
    _default_old_spec(claim.spec)
    if claim.status.allocation is not None:
        for result in claim.status.allocation.devices.results:
            default_tolerations(result.tolerations)


def default_claim_template_v1beta1(template: ResourceClaimTemplate) -> None:
    """Apply the defaults of a v1beta1 ResourceClaimTemplate."""
    _default_old_spec(template.spec.spec)


def _default_old_spec(spec: ResourceClaimSpec) -> None:
    for request in spec.devices.requests or ():
        if request.device_class_name:
            default_device_count(request)
        default_tolerations(request.tolerations)
        for alternative in request.first_available:
            default_device_count(alternative)
            default_tolerations(alternative.tolerations)
