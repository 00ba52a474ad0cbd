# SPDX-License-Identifier: Apache-2.0
"""Running containers of a node, for managers that change their limits."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.kubelet.cri.config.labels import CONTAINER_NAME, POD_UID
from kubeloop.kubelet.cri.messages.container import ContainerState
from kubeloop.kubelet.cri.messages.resources import LinuxContainerResources
from kubeloop.kubelet.cri.services import RuntimeService


class RunningContainerService:
    """Lists and updates running containers through CRI."""

    def __init__(self, service: RuntimeService) -> None:
        self._service = service

    async def list_running(self) -> Mapping[tuple[str, str], str]:
        """Return the IDs of running containers, by pod UID and name. Raises `RpcError`."""
        found = await self._service.list_containers({})
        return {
            (one.labels.get(POD_UID, ""), one.labels.get(CONTAINER_NAME, "")): one.id
            for one in found
            if one.state == ContainerState.RUNNING
        }

    async def update_container_resources(self, id: str, resources: LinuxContainerResources) -> None:
        """Change limits of a container. Raises `RpcError`."""
        await self._service.update_container_resources(id, resources)
