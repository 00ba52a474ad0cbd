# SPDX-License-Identifier: Apache-2.0
"""Reports in a node's status the volumes that it may mount: attached and not about to be detached."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.pods.volumes import CSI_VOLUME_PREFIX
from kubeloop.client import Client
from kubeloop.controllers.attach_detach.names import is_attached, is_managed
from kubeloop.controllers.attach_detach.node_volume_state import NodeVolumeStates
from kubeloop.controllers.attach_detach.state_of_world import StateOfWorld


class NodeStatusUpdater:
    """Writes volumesAttached of nodes by name."""

    def __init__(self, client: Client, world: StateOfWorld, memory: NodeVolumeStates) -> None:
        self._client = client
        self._world = world
        self._memory = memory

    async def reconcile(self, name: str) -> None:
        """Update volumesAttached of one node if it has changed."""
        node = self._world.node(name)
        if node is None or not is_managed(node):
            return
        wanted = self._report(node)
        if wanted == [{"name": one.name, "devicePath": one.device_path} for one in node.status.volumes_attached]:
            return
        patch = {"metadata": {"uid": node.metadata.uid}, "status": {"volumesAttached": wanted}}
        with self._memory.mark_status_write(name):
            await self._client.patch(Node, name, patch, subresource="status")

    def _report(self, node: Node) -> list[dict[str, Any]]:
        """Return the volumes to report; volumes of other kinds are kept."""
        name = node.metadata.name
        names = {
            unique
            for one in self._world.attachments_on(name)
            if is_attached(one) and one.metadata.deletion_timestamp is None
            if (unique := self._world.name_of_attachment(one)) is not None
            if not self._memory.is_reported_as_detached(unique, name)
        }
        paths = {one.name: one.device_path for one in node.status.volumes_attached}
        kept = {one for one in paths if not one.startswith(CSI_VOLUME_PREFIX)}
        return [{"name": one, "devicePath": paths.get(one, "")} for one in sorted(names | kept)]
