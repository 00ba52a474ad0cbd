# SPDX-License-Identifier: Apache-2.0
"""Metrics of a node agent: its process, work queues and volumes, and the probes of each node."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.kubelet.runtime import ProbeKind
from kubeloop.kubelet.volumes.volume_metrics import VolumeMetrics
from kubeloop.metrics import MetricDesc, MetricRegistry, family_lines
from kubeloop.metrics.process import register_process_metrics, register_start_time

_PROBES = MetricDesc(
    "prober_probe_total", "counter", ("probe_type", "result", "container", "pod", "namespace", "pod_uid")
)
_KINDS: dict[ProbeKind, str] = {"startup": "Startup", "liveness": "Liveness", "readiness": "Readiness"}
_RESULTS = {True: "successful", False: "failed"}


class NodeAgentMetrics:
    """Metrics of one agent. All nodes of an agent share its process and queues; probes are counted by node."""

    def __init__(self) -> None:
        self.registry = MetricRegistry()
        register_process_metrics(self.registry)
        self.volumes = VolumeMetrics(self.registry)
        counter = self.registry.counter
        self._requested_image_volumes = counter("kubelet_image_volume_requested_total").with_labels()
        self._mounted_image_volumes = counter("kubelet_image_volume_mounted_succeed_total").with_labels()
        counter("kubelet_image_volume_mounted_errors_total").with_labels()
        self._starts = MetricRegistry()
        register_start_time(self._starts)
        # Probes by pod UID: the node, and the number by label values.
        self._probes: dict[str, tuple[str, dict[tuple[str, ...], int]]] = {}

    def count_image_volumes(self, pod: Pod, container: Container) -> None:
        """Count the image volumes of a pod one of whose containers starts, and those that it mounts."""
        images = {one.name for one in pod.spec.volumes if one.image is not None}
        if images:
            self._requested_image_volumes.increment(len(images))
            self._mounted_image_volumes.increment(sum(mount.name in images for mount in container.volume_mounts))

    def count_probe(self, pod: Pod, container: str, kind: ProbeKind, *, ok: bool) -> None:
        """Count a probe by its result."""
        meta = pod.metadata
        _, counts = self._probes.setdefault(meta.uid, (pod.spec.node_name, {}))
        labels = (_KINDS[kind], _RESULTS[ok], container, meta.name, meta.namespace, meta.uid)
        counts[labels] = counts.get(labels, 0) + 1

    def remove_pod(self, uid: str) -> None:
        """Remove the probes of a pod that is gone."""
        self._probes.pop(uid, None)

    def probe_page(self, node: str) -> str:
        """Return `/metrics/probes` of a node."""
        samples = sorted(
            sample for where, counts in self._probes.values() if where == node for sample in counts.items()
        )
        lines = family_lines(_PROBES, samples) if samples else ()
        return self._starts.render() + "".join(f"{line}\n" for line in lines)
