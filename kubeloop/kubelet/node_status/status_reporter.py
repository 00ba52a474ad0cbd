# SPDX-License-Identifier: Apache-2.0
"""Reports the conditions of an agent's nodes and their volumes in use: when they change, and every five minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Node, NodeCondition, NodeStatus
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.client import Client
from kubeloop.kubelet.node_status.registration import are_conditions_current, node_conditions
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.node_status.status_patch import NodeStatusPatch
from kubeloop.kubelet.volumes.watch import VolumeWatch

NODE_STATUS_REPORT_SECONDS = 300.0


SetNodeStatus = Callable[[NodeStatus], NodeStatus]


class NodeStatusReporter:
    """Writes the statuses of nodes.

    `trouble_of` returns why a node is not ready, or nothing if it is. `setter` returns the status of a real node with
    present values of what changes while it runs: images, runtime handlers.
    """

    def __init__(
        self,
        client: Client,
        served_nodes: ServedNodes,
        volumes: VolumeWatch,
        trouble_of: Callable[[Node], str],
        setter: SetNodeStatus | None = None,
        *,
        report_seconds: float = NODE_STATUS_REPORT_SECONDS,
    ) -> None:
        self._report_seconds = report_seconds
        self._setter = setter
        self._client = client
        self._served_nodes = served_nodes
        self._clock = served_nodes.clock
        self._volumes = volumes
        self._trouble_of = trouble_of
        # On the monotonic clock, so that corrections of the time do not delay reports.
        self._reported: dict[str, float] = {}

    def set_reported(self, name: str) -> None:
        """Record that a node has just been created with its status."""
        self._reported[name] = self._clock.monotonic()

    def forget(self, name: str) -> None:
        """Let a node report at once when it is back."""
        self._reported.pop(name, None)

    def is_due(self, node: Node) -> bool:
        """Return True if a node's status must be written."""
        name = node.metadata.name
        last = self._reported.get(name)
        if last is None or self._clock.monotonic() - last >= self._report_seconds:
            return True
        pressures, status = self._served_nodes.node_pressures(node), node.status
        if not are_conditions_current(status.conditions, pressures, self._trouble_of(node)):
            return True
        if self._setter is not None and self._setter(status) != status:
            return True
        in_use = self._volumes.volumes_in_use(name)
        return not self._volumes.reported_volumes.is_current(name, in_use, status.volumes_in_use)

    async def report(self, node: Node) -> None:
        """Write a node's status if it is due."""
        if not self.is_due(node):
            return
        name, asked = node.metadata.name, self._clock.monotonic()
        pressures, before = self._served_nodes.node_pressures(node), node.status.conditions
        conditions = node_conditions(pressures, before, self._clock.now(), self._trouble_of(node))
        in_use, reported = self._volumes.volumes_in_use(name), self._volumes.reported_volumes
        if reported.is_current(name, in_use, node.status.volumes_in_use):
            await self._write(node, conditions, None)
        else:
            with reported.confirm_after(name, in_use):
                await self._write(node, conditions, in_use)
        self._reported[name] = asked

    def _set(self, status: NodeStatus) -> NodeStatus:
        return status if self._setter is None else self._setter(status)

    def _changes(self, status: NodeStatus) -> dict[str, Any]:
        """Return the fields of a status that the setter changes, in plain form; null for those that it clears."""
        if (after := self._set(status)) == status:
            return {}
        old, new = codec.to_plain(status), codec.to_plain(after)
        return {name: new.get(name) for name in {**old, **new} if old.get(name) != new.get(name)}

    async def _write(self, node: Node, conditions: tuple[NodeCondition, ...], in_use: tuple[str, ...] | None) -> None:
        """Write a node's conditions, what the setter changed, and its volumes in use unless unchanged (None)."""
        patch = NodeStatusPatch(conditions, in_use, self._changes(node.status))
        await self._client.patch(Node, node.metadata.name, patch, type=STRATEGIC_PATCH, subresource="status")
