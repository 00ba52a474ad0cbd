"""Metrics of attached, desired and used volumes by node, under upstream's names."""

from __future__ import annotations

from collections import Counter

from kubeloop.api.generated.core_v1 import PersistentVolume
from kubeloop.api.pods.volumes import plugin_of
from kubeloop.controllers.attach_detach.names import is_attached
from kubeloop.controllers.attach_detach.state_of_world import AttachDetachCaches, StateOfWorld, needs_volumes, volume_of
from kubeloop.metrics import MetricRegistry

Counts = Counter[tuple[str, ...]]


def register_attachment_metrics(registry: MetricRegistry, caches: AttachDetachCaches, world: StateOfWorld) -> None:
    """Register gauges that are computed on each scrape."""

    def states() -> Counts:
        volumes: list[PersistentVolume] = list(caches.volumes.list())
        counts: Counts = Counter()
        for one in volumes:
            counts[plugin_of(one), "desired_state_of_world"] += len(world.desired_nodes(one))
        for attachment in caches.attachments.list():
            for volume in filter(None, map(world.volume, volume_of(attachment))):
                counts[plugin_of(volume), "actual_state_of_world"] += is_attached(attachment)
        return +counts

    def used() -> Counts:
        pods = (pod for pod in caches.pods.list() if pod.spec.volumes and needs_volumes(pod))
        on_nodes = ((pod.spec.node_name, world.volume(name)) for pod in pods for name in world.volumes_of_pod(pod))
        return Counter((node, plugin_of(volume)) for node, volume in on_nodes if volume is not None)

    total = registry.gauge("attachdetach_controller_total_volumes", "plugin_name", "state")
    total.set_collector(states)
    in_use = registry.gauge("storage_count_attachable_volumes_in_use", "node", "volume_plugin")
    in_use.set_collector(used)
