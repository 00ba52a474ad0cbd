# SPDX-License-Identifier: Apache-2.0
"""Writes to the own Node: the condition NetworkUnavailable, and the addresses that other nodes shall use."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.network.nodes import ADDRESSES_ANNOTATION

_CONDITION: Final = "NetworkUnavailable"
_STATUS: Final = "False"
_REASON: Final = "RouteCreated"  # upstream's route controller's
_MESSAGE: Final = "kubeloop network has set up the pod network of this node"


class NodeStatusWriter:
    """Reports that the pod network of a node works."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def report_ready(self, node: Node) -> None:
        """Set the condition NetworkUnavailable to False, unless it is."""
        if any(one.type == _CONDITION and one.status == _STATUS for one in node.status.conditions):
            return
        patch = {"metadata": {"uid": node.metadata.uid}, "status": {"conditions": [self._condition()]}}
        await self._client.patch(Node, node.metadata.name, patch, type=STRATEGIC_PATCH, subresource="status")

    async def publish_addresses(self, node: Node, addresses: str) -> None:
        """Publish the addresses of --node-ip; without any, an old annotation is removed."""
        present = node.metadata.annotations.get(ADDRESSES_ANNOTATION, "")
        if present != addresses:
            patch = {"metadata": {"uid": node.metadata.uid, "annotations": {ADDRESSES_ANNOTATION: addresses or None}}}
            await self._client.patch(Node, node.metadata.name, patch)

    def _condition(self) -> dict[str, Any]:
        now = format_time(self._clock.now())
        return {
            "type": _CONDITION,
            "status": _STATUS,
            "reason": _REASON,
            "message": _MESSAGE,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
