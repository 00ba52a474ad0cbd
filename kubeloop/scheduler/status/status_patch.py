"""What the scheduler writes of a pod's status: that it has no node and why, and which one it waits for. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import PodCondition, PodStatus
from kubeloop.api.struct_patch import Overlay

CONDITIONS = "conditions"
NOMINATED = "nominatedNodeName"


class Told(Overlay):
    """A patch of the one condition, the nomination, or both."""

    part = "status"

    def __init__(self, uid: str, change: dict[str, Any]) -> None:
        self.uid = uid
        self._change = change

    @property
    def document(self) -> dict[str, Any]:
        return {"metadata": {"uid": self.uid}, "status": self._change}

    def laid_over(self, present: PodStatus) -> PodStatus | None:
        """None where there are conditions already, with which it has to be merged."""
        conditions, node = present.conditions, present.nominated_node_name
        if CONDITIONS in self._change:
            if conditions:
                return None
            conditions = tuple(codec.from_plain(one, PodCondition) for one in self._change[CONDITIONS])
        if NOMINATED in self._change:
            node = self._change[NOMINATED] or ""
        return msgspec.structs.replace(present, conditions=conditions, nominated_node_name=node)
