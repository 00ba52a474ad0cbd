"""Defaults of device claims. When a taint was added is the strategy's to stamp: defaults know no time."""

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
    _default_claim_spec(claim.spec)
    if claim.status.allocation is not None:
        for result in claim.status.allocation.devices.results:
            default_tolerations(result.tolerations)


def default_resource_claim_template(template: ResourceClaimTemplate) -> None:
    _default_claim_spec(template.spec.spec)


def _default_claim_spec(spec: ResourceClaimSpec) -> None:
    for request in spec.devices.requests or ():
        if request.exactly is not None:
            _default_request(request.exactly)
        for alternative in request.first_available:
            _default_request(alternative)


def _default_request(request: ExactDeviceRequest | DeviceSubRequest) -> None:
    default_amount(request)
    default_tolerations(request.tolerations)


def default_amount(request: Any) -> None:
    """How many devices a request wants, in whichever version: one."""
    if not request.allocation_mode:
        force_setattr(request, "allocation_mode", _EXACT_COUNT)
    if request.allocation_mode == _EXACT_COUNT and not request.count:
        force_setattr(request, "count", 1)


def default_tolerations(tolerations: Iterable[Any]) -> None:
    """The same for what it tolerates: a taint of the same value."""
    for toleration in tolerations:
        if not toleration.operator:
            force_setattr(toleration, "operator", "Equal")
