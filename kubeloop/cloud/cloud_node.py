# SPDX-License-Identifier: Apache-2.0
"""Initializes nodes with the metadata of their instance, and keeps their addresses up to date.

Watches: nodes.
Owns: the taint node.cloudprovider.kubernetes.io/uninitialized, provider ids, labels of zone, region, instance type.
Writes: patches of nodes' metadata, spec and addresses; events.
Wakes itself: every --node-status-update-frequency, to read the addresses of all nodes.
Differs from upstream: a changed address is detected also if a node has several of its type; a failed write of addresses
right after the removal of the taint is repeated in the next round instead of at once.
"""

from __future__ import annotations

import logging
from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Node, NodeAddress
from kubeloop.api.scalars.times import parse_time
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.cloud.composite_loop import CompositeLoop
from kubeloop.cloud.context import CloudControllerContext, ControllerUnsupported
from kubeloop.cloud.node_facts import addresses_differ, addresses_of, labels_of, select_provided_ips, stale_labels
from kubeloop.cloud.periodic_nodes import for_each_node, periodic_controller
from kubeloop.cloud.provider import CloudError, InstanceMetadata, Instances
from kubeloop.cloud.taints import UNINITIALIZED, has_taint, plain_taints, preconditions_of, without_taint
from kubeloop.metrics import Histogram, exponential_bounds
from kubeloop.runtime.controller import Controller, Telemetry
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "cloud-node-controller"
QUEUE = "Nodes"  # upstream's queue name, as dashboards know it
COMPONENT = "cloud-node-controller"

log = logging.getLogger(__name__)


def wire(context: CloudControllerContext) -> CompositeLoop:
    """Build the controller and the periodic address update; raises NotOffered."""
    instances = context.provider.instances
    if instances is None:
        raise ControllerUnsupported("cloud provider does not support instances")
    config, clock, telemetry = context.config, context.clock, context.telemetry
    nodes = context.informers.for_resource(resource_of_class(Node))
    writer = AddressWriter(context.client, instances)
    recorder = context.recorder.with_component(COMPONENT)
    reconciler = Reconciler(context.client, nodes, writer, recorder, NodeInitializationMetrics(clock, telemetry))
    queue: WorkQueue[ObjectKey] = WorkQueue(clock, name=QUEUE, registry=telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, clock, workers=config.concurrent_node_syncs, queue=queue, telemetry=telemetry
    )
    controller.watches(nodes, own_key, _is_there, resync=config.min_resync_period)
    at_once = config.concurrent_node_status_updates or config.concurrent_node_syncs

    async def sweep() -> None:
        await for_each_node([one for one in nodes.list() if not _is_uninitialized(one)], at_once, writer.refresh)

    rounds = periodic_controller("cloud-node-addresses", context, nodes, config.node_status_update_frequency, sweep)
    return CompositeLoop(NAME, controller, rounds)


class NodeInitializationMetrics:
    """Metrics of the time until nodes are initialized, under upstream's names."""

    def __init__(self, clock: Clock, telemetry: Telemetry) -> None:
        self._clock = clock
        bounds = exponential_bounds(1, 4, 6)
        registry = telemetry.registry
        self._untainted = registry.histogram(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            bounds=bounds,
        ).with_labels()
        self._synced = registry.histogram(
            "node_controller_initial_node_sync_delay_seconds",
            bounds=bounds,
        ).with_labels()

    def record_untainted(self, node: Node) -> None:
        """Record the removal of the taint."""
        self._observe(self._untainted, node)

    def record_synced(self, node: Node) -> None:
        """Record the first sync."""
        self._observe(self._synced, node)

    def _observe(self, histogram: Histogram, node: Node) -> None:
        if node.metadata.creation_timestamp is not None:
            histogram.observe((self._clock.now() - parse_time(node.metadata.creation_timestamp)).total_seconds())


