# SPDX-License-Identifier: Apache-2.0
"""Availability of an APIService, with upstream's reasons and messages. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kubeloop.api.generated.apiregistration_v1 import APIService, APIServiceCondition, APIServiceStatus
from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.scalars.wire import Time
from kubeloop.apiserver.aggregator.endpoints import ready_addresses

AVAILABLE = "Available"
_DEFAULT_PORT = 443


class AvailableCondition(NamedTuple):
    """Desired Available condition."""

    status: str
    reason: str
    message: str


LOCAL = AvailableCondition("True", "Local", "Local APIServices are always available")
PASSED = AvailableCondition("True", "Passed", "all checks passed")


def failed_discovery(message: str) -> AvailableCondition:
    """Return the condition for a failed discovery check."""
    return AvailableCondition("False", "FailedDiscoveryCheck", message)


def port_of(api: APIService) -> int:
    """Return the port of the APIService's Service."""
    reference = api.spec.service
    return _DEFAULT_PORT if reference is None or reference.port is None else reference.port


def unavailable_condition(
    api: APIService, service: Service | None, slices: Sequence[EndpointSlice]
) -> AvailableCondition | None:
    """Return the condition if Service or endpoints make the APIService unavailable; None if it may be called."""
    reference = api.spec.service
    assert reference is not None, "a local APIService has no backend to check"
    where = f'service/{reference.name} in "{reference.namespace}"'
    if service is None:
        return AvailableCondition("False", "ServiceNotFound", f"{where} is not present")
    if service.spec.type != "ClusterIP":
        return None
    port = port_of(api)
    names = [one.name for one in service.spec.ports or () if one.port == port]
    if not names:
        return AvailableCondition("False", "ServicePortError", f"{where} is not listening on port {port}")
    if not slices:
        return AvailableCondition("False", "EndpointsNotFound", f"cannot find endpointslices for {where}")
    if not any(ready_addresses(one, names[0]) for one in slices):
        why = f'endpointslices for {where} have no addresses with port name "{names[0]}"'
        return AvailableCondition("False", "MissingEndpoints", why)
    return None


def is_available(api: APIService) -> bool:
    """Return True if the Available condition is True."""
    return any(one.type == AVAILABLE and one.status == "True" for one in api.status.conditions)


def with_available_condition(api: APIService, verdict: AvailableCondition, now: Time) -> APIServiceStatus:
    """Return the status with the condition; its transition time changes only with its status."""
    before = next((one for one in api.status.conditions if one.type == AVAILABLE), None)
    since = before.last_transition_time if before is not None and before.status == verdict.status else now
    condition = APIServiceCondition(
        type=AVAILABLE,
        status=verdict.status,
        reason=verdict.reason,
        message=verdict.message,
        last_transition_time=since,
    )
    if before is None:
        return replace(api.status, conditions=(*api.status.conditions, condition))
    return replace(api.status, conditions=tuple(condition if one is before else one for one in api.status.conditions))
