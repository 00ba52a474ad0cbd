# SPDX-License-Identifier: Apache-2.0
"""Defaults of device claims. The strategy sets a taint's timeAdded: defaults have no clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.resource_v1 import (
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)

_EXACT_COUNT = "ExactCount"


def default_resource_claim(claim: ResourceClaim) -> None:
    """Apply the defaults of a ResourceClaim."""
    _default_claim_spec(claim.spec)
    if claim.status.allocation is not None:
        for result in claim.status.allocation.devices.results:
            default_tolerations(result.tolerations)


def default_resource_claim_template(template: ResourceClaimTemplate) -> None:
    """Apply the defaults of a ResourceClaimTemplate."""
    _default_claim_spec(template.spec.spec)


def _default_claim_spec(spec: ResourceClaimSpec) -> None:
    for request in spec.devices.requests or ():
        if request.exactly is not None:
            _default_request(request.exactly)
        for alternative in request.first_available:
            _default_request(alternative)


def _default_request(request: ExactDeviceRequest | DeviceSubRequest) -> None:
    default_device_count(request)
    default_tolerations(request.tolerations)


def default_device_count(request: Any) -> None:
    """Default a request of any version to exactly one device."""
    if not request.allocation_mode:
        force_setattr(request, "allocation_mode", _EXACT_COUNT)
    if request.allocation_mode == _EXACT_COUNT and not request.count:
        force_setattr(request, "count", 1)


def default_tolerations(tolerations: Iterable[Any]) -> None:
    """Default the operator of tolerations to Equal."""
    for toleration in tolerations:
        if not toleration.operator:
            force_setattr(toleration, "operator", "Equal")
