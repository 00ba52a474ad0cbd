# SPDX-License-Identifier: Apache-2.0
"""Plans which routes to delete and to create, from nodes and existing routes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from kubeloop.api.addresses import parse_cidr
from kubeloop.api.generated.core_v1 import Node
from kubeloop.cloud.provider import Route

Network = IPv4Network | IPv6Network


class InvalidClusterCidr(ValueError):
    """Raised for an invalid --cluster-cidr; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class MissingRoute:
    """A route to create, and its node."""

    node: Node
    route: Route


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """Changes to make, in this order."""

    delete: tuple[Route, ...]
    create: tuple[MissingRoute, ...]
    affected_nodes: tuple[Node, ...]  # nodes whose condition we set


def parse_cluster_cidrs(text: str) -> tuple[Network, ...]:
    """Parse the pod CIDRs: one, or one per family. Raises `InvalidClusterCidr`."""
    try:
        found = tuple(ip_network(part.strip(), strict=False) for part in text.strip().split(","))
    except ValueError as error:
        raise InvalidClusterCidr(f"--cluster-cidr: {error}") from None
    if len({one.version for one in found}) < len(found):
        raise InvalidClusterCidr(
            f"len of ClusterCIDRs=={len(found)} and they are not configured as dual stack "
            "(at least one from each IPFamily"
        )
    return found


def plan_of(nodes: Sequence[Node], routes: Sequence[Route], networks: Sequence[Network]) -> RoutePlan:
    """Plan the changes; a route stays if its target node has its destination and its addresses are current."""
    by_target: dict[str, list[Route]] = {}
    for route in routes:
        if route.target_node:
            by_target.setdefault(route.target_node, []).append(route)
    kept: set[tuple[str, str]] = set()
    create: list[MissingRoute] = []
    for node in nodes:
        name, addresses = node.metadata.name, node.status.addresses
        for destination in node.spec.pod_cidrs:
            if any(_is_right(one, node, destination) for one in by_target.get(name, ())):
                kept.add((name, destination))
            else:
                create.append(MissingRoute(node, Route(name, destination, target_addresses=addresses)))
    delete = tuple(
        one
        for one in routes
        if is_responsible_for_route(one, networks) and (one.blackhole or (one.target_node, one.destination) not in kept)
    )
    concerned = tuple(one for one in nodes if one.spec.pod_cidrs or one.metadata.name in by_target)
    return RoutePlan(delete, tuple(create), concerned)


def _is_right(route: Route, node: Node, destination: str) -> bool:
    if route.blackhole or route.destination != destination:
        return False
    by_addresses = route.target_addresses
    return by_addresses is None or set(by_addresses) == set(node.status.addresses)


def is_responsible_for_route(route: Route, networks: Iterable[Network]) -> bool:
    """Return True if a route leads into the pod CIDRs; others are not ours."""
    parsed = parse_cidr(route.destination)
    if parsed is None:
        return False
    ends = (parsed[1][0], parsed[1][-1])
    return any(end in one for one in networks for end in ends)
