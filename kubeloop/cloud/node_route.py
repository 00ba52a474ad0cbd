# SPDX-License-Identifier: Apache-2.0
"""Maintains the cloud's routes to the pods of every node, and reports them in a condition of the node.

Watches: nodes.
Owns: the cloud's routes into --cluster-cidr; the condition NetworkUnavailable of nodes.
Writes: patches of that condition; events.
Wakes itself: every --route-reconciliation-period.
Differs from upstream: only periodic reconciliation exists, not the watch-based one of an alpha gate that is off by
default. A blackhole for a node's own range is replaced within one round instead of two.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Node, ObjectReference
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.cloud.context import CloudControllerContext, ControllerUnsupported
from kubeloop.cloud.periodic_nodes import for_each_node, periodic_controller
from kubeloop.cloud.provider import Route, Routes
from kubeloop.cloud.route_plan import MissingRoute, Network, parse_cluster_cidrs, plan_of
from kubeloop.metrics import MetricFamily, MetricValue
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.events.recorder import EventRecorder

NAME = "node-route-controller"
COMPONENT = "route_controller"
CONDITION = "NetworkUnavailable"
MAX_CONCURRENT_CALLS = 200  # limit of concurrent calls to the cloud, as upstream
# Reason and message by the condition's status.
REASONS = {
    "False": ("RouteCreated", "RouteController created a route"),
    "True": ("NoRouteCreated", "RouteController failed to create a route"),
}

log = logging.getLogger(__name__)


def wire(context: CloudControllerContext) -> Controller[str]:
    """Build the periodic controller; raises NotOffered."""
    config, routes = context.config, context.provider.routes
    if not config.configure_cloud_routes:
        raise ControllerUnsupported("Will not configure cloud provider routes, --configure-cloud-routes: false")
    if routes is None:
        raise ControllerUnsupported("--configure-cloud-routes is set, but cloud provider does not support routes")
    nodes = context.informers.for_resource(resource_of_class(Node))
    counted = context.telemetry.registry.counter("route_controller_route_sync_total", "outcome", "trigger")
    network = CloudNetwork(routes, config.cluster_name, context.recorder.with_component(COMPONENT), context.clock)
    reconciler = RouteReconciler(context.client, network, parse_cluster_cidrs(config.cluster_cidr), context.clock)

    async def sweep() -> None:
        await reconcile_counted(reconciler, nodes.list(), counted)

    return periodic_controller(NAME, context, nodes, config.route_reconciliation_period, sweep)


async def reconcile_counted(
    reconciler: RouteReconciler, nodes: Sequence[Node], counted: MetricFamily[MetricValue]
) -> None:
    """Reconcile the routes once, and count the result."""
    try:
        changed = await reconciler.reconcile(nodes)
    except Exception:
        counted.with_labels("error", "periodic").value += 1
        raise
    counted.with_labels("changed" if changed else "noop", "periodic").value += 1


class CloudNetwork:
    """Routes of one cluster, with a limit of concurrent calls; failures are contained and recorded."""

    def __init__(self, routes: Routes, cluster: str, recorder: EventRecorder, clock: Clock) -> None:
        self._routes = routes
        self._cluster = cluster
        self._recorder = recorder
        self._clock = clock
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    async def list(self) -> Sequence[Route]:
        """List the routes of the cluster."""
        return await self._routes.list(self._cluster)

    async def delete(self, route: Route) -> bool:
        """Delete a route; returns True on success."""
        async with self._turns:
            try:
                await self._routes.delete(self._cluster, route)
            except Exception as error:
                log.warning("could not delete route %s %s: %s", route.name, route.destination, error)
                return False
        return True

    async def create(self, missing: MissingRoute) -> bool:
        """Create a route; returns True on success."""
        meta, route = missing.node.metadata, missing.route
        began = self._clock.monotonic()
        async with self._turns:
            try:
                await self._routes.create(self._cluster, meta.uid, route)
            except Exception as error:
                took = f"{self._clock.monotonic() - began:g}s"
                told = (
                    f"Could not create route {meta.uid} {route.destination} for node {meta.name} after {took}: {error}"
                )
                about = ObjectReference(api_version="v1", kind="Node", name=meta.name, uid=meta.uid)
                self._recorder.event(about, "Warning", "FailedToCreateRoute", told)
                return False
        return True


class RouteReconciler:
    """Compares routes with nodes, and changes the difference."""

    def __init__(self, client: Client, network: CloudNetwork, networks: Sequence[Network], clock: Clock) -> None:
        self._client = client
        self._network = network
        self._networks = networks
        self._clock = clock

    async def reconcile(self, nodes: Sequence[Node]) -> bool:
        """Reconcile all routes; returns True if any was changed."""
        plan = plan_of(nodes, await self._network.list(), self._networks)
        gone = await asyncio.gather(*map(self._network.delete, plan.delete))
        made = await asyncio.gather(*map(self._network.create, plan.create))
        failed = {one.node.metadata.name for one, is_made in zip(plan.create, made, strict=True) if not is_made}

        async def tell(node: Node) -> None:
            has_routes = bool(node.spec.pod_cidrs) and node.metadata.name not in failed
            await self._tell(node, "False" if has_routes else "True")

        await for_each_node(plan.affected_nodes, MAX_CONCURRENT_CALLS, tell)
        return any(gone) or any(made)

    async def _tell(self, node: Node, status: str) -> None:
        reason, message = REASONS[status]
        present = find_condition(node.status.conditions, CONDITION)
        if present is not None and (present.status, present.reason) == (status, reason):
            return
        now = format_time(self._clock.now())
        condition: dict[str, Any] = {
            "type": CONDITION,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        patch = {"metadata": {"uid": node.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(Node, node.metadata.name, patch, type=STRATEGIC_PATCH, subresource="status")
        except NotFound:
            return
