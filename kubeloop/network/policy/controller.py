# SPDX-License-Identifier: Apache-2.0
"""Enforces network policies of the pods of one node by an nftables table.

Watches: pods, namespaces, networkpolicies, and the own node for its pod CIDRs.
Owns: the table `kubeloop-network-policy` of family inet.
Writes: nothing to the API.
Wakes itself: every 30 s, to check that the table still exists.
Differs from upstream: there is no upstream implementation; the API leaves enforcement to network plugins.

The first transaction replaces the table of an earlier process at once, so that there is no time without rules. Later
ones hold only changes. After a failed transaction the next one replaces the whole table.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kubeloop.api.generated.core_v1 import Container, Namespace, Node, Pod, PodSpec, PodStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.networking_v1 import NetworkPolicy
from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry
from kubeloop.network.policy.local_pods import parse_networks
from kubeloop.network.policy.model import IPAddress
from kubeloop.network.policy.pod_addresses import AddressAssignment, PodAddresses
from kubeloop.network.policy.tables import TABLE, PolicyTables
from kubeloop.network.retry_queue import new_queue
from kubeloop.nftables import Nftables, NftablesError
from kubeloop.runtime.controller import Controller, Result, Telemetry
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.objects.keys import ObjectKey, key_of

NAME: Final = "network-policy"
_KEY: Final = ObjectKey("", "table")
_CHECK_SECONDS: Final = 30.0
_TIMEOUT: Final = 120.0

log = logging.getLogger(__name__)


class NetworkPolicyController:
    """Keeps the table of network policies equal to the API's objects."""

    def __init__(
        self,
        informers: SharedInformerFactory,
        nftables: Nftables,
        node_name: str,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._nftables = nftables
        self._node_name = node_name
        self._tables = PolicyTables()
        self._addresses = PodAddresses(node_name)
        self._namespaces: dict[str, Mapping[str, str] | None] = {}  # changes that are not yet applied
        self._policies: dict[ObjectKey, NetworkPolicy | None] = {}
        self._pod_cidrs: tuple[str, ...] | None = None
        self.is_loaded = False
        self._applied = asyncio.Condition()
        self.loop: Controller[ObjectKey] = Controller(
            NAME,
            self._reconcile,
            clock,
            workers=1,
            timeout=_TIMEOUT,
            queue=new_queue(NAME, clock, telemetry),
            telemetry=telemetry,
        )
        self._metrics = _PolicyMetrics(telemetry.registry, self._tables)
        self._watch(informers)

    def _watch(self, informers: SharedInformerFactory) -> None:
        pods, addresses = informers.for_resource(Pod), self._addresses
        pods.set_transform(reduce_pod)
        sources = (
            (pods, addresses.set_pod, addresses.remove_pod),
            (informers.for_resource(Namespace), self._set_namespace, self._remove_namespace),
            (informers.for_resource(NetworkPolicy), self._set_policy, self._remove_policy),
            (informers.for_resource(Node), self._set_node, self._set_node),
        )
        for informer, update, remove in sources:
            self.loop.add_event_handler(informer, self._handler(update, remove))

    def _handler(self, update: Any, remove: Any) -> ResourceEventHandlerFuncs:
        def on_update(obj: Any) -> None:
            update(obj)
            self.loop.queue.add(_KEY)

        def on_delete(obj: Any) -> None:
            remove(obj)
            self.loop.queue.add(_KEY)

        return ResourceEventHandlerFuncs(on_update, lambda old, new: on_update(new), on_delete)

    def _set_namespace(self, namespace: Namespace) -> None:
        self._namespaces[namespace.metadata.name] = namespace.metadata.labels

    def _remove_namespace(self, namespace: Namespace) -> None:
        self._namespaces[namespace.metadata.name] = None

    def _set_policy(self, policy: NetworkPolicy) -> None:
        self._policies[key_of(policy)] = policy

    def _remove_policy(self, policy: NetworkPolicy) -> None:
        self._policies[key_of(policy)] = None

    def _set_node(self, node: Node) -> None:
        if node.metadata.name == self._node_name:
            self._pod_cidrs = node.spec.pod_cidrs

    # Addresses that the CNI plugin reports.

    async def assign(self, assignment: AddressAssignment, addresses: Sequence[IPAddress]) -> None:
        """Record addresses of a new pod, and wait until the rules of its policies are in force."""
        self._addresses.assign(assignment, addresses)
        self.loop.queue.add(_KEY)
        async with self._applied:
            await self._applied.wait_for(lambda: self.is_loaded and self._addresses.is_shown(assignment, addresses))

    def release(self, addresses: Sequence[IPAddress]) -> None:
        """Record that addresses were given back."""
        self._addresses.release(addresses)
        self.loop.queue.add(_KEY)

    # Applying.

    async def _reconcile(self, key: ObjectKey) -> Result:
        self._update_tables()
        if self.is_loaded:
            await self._apply(self._tables.table.render_changes())
        else:
            self._metrics.full_syncs.value += 1
            await self._run(self._tables.table.render_full())
        async with self._applied:
            self._applied.notify_all()
        return Result(requeue_after=_CHECK_SECONDS)

    def _update_tables(self) -> None:
        tables = self._tables
        while self._namespaces:
            name, labels = self._namespaces.popitem()
            tables.set_namespace(name, labels)
        tables.set_pods(self._addresses.take_changes())
        while self._policies:
            key, policy = self._policies.popitem()
            if policy is None:
                tables.remove_policy(key)
            else:
                tables.set_policy(policy)
        if self._pod_cidrs is not None:
            tables.set_pod_networks(parse_networks(self._pod_cidrs))
            self._pod_cidrs = None

    async def _apply(self, changes: str) -> None:
        """Apply changes; without any, check that the table still exists."""
        try:
            await self._run(changes or f"list chain inet {TABLE} forward\n")
        except NftablesError as error:
            log.warning("the table of network policies is replaced after an error: %s", error)
            self._metrics.full_syncs.value += 1
            self._metrics.repairs.value += 1
            await self._run(self._tables.table.render_full())

    async def _run(self, script: str) -> None:
        self.is_loaded = False
        try:
            await self._nftables.run(script)
        except NftablesError:
            self._metrics.errors.value += 1
            raise
        self.is_loaded = True


class _PolicyMetrics:
    """Metrics of the policies of a node."""

    def __init__(self, registry: MetricRegistry, tables: PolicyTables) -> None:
        self.full_syncs = registry.counter(
            "kubeloop_network_policy_full_syncs_total", about="Number of times that the whole table was replaced."
        ).with_labels()
        self.repairs = registry.counter(
            "kubeloop_network_policy_repairs_total", about="Number of times that a damaged table was replaced."
        ).with_labels()
        self.errors = registry.counter(
            "kubeloop_network_policy_errors_total", about="Number of transactions that failed."
        ).with_labels()
        table = tables.table
        sizes = {
            "policies": lambda: float(tables.policy_count),
            "chains": lambda: float(len(table.chains)),
            "sets": lambda: float(len(table.sets)),
            "elements": lambda: float(sum(map(len, table.elements.values()))),
        }
        family = registry.gauge("kubeloop_network_policy_objects", "type", about="Number of objects of the table.")
        for kind, size in sizes.items():
            family.set_function(size, kind)


def reduce_pod(pod: Pod) -> Pod:
    """Return a pod with the fields that network policies need."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            labels=meta.labels,
            resource_version=meta.resource_version,
            creation_timestamp=meta.creation_timestamp,
        ),
        spec=PodSpec(
            node_name=spec.node_name,
            host_network=spec.host_network,
            containers=tuple(map(_reduce_container, spec.containers or ())),
            init_containers=tuple(map(_reduce_container, spec.init_containers)),
        ),
        status=PodStatus(phase=status.phase, pod_ip=status.pod_ip, pod_ips=status.pod_ips),
    )


def _reduce_container(container: Container) -> Container:
    restart = container.restart_policy
    return msgspec.structs.replace(Container(), name=container.name, ports=container.ports, restart_policy=restart)
