# SPDX-License-Identifier: Apache-2.0
"""PodTopologyLabels: copies the node's zone and region labels to its pods (downward API)."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Binding, Pod
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup

_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels(AdmissionPlugin):
    """Copies topology labels from the node on binding."""

    name = "PodTopologyLabels"
    resources = frozenset({"pods"})
    subresources = frozenset({"", "binding"})

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def admit(self, attempt: Attributes) -> None:
        """Add the node's topology labels to a Binding, or to a pod that has a node."""
        obj = attempt.obj
        if isinstance(obj, Pod):
            node_name = obj.spec.node_name
        elif isinstance(obj, Binding) and obj.target.kind == "Node":
            # The labels of a binding become the pod's.
            node_name = obj.target.name
        else:
            return
        node = self._lookup.get_object("nodes", "", node_name) if node_name else None
        if node is None:
            return
        copied = {label: node.metadata.labels[label] for label in _LABELS if label in node.metadata.labels}
        if copied:
            force_setattr(obj.metadata, "labels", {**obj.metadata.labels, **copied})
