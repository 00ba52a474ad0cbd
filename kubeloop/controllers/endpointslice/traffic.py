"""Hints for whom an endpoint is, where a service says that its traffic should stay close. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointHints, ForNode, ForZone
from kubeloop.controllers.endpointslice.packing import Draft, Plan

HintsOf = Callable[[Endpoint], EndpointHints | None]

PREFER_SAME_NODE: Final = "PreferSameNode"
CLOSE: Final = frozenset({"PreferClose", "PreferSameZone", PREFER_SAME_NODE})
OLD_ANNOTATION: Final = "service.kubernetes.io/topology-aware-hints"  # counts before the newer one
ANNOTATION: Final = "service.kubernetes.io/topology-mode"


def wants_topology(annotations: Mapping[str, str]) -> bool:
    """Whether a service asks for hints by the capacity of zones; its traffic distribution is ignored then."""
    return annotations.get(OLD_ANNOTATION, annotations.get(ANNOTATION)) in ("Auto", "auto")


def distribution_of(service: Service) -> str:
    """How close a service's traffic should stay; empty if it doesn't matter."""
    wanted = service.spec.traffic_distribution
    return wanted if wanted in CLOSE and not wants_topology(service.metadata.annotations) else ""


def hint_at_closeness(plan: Plan, distribution: str) -> None:
    """Each ready endpoint is for its own zone, and for its own node where that is asked for."""
    nodes_too = distribution == PREFER_SAME_NODE
    rehint(plan, lambda one: close_hints(one, nodes_too) if one.conditions.ready else one.hints)


def remove_hints(plan: Plan) -> None:
    rehint(plan, lambda _: None)


def close_hints(endpoint: Endpoint, nodes_too: bool) -> EndpointHints | None:
    zones = () if endpoint.zone is None else (ForZone(name=endpoint.zone),)
    node = endpoint.node_name if nodes_too else None
    nodes = () if node is None else (ForNode(name=node),)
    return EndpointHints(for_zones=zones, for_nodes=nodes) if zones or nodes else None


def rehint(plan: Plan, hints_of: HintsOf) -> None:
    """Give all endpoints their hints; slices that change by it are written too."""
    for draft in (*plan.create, *plan.update):
        set_hints(draft, hints_of)
    unchanged, plan.unchanged = plan.unchanged, []
    for draft in unchanged:
        (plan.update if set_hints(draft, hints_of) else plan.unchanged).append(draft)


def set_hints(draft: Draft, hints_of: HintsOf) -> bool:
    """Whether this changed anything."""
    wanted = [hints_of(one) for one in draft.endpoints]
    if all(one.hints == hints for one, hints in zip(draft.endpoints, wanted, strict=True)):
        return False
    draft.endpoints = [
        one if one.hints == hints else msgspec.structs.replace(one, hints=hints)
        for one, hints in zip(draft.endpoints, wanted, strict=True)
    ]
    return True
