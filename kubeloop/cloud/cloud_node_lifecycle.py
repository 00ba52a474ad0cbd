# SPDX-License-Identifier: Apache-2.0
"""Deletes unready nodes whose instance is gone, and taints those whose instance is stopped.

Watches: nodes.
Owns: the taint node.cloudprovider.kubernetes.io/shutdown.
Writes: deletes nodes, patches their taints; events.
Wakes itself: every --node-monitor-period, to check all nodes that are not ready.
Differs from upstream: a node is deleted only if its UID is the one that was checked.
"""

from __future__ import annotations

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.core_v1 import Node, ObjectReference
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.meta.conditions import is_true
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.errors import ClientError
from kubeloop.cloud.context import CloudControllerContext, ControllerUnsupported
from kubeloop.cloud.periodic_nodes import for_each_node, periodic_controller
from kubeloop.cloud.provider import InstanceNotFound, Instances
from kubeloop.cloud.taints import ensure_shutdown_taint, remove_shutdown_taint
from kubeloop.metrics import exponential_bounds
from kubeloop.runtime.controller import Controller, Telemetry
from kubeloop.runtime.events.recorder import EventRecorder

NAME = "cloud-node-lifecycle-controller"
COMPONENT = "cloud-node-lifecycle-controller"


def wire(context: CloudControllerContext) -> Controller[str]:
    """Build the periodic controller; raises NotOffered."""
    instances = context.provider.instances
    if instances is None:
        raise ControllerUnsupported("cloud provider does not support instances")
    config = context.config
    nodes = context.informers.for_resource(resource_of_class(Node))
    calls = CloudCallMetrics(context.telemetry)
    monitor = CloudNodeMonitor(context.client, instances, context.recorder.with_component(COMPONENT), calls)

    async def sweep() -> None:
        began = context.clock.monotonic()
        await for_each_node(nodes.list(), config.concurrent_node_lifecycle_syncs, monitor.check_node)
        calls.record_duration(context.clock.monotonic() - began)

    return periodic_controller(NAME, context, nodes, config.node_monitor_period, sweep)


class CloudCallMetrics:
    """Metrics of calls to the cloud, under upstream's names."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._total = telemetry.registry.counter(
            "cloud_node_lifecycle_controller_cloud_provider_calls_total",
            "operation",
            "result",
        )
        self._seconds = telemetry.registry.histogram(
            "cloud_node_lifecycle_controller_monitor_nodes_duration_seconds",
            bounds=exponential_bounds(0.001, 2, 15),
        ).with_labels()

    def count(self, operation: str, result: str) -> None:
        """Count a call by operation and result."""
        self._total.with_labels(operation, result).value += 1

    def record_duration(self, seconds: float) -> None:
        """Record the duration of a sweep."""
        self._seconds.observe(seconds)


class CloudNodeMonitor:
    """Checks single nodes."""

    def __init__(self, client: Client, instances: Instances, recorder: EventRecorder, calls: CloudCallMetrics) -> None:
        self._client = client
        self._instances = instances
        self._recorder = recorder
        self._calls = calls

    async def check_node(self, node: Node) -> None:
        """Taint, untaint or delete one node."""
        if is_true(node.status.conditions, "Ready"):
            await remove_shutdown_taint(self._client, node)
        elif not await self._exists(node):
            await self._delete(node)
        elif await self._is_shut_down(node):
            await ensure_shutdown_taint(self._client, node)

    async def _exists(self, node: Node) -> bool:
        try:
            exists = await self._instances.exists(node)
        except InstanceNotFound:
            exists = False
        except Exception:
            self._calls.count("instance_exists", "error")
            raise
        self._calls.count("instance_exists", "success" if exists else "instance_not_found")
        return exists

    async def _is_shut_down(self, node: Node) -> bool:
        try:
            found = await self._instances.is_shut_down(node)
        except InstanceNotFound:
            self._calls.count("instance_shutdown", "instance_not_found")
            return False
        except Exception:
            self._calls.count("instance_shutdown", "error")
            raise
        self._calls.count("instance_shutdown", "success")
        return found

    async def _delete(self, node: Node) -> None:
        name, uid = node.metadata.name, node.metadata.uid
        about = ObjectReference(api_version="v1", kind="Node", name=name, uid=uid)
        told = f"Deleting node {name} because it does not exist in the cloud provider"
        self._recorder.event(about, "Normal", "DeletingNode", told)
        try:
            await self._client.delete(Node, name, preconditions=Preconditions(uid=uid))
        except NotFound:
            return
        except (ApiError, ClientError) as error:
            self._recorder.event(about, "Warning", "DeletingNodeFailed", f"Failed deleting node {name}: {error}")
