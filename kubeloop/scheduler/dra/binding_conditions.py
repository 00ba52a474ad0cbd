# SPDX-License-Identifier: Apache-2.0
"""Binding conditions of devices: readiness of a claim and its deadline. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from kubeloop.api.generated.resource_v1 import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.meta.field_path import quote
from kubeloop.api.scalars.times import parse_time

_FAILED = "device binding failed"
_TIMEOUT = "device binding timeout"


class DeviceBindingError(Exception):
    """Raised if devices fail to become ready, or not in time."""

    def __init__(self, why: str, status: str = "error") -> None:
        super().__init__(why)
        self.status = status  # label of the metric


def has_binding_conditions(claims: Iterable[ResourceClaim]) -> bool:
    """Return True if a device of the claims has binding conditions."""
    return any(one.binding_conditions for claim in claims for one in _results(claim))


def is_claim_ready(claim: ResourceClaim) -> bool:
    """Return True if all devices of a claim are ready. Raises `DeviceBindingError` if one has failed."""
    if claim.status.allocation is None:
        return False
    for one in _results(claim):
        if not one.binding_conditions:
            continue
        status = _status(claim, one)
        if status is None:
            return False
        conditions = status.conditions or ()
        for name in one.binding_failure_conditions:
            found = find_condition(conditions, name)
            if found is not None and found.status == "True":
                why = f"claim={claim.metadata.name}, reason={found.reason}, message={quote(found.message)}"
                raise DeviceBindingError(f"{_FAILED}: {why}", "failure")
        if not all(
            (found := find_condition(conditions, name)) and found.status == "True" for name in one.binding_conditions
        ):
            return False
    return True


def binding_deadline(claim: ResourceClaim, patience: float) -> datetime | None:
    """Return the time until which a claim's devices may take; None without binding conditions."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_binding_conditions((claim,)):
        return None
    return parse_time(allocation.allocation_timestamp) + timedelta(seconds=patience)


def is_binding_failed(claim: ResourceClaim, now: datetime, patience: float) -> bool:
    """Return True if binding has failed or timed out, so that other devices should be tried."""
    try:
        if is_claim_ready(claim):
            return False
    except DeviceBindingError:
        return True
    deadline = binding_deadline(claim, patience)
    return deadline is not None and deadline < now


def binding_timeout_error(claim: ResourceClaim) -> DeviceBindingError:
    """Return the timeout error for a claim."""
    return DeviceBindingError(f"{_TIMEOUT}: claim={claim.metadata.name}", "timeout")


def _results(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    return () if claim.status.allocation is None else claim.status.allocation.devices.results


def _status(claim: ResourceClaim, one: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    wanted = one.driver, one.pool, one.device
    found = (each for each in claim.status.devices if (each.driver, each.pool, each.device) == wanted)
    return next(found, None)
