"""Patch of a pod's status by the scheduler: the PodScheduled condition and nominatedNodeName. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import PodCondition, PodStatus
from kubeloop.api.struct_patch import StructPatch

CONDITIONS = "conditions"
NOMINATED = "nominatedNodeName"


class PodStatusPatch(StructPatch):
    """Patch of the condition, the nomination, or both."""

    part = "status"

    def __init__(self, uid: str, change: dict[str, Any]) -> None:
        self.uid = uid
        self._change = change

    @property
    def document(self) -> dict[str, Any]:
        """Body of the strategic merge patch."""
        return {"metadata": {"uid": self.uid}, "status": self._change}

    def laid_over(self, present: PodStatus) -> PodStatus | None:
        """Return the patched status; None if there are conditions already, which need a merge."""
        conditions, node = present.conditions, present.nominated_node_name
        if CONDITIONS in self._change:
            if conditions:
                return None
            conditions = tuple(codec.from_plain(one, PodCondition) for one in self._change[CONDITIONS])
        if NOMINATED in self._change:
            node = self._change[NOMINATED] or ""
        return msgspec.structs.replace(present, conditions=conditions, nominated_node_name=node)
