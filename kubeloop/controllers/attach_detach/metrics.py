# SPDX-License-Identifier: Apache-2.0
"""Metrics of attached, desired and used volumes by node, under upstream's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kubeloop.api.generated.core_v1 import PersistentVolume
from kubeloop.api.pods.volumes import plugin_of
from kubeloop.controllers.attach_detach.names import is_attached
from kubeloop.controllers.attach_detach.state_of_world import AttachDetachCaches, StateOfWorld, needs_volumes
from kubeloop.metrics import MetricRegistry

Counts = Counter[tuple[str, ...]]


def register_attachment_metrics(registry: MetricRegistry, caches: AttachDetachCaches, world: StateOfWorld) -> None:
    """Register gauges that are computed on each scrape."""

    def uses() -> Iterator[tuple[str, str, PersistentVolume]]:
        """Yield node, unique name and volume for each volume of each pod."""
        for pod in caches.pods.list():
            if pod.spec.volumes and needs_volumes(pod):
                yield from ((pod.spec.node_name, name, volume) for name, volume in world.volumes_of_pod(pod))

    def states() -> Counts:
        counts: Counts = Counter()
        for name in {name for _, name, _ in uses()}:
            for desired in world.desired_nodes(name).values():
                counts[plugin_of(desired.volume), "desired_state_of_world"] += 1
        for attachment in caches.attachments.list():
            if is_attached(attachment) and world.name_of_attachment(attachment) is not None:
                counts[f"kubernetes.io/csi:{attachment.spec.attacher}", "actual_state_of_world"] += 1
        return counts

    def used() -> Counts:
        return Counter((node, plugin_of(volume)) for node, _, volume in uses())

    total = registry.gauge("attachdetach_controller_total_volumes", "plugin_name", "state")
    total.set_collector(states)
    in_use = registry.gauge("storage_count_attachable_volumes_in_use", "node", "volume_plugin")
    in_use.set_collector(used)
