# SPDX-License-Identifier: Apache-2.0
"""AllocationResult of a claim: the devices, their configuration, and the node selector. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kubeloop.api.codec import to_plain
from kubeloop.api.generated.resource_v1 import DeviceClass, ResourceClaim
from kubeloop.scheduler.dra.allocator import DeviceAllocation

ClassLookup = Callable[[str], DeviceClass | None]


def build_allocation_result(
    claim: ResourceClaim, given: Sequence[DeviceAllocation], node: str, classes: ClassLookup, new_id: Callable[[], str]
) -> dict[str, Any]:
    """Return the AllocationResult as plain data; each share of a device gets its own id."""
    devices: dict[str, Any] = {"results": [_result(one, new_id) for one in given]}
    config = [*_class_config(given, classes), *_claim_config(claim, given)]
    if config:
        names = {_base(one.request): one.request for one in given}
        devices["config"] = [_omit_requests_if_all(one, names) for one in config]
    selector = _selector(given, node)
    return {"devices": devices, **({"nodeSelector": selector} if selector else {})}


def _result(one: DeviceAllocation, new_id: Callable[[], str]) -> dict[str, Any]:
    driver, pool, name = one.device_offer.id
    device = one.device_offer.device
    told: dict[str, Any] = {"request": one.request, "driver": driver, "pool": pool, "device": name}
    if one.is_admin:
        told["adminAccess"] = True
    if one.device_request.tolerations:
        told["tolerations"] = to_plain(one.device_request.tolerations)
    if one.consumed is not None:
        told["shareID"] = new_id()
        if one.consumed:
            told["consumedCapacity"] = {key: str(amount) for key, amount in one.consumed.items()}
    if device.binding_conditions:
        told["bindingConditions"] = list(device.binding_conditions)
    if device.binding_failure_conditions:
        told["bindingFailureConditions"] = list(device.binding_failure_conditions)
    return told


def _base(request: str) -> str:
    return request.partition("/")[0]


def _class_config(given: Sequence[DeviceAllocation], classes: ClassLookup) -> list[dict[str, Any]]:
    """Return the configuration of each class once, with all requests of that class."""
    requests: dict[str, list[str]] = {}
    for name, kind in dict.fromkeys((one.request, one.device_request.device_class_name) for one in given):
        requests.setdefault(kind, []).append(name)
    return [
        {"source": "FromClass", "requests": names, **to_plain(each)}
        for kind, names in requests.items()
        if (found := classes(kind)) is not None
        for each in found.spec.config
    ]


def _claim_config(claim: ResourceClaim, given: Sequence[DeviceAllocation]) -> list[dict[str, Any]]:
    """Return the configuration of the claim, without entries for subrequests that were not selected."""
    there = {one.request for one in given} | {_base(one.request) for one in given}
    return [
        {"source": "FromClaim", **to_plain(each)}
        for each in claim.spec.devices.config
        if not each.requests or there.intersection(each.requests)
    ]


def _omit_requests_if_all(config: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Drop the request names of a configuration that applies to all requests."""
    said = config.get("requests") or ()
    if all(base in said or full in said for base, full in names.items()):
        return {key: value for key, value in config.items() if key != "requests"}
    return config


def _selector(given: Sequence[DeviceAllocation], node: str) -> dict[str, Any] | None:
    """Return the node selector for the devices; None if every node can reach them."""
    term: dict[str, list[Any]] = {}
    for one in given:
        spec = one.device_offer.slice.spec
        where: Any = one.device_offer.device if spec.per_device_node_selection else spec
        if where.node_name or one.device_offer.device.binds_to_node:
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [field]}]}
        for each in where.node_selector.node_selector_terms if where.node_selector is not None else ():
            for name, demands in (("matchFields", each.match_fields), ("matchExpressions", each.match_expressions)):
                for demand in to_plain(demands):
                    if not any(_is_same(demand, other) for other in term.get(name, ())):
                        term.setdefault(name, []).append(demand)
    return {"nodeSelectorTerms": [term]} if term else None


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    keys = [(each["key"], each["operator"], set(each.get("values") or ())) for each in (one, other)]
    return keys[0] == keys[1]
