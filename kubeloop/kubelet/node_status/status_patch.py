# SPDX-License-Identifier: Apache-2.0
"""Patch of a node's status by its kubelet: conditions, volumes in use, and what else has changed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import NodeCondition, NodeStatus
from kubeloop.api.struct_patch import StructPatch


class NodeStatusPatch(StructPatch):
    """Patch that sets conditions of a node, its volumes in use unless they are None, and other fields in plain form."""

    part = "status"
    uid = ""

    def __init__(
        self,
        conditions: tuple[NodeCondition, ...],
        in_use: tuple[str, ...] | None = None,
        others: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._conditions = conditions
        self._in_use = in_use
        self._others = others

    @property
    def document(self) -> dict[str, Any]:
        """Body of the patch."""
        status: dict[str, Any] = {"conditions": codec.to_plain(self._conditions), **self._others}
        if self._in_use is not None:
            status["volumesInUse"] = list(self._in_use)
        return {"status": status}

    def apply_to(self, present: NodeStatus) -> NodeStatus | None:
        """Return the patched status; None with other fields, or with new, repeated, incomplete or reordered conditions.

        A merge keeps the present fields that an incomplete condition lacks.
        """
        said = {one.type: one for one in self._conditions}
        if self._others or not all(map(_is_complete, self._conditions)):
            return None
        known = [one.type for one in present.conditions]
        if len(set(known)) < len(known) or [type for type in known if type in said] != list(said):
            return None
        conditions = tuple([said.get(one.type, one) for one in present.conditions])
        in_use = present.volumes_in_use if self._in_use is None else self._in_use
        return msgspec.structs.replace(present, conditions=conditions, volumes_in_use=in_use)


def _is_complete(condition: NodeCondition) -> bool:
    times = condition.last_heartbeat_time and condition.last_transition_time
    return bool(condition.status and condition.reason and condition.message and times)