class AddressWriter:
    """Reads nodes' instances from the cloud, and writes their addresses."""

    def __init__(self, client: Client, instances: Instances) -> None:
        self._client = client
        self._instances = instances

    async def instance_of(self, node: Node) -> InstanceMetadata | None:
        """Return the metadata of a node's instance."""
        return await self._instances.metadata(node)

    async def refresh(self, node: Node) -> None:
        """Update the addresses of an initialized node."""
        instance = await self._instances.metadata(node)
        if instance is not None:
            await self.write(node, instance)

    async def write(self, node: Node, instance: InstanceMetadata) -> None:
        """Write the addresses if they have changed."""
        if not instance.addresses:
            return
        wanted = addresses_of(node, instance)
        if addresses_differ(node.status.addresses, wanted):
            patch = {"metadata": {"uid": node.metadata.uid}, "status": {"addresses": _plain(wanted)}}
            await self._client.patch(Node, node.metadata.name, patch, subresource="status")


class Reconciler:
    """Initializes nodes by key."""

    def __init__(
        self,
        client: Client,
        nodes: Informer,
        writer: AddressWriter,
        recorder: EventRecorder,
        delays: NodeInitializationMetrics,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._writer = writer
        self._recorder = recorder
        self._delays = delays

    async def reconcile(self, key: ObjectKey) -> None:
        """Initialize a node with the taint, or update its labels."""
        node: Node | None = self._nodes.get(*key)
        if node is None:
            return
        if _is_uninitialized(node):
            await self._initialize(node)
        elif labels := stale_labels(node.metadata.labels):
            await self._client.patch(Node, key.name, {"metadata": {"uid": node.metadata.uid, "labels": labels}})

    async def _initialize(self, node: Node) -> None:
        name = node.metadata.name
        instance = await self._instance(node)
        if instance is None:
            log.info("node %s is not changed: the cloud provider has no metadata of it", name)
            return
        changed = await self._client.patch(Node, name, initial_patch(node, instance))
        self._delays.record_untainted(node)
        try:
            await self._writer.write(changed, instance)
        except Exception as error:  # the node is already usable, and the next round updates its addresses
            log.warning("failed to update the addresses of node %s: %s", name, error)
        self._recorder.event(node, "Normal", "Synced", "Node synced successfully")
        self._delays.record_synced(node)

    async def _instance(self, node: Node) -> InstanceMetadata | None:
        name = node.metadata.name
        try:
            instance = await self._writer.instance_of(node)
        except CloudError as error:
            raise CloudError(f"failed to get instance metadata for node {name}: {error}") from error
        # Other controllers find instances by it, and it is not set later.
        if instance is not None and not (instance.provider_id or node.spec.provider_id):
            raise CloudError(
                f"failed to get instance metadata for node {name}: "
                f"cloud provider does not set node provider ID for node {name}"
            )
        return instance


def initial_patch(node: Node, instance: InstanceMetadata) -> dict[str, Any]:
    """Build the patch that initializes a node. Raises `CloudError` if it prefers an address that it does not have."""
    try:
        select_provided_ips(node, instance.addresses)
    except CloudError as error:
        raise CloudError(
            "failed to get node modifiers from cloud provider: "
            f'provided node ip for node "{node.metadata.name}" is not valid: {error}'
        ) from error
    spec: dict[str, Any] = {"taints": plain_taints(without_taint(node.spec.taints, UNINITIALIZED)) or None}
    if not node.spec.provider_id:
        spec["providerID"] = instance.provider_id
    metadata: dict[str, Any] = preconditions_of(node)
    if labels := labels_of(instance, node.metadata.labels):
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": spec}


def _plain(addresses: tuple[NodeAddress, ...]) -> list[Any]:
    return [codec.to_plain(one) for one in addresses]


def _is_uninitialized(node: Node) -> bool:
    return has_taint(node, UNINITIALIZED)


def _is_there(_: Any, new: Any) -> bool:
    return new is not None
