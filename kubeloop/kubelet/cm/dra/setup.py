# SPDX-License-Identifier: Apache-2.0
"""Builds the parts of dynamic resource allocation of a real node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kubeloop.api.features.gates import Features
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.checkpoints.store import CheckpointStore
from kubeloop.kubelet.cm.dra.claim_info_cache import ClaimInfoCache
from kubeloop.kubelet.cm.dra.health_info import HealthInfoCache
from kubeloop.kubelet.cm.dra.health_watch import HealthWatch
from kubeloop.kubelet.cm.dra.manager import DRAManager, DRAManagerParts
from kubeloop.kubelet.cm.dra.metrics import DRAMetrics
from kubeloop.kubelet.cm.dra.plugin_manager import DRAPluginManager
from kubeloop.kubelet.cm.dra.resource_status import AllocatedResourcesStatus
from kubeloop.kubelet.cm.dra.slice_wiper import ResourceSliceWiper
from kubeloop.kubelet.sync.sync_queues import EnqueuePod
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.objects.keys import key_of


@dataclass(frozen=True, slots=True)
class DRANode:
    """Parts of a node that dynamic resource allocation uses."""

    name: str
    root: Path  # of the kubelet
    client: Client
    clock: Clock
    registry: MetricRegistry
    enqueue: EnqueuePod
    has_node: Callable[[], bool]  # False until the node is registered
    active_pods: Callable[[], Iterable[Pod] | None]  # None until the pods are known


def new_dra_manager(node: DRANode, features: Features) -> DRAManager:
    """Return the manager of a node."""
    store, metrics = CheckpointStore(node.root), DRAMetrics(node.registry)
    claims, health = ClaimInfoCache(store), HealthInfoCache(store, node.clock)

    def enqueue(uid: str) -> None:
        for pod in node.active_pods() or ():
            if pod.metadata.uid == uid:
                node.enqueue(key_of(pod))

    has_health = features.is_enabled("ResourceHealthStatus")
    watch = HealthWatch(health, claims, enqueue).run if has_health else None
    wiper = ResourceSliceWiper(node.client, node.name, node.has_node, node.clock)
    plugins = DRAPluginManager(wiper, metrics, node.clock, watch)
    status = AllocatedResourcesStatus(claims, health, features) if has_health else None
    caches = (claims, health, status)
    parts = DRAManagerParts(node.client, node.clock, *caches, plugins, metrics, node.active_pods)
    return DRAManager(parts, features)
