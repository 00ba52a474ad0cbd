# SPDX-License-Identifier: Apache-2.0
"""Metrics of a node agent: those of its process, of its work queues, and of the probes of each node."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.kubelet.runtime import ProbeKind
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
        self._starts = MetricRegistry()
        register_start_time(self._starts)
        # Probes by pod UID: the node, and the number by label values.
        self._probes: dict[str, tuple[str, dict[tuple[str, ...], int]]] = {}

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
