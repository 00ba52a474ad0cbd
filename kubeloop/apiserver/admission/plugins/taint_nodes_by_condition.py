"""TaintNodesByCondition: a new node takes no pods until its controller has seen that it is ready."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Node, Taint
from kubeloop.apiserver.admission import Attempt, Plugin

_NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")


class TaintNodesByCondition(Plugin):
    name = "TaintNodesByCondition"
    resources = frozenset({"nodes"})

    def admit(self, attempt: Attempt) -> None:
        node = attempt.obj
        assert isinstance(node, Node)
        taints = node.spec.taints
        if not any(taint.key == _NOT_READY.key and taint.effect == _NOT_READY.effect for taint in taints):
            force_setattr(node.spec, "taints", (*taints, _NOT_READY))
