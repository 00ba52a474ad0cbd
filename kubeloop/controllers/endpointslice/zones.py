# SPDX-License-Identifier: Apache-2.0
"""Computes each zone's share of endpoints by the CPUs of its nodes, and the hints that achieve it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

import msgspec

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointHints, ForZone
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.controllers.endpointslice.desired_slices import ZONE
from kubeloop.controllers.endpointslice.slice_plan import SliceDraft, SlicePlan

OVERLOAD_THRESHOLD: Final = 0.2  # by how much an endpoint's load may exceed its share
_EXCLUDED: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

NO_ZONE: Final = "One or more endpoints do not have a zone specified"
NO_HINTS: Final = "No hints allocated for zones"
NODES_UNKNOWN: Final = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
ONE_ZONE: Final = "Nodes only ready in one zone"
TOO_FEW: Final = "Insufficient number of endpoints ({} endpoints, {} zones)"
TOO_UNEVEN: Final = (
    "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold "
    "({} endpoints, {} zones)"
)

Ratios = Mapping[str, float]


class HintsUnavailable(Exception):
    """Raised if hints would be harmful or cannot be computed; the message is for users."""


@dataclass(frozen=True, slots=True)
class ZoneAllocation:
    """Number of a Service's endpoints for one zone."""

    minimum: int
    maximum: int
    desired: float


def is_ready(node: Node) -> bool:
    """Return True if the node is ready."""
    condition = find_condition(node.status.conditions, "Ready")
    return condition is not None and condition.status == "True"


def cpu_ratios_by_zone(nodes: Iterable[Node]) -> Ratios | None:
    """Return each zone's share of all CPUs; None if a node's CPU or zone is unknown, or there are not two zones."""
    processors: dict[str, int] = {}
    for node in nodes:
        if any(label in node.metadata.labels for label in _EXCLUDED) or not is_ready(node):
            continue
        zone = node.metadata.labels.get(ZONE)
        amount = parse_quantity(node.status.allocatable.get("cpu", "0")).milli_value()
        if not zone or not amount:
            return None
        processors[zone] = processors.get(zone, 0) + amount
    total = sum(processors.values())
    if len(processors) < 2:
        return None
    return {zone: amount / total for zone, amount in processors.items()}


def zone_allocations(ratios: Ratios | None, endpoints: int) -> dict[str, ZoneAllocation]:
    """Divide the endpoints among zones; raises Unhintable."""
    if ratios is None:
        raise HintsUnavailable(NODES_UNKNOWN)
    if len(ratios) < 2:
        raise HintsUnavailable(ONE_ZONE)
    if len(ratios) > endpoints:
        raise HintsUnavailable(TOO_FEW.format(endpoints, len(ratios)))
    minima = {zone: ceil(ratio * endpoints * (1 / (1 + OVERLOAD_THRESHOLD))) for zone, ratio in ratios.items()}
    spare = endpoints - sum(minima.values())
    if spare < 0:
        raise HintsUnavailable(TOO_UNEVEN.format(endpoints, len(ratios)))
    return {
        zone: ZoneAllocation(minima[zone], minima[zone] + spare, max(ratio * endpoints, float(minima[zone])))
        for zone, ratio in ratios.items()
    }


def is_overloaded(hints: Mapping[str, int], ratios: Ratios | None) -> bool:
    """Return True if a zone has too few of the hinted endpoints."""
    if not hints:
        return False
    if not ratios:
        return True
    total = sum(hints.values())
    return any(
        hints.get(zone, -1) < ceil(total * ratio * (1 / (1 + OVERLOAD_THRESHOLD))) for zone, ratio in ratios.items()
    )  # fmt: skip


def hint_by_zones(plan: SlicePlan, ratios: Ratios | None) -> dict[str, int]:
    """Assign every ready endpoint to a zone: first its own, then others for balance.

    Returns the number of endpoints of each zone. Unchanged slices whose hints are still valid stay as they are.
    """
    ready = sum(_is_ready(one) for draft in plan.drafts for one in draft.endpoints)
    shares = zone_allocations(ratios, ready)
    hints = _keep_good_slices(plan, shares)
    drafts = [*plan.create, *plan.update]
    for draft in drafts:
        draft.endpoints = [_for_own_zone(one, hints) for one in draft.endpoints]
    giving, receiving = giving_and_receiving_zones(shares, hints)
    _redistribute(drafts, giving, receiving, hints)
    if not hints:
        raise HintsUnavailable(NO_HINTS)
    return hints


