# SPDX-License-Identifier: Apache-2.0
"""Sets topology hints for Services with a traffic distribution. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointHints, ForNode, ForZone
from kubeloop.controllers.endpointslice.slice_plan import SliceDraft, SlicePlan

HintsOf = Callable[[Endpoint], EndpointHints | None]

PREFER_SAME_NODE: Final = "PreferSameNode"
DISTRIBUTIONS: Final = frozenset({"PreferClose", "PreferSameZone", PREFER_SAME_NODE})
OLD_ANNOTATION: Final = "service.kubernetes.io/topology-aware-hints"  # takes precedence over the newer one
ANNOTATION: Final = "service.kubernetes.io/topology-mode"


def wants_topology(annotations: Mapping[str, str]) -> bool:
    """Return True if a Service requests hints by zone capacity; its traffic distribution is then ignored."""
    return annotations.get(OLD_ANNOTATION, annotations.get(ANNOTATION)) in ("Auto", "auto")


def distribution_of(service: Service) -> str:
    """Return the effective traffic distribution, or an empty string."""
    wanted = service.spec.traffic_distribution
    return wanted if wanted in DISTRIBUTIONS and not wants_topology(service.metadata.annotations) else ""


def hint_by_distribution(plan: SlicePlan, distribution: str) -> None:
    """Hint each ready endpoint to its own zone, and to its own node if requested."""
    nodes_too = distribution == PREFER_SAME_NODE
    update_hints(plan, lambda one: hints_for_own_topology(one, nodes_too) if one.conditions.ready else one.hints)


def remove_hints(plan: SlicePlan) -> None:
    """Remove all hints."""
    update_hints(plan, lambda _: None)


def hints_for_own_topology(endpoint: Endpoint, nodes_too: bool) -> EndpointHints | None:
    """Build the hints for an endpoint's own zone and node."""
    zones = () if endpoint.zone is None else (ForZone(name=endpoint.zone),)
    node = endpoint.node_name if nodes_too else None
    nodes = () if node is None else (ForNode(name=node),)
    return EndpointHints(for_zones=zones, for_nodes=nodes) if zones or nodes else None


def update_hints(plan: SlicePlan, hints_of: HintsOf) -> None:
    """Set the hints of all endpoints; slices that change are moved to the updates."""
    for draft in (*plan.create, *plan.update):
        set_hints(draft, hints_of)
    unchanged, plan.unchanged = plan.unchanged, []
    for draft in unchanged:
        (plan.update if set_hints(draft, hints_of) else plan.unchanged).append(draft)


def set_hints(draft: SliceDraft, hints_of: HintsOf) -> bool:
    """Set the hints of a slice; returns True if anything changed."""
    wanted = [hints_of(one) for one in draft.endpoints]
    if all(one.hints == hints for one, hints in zip(draft.endpoints, wanted, strict=True)):
        return False
    draft.endpoints = [
        one if one.hints == hints else msgspec.structs.replace(one, hints=hints)
        for one, hints in zip(draft.endpoints, wanted, strict=True)
    ]
    return True
