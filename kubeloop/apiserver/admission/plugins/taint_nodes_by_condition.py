# SPDX-License-Identifier: Apache-2.0
"""TaintNodesByCondition: taints a new node as not ready until the node lifecycle controller removes it."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Node, Taint
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes

_NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")


class TaintNodesByCondition(AdmissionPlugin):
    """Adds the not-ready taint to new nodes."""

    name = "TaintNodesByCondition"
    resources = frozenset({"nodes"})

    def admit(self, attempt: Attributes) -> None:
        """Add the taint unless the node has it."""
        node = attempt.obj
        assert isinstance(node, Node)
        taints = node.spec.taints
        if not any(taint.key == _NOT_READY.key and taint.effect == _NOT_READY.effect for taint in taints):
            force_setattr(node.spec, "taints", (*taints, _NOT_READY))