def _keep_good_slices(plan: SlicePlan, shares: Mapping[str, ZoneAllocation]) -> dict[str, int]:
    """Count the hints of unchanged slices; a slice with invalid hints is moved to the updates."""
    total: dict[str, int] = {}
    unchanged, plan.unchanged = plan.unchanged, []
    for draft in unchanged:
        found = valid_hints(draft.endpoints, total, shares)
        if found is None:
            plan.update.append(draft)
        else:
            plan.unchanged.append(draft)
            for zone, count in found.items():
                total[zone] = total.get(zone, 0) + count
    return total


def valid_hints(
    endpoints: Iterable[Endpoint], already: Mapping[str, int], shares: Mapping[str, ZoneAllocation]
) -> dict[str, int] | None:
    """Count the hints by zone; None if an endpoint lacks hints or a zone exceeds its maximum."""
    found: dict[str, int] = {}
    for one in endpoints:
        if not _is_ready(one):
            continue
        if one.hints is None or not one.hints.for_zones:
            return None
        for hint in one.hints.for_zones:
            found[hint.name] = found.get(hint.name, 0) + 1
    for zone, count in found.items():
        if zone not in shares or count + already.get(zone, 0) > shares[zone].maximum:
            return None
    return found


def _for_own_zone(endpoint: Endpoint, hints: dict[str, int]) -> Endpoint:
    if not _is_ready(endpoint):
        return endpoint if endpoint.hints is None else msgspec.structs.replace(endpoint, hints=None)
    if not endpoint.zone:
        raise HintsUnavailable(NO_ZONE)
    hints[endpoint.zone] = hints.get(endpoint.zone, 0) + 1
    return _for_zone(endpoint, endpoint.zone)


def giving_and_receiving_zones(
    shares: Mapping[str, ZoneAllocation], hints: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many endpoints each zone gives to others, and how many it receives."""
    surplus = {zone: hints.get(zone, 0) - share.desired for zone, share in shares.items()}
    spare = {zone: amount for zone, amount in surplus.items() if amount > 0}
    need = {zone: -amount for zone, amount in surplus.items() if amount < 0}
    giving: dict[str, int] = {}
    taking: dict[str, int] = {}
    while spare and need:
        giver, taker = max(spare, key=spare.__getitem__), max(need, key=need.__getitem__)
        give, take = spare[giver], need[taker]
        if min(give, take) < 0.5 or max(give, take) < 1.0:  # moving another one would overshoot
            break
        giving[giver] = giving.get(giver, 0) + 1
        taking[taker] = taking.get(taker, 0) + 1
        spare[giver] -= 1
        need[taker] -= 1
    return giving, taking


def _redistribute(
    drafts: Iterable[SliceDraft], giving: dict[str, int], taking: dict[str, int], hints: dict[str, int]
) -> None:
    for draft in drafts:
        for index, one in enumerate(draft.endpoints):
            if not giving or not taking:
                return
            if not _is_ready(one) or one.zone not in giving:
                continue
            taker = next(iter(taking))
            draft.endpoints[index] = _for_zone(one, taker)
            _take_one(giving, one.zone)
            _take_one(taking, taker)
            hints[taker] = hints.get(taker, 0) + 1
            hints[one.zone] -= 1


def _take_one(counts: dict[str, int], zone: str) -> None:
    counts[zone] -= 1
    if not counts[zone]:
        del counts[zone]


def _for_zone(endpoint: Endpoint, zone: str) -> Endpoint:
    return msgspec.structs.replace(endpoint, hints=EndpointHints(for_zones=(ForZone(name=zone),)))


def _is_ready(endpoint: Endpoint) -> bool:
    return endpoint.conditions.ready is True
