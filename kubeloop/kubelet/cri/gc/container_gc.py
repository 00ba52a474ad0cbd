# SPDX-License-Identifier: Apache-2.0
"""Removes dead containers, dead sandboxes and logs that nothing needs any more, as upstream's container GC."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.config.labels import CONTAINER_NAME, POD_UID
from kubeloop.kubelet.cri.gc.log_links import ContainerLogLinks
from kubeloop.kubelet.cri.gc.log_manager import remove_logs
from kubeloop.kubelet.cri.messages.container import Container, ContainerState, ContainerStatusResponse
from kubeloop.kubelet.cri.messages.sandbox import PodSandbox, PodSandboxState

GC_SECONDS = 60.0
_DEAD_PER_CONTAINER = 1

log = logging.getLogger(__name__)

IsKnownPod = Callable[[str], bool]  # by UID


class GarbageService(Protocol):
    """Calls of `kubeloop.kubelet.cri.services.RuntimeService` for garbage collection."""

    async def list_containers(self, labels: Mapping[str, str], sandbox: str = "") -> tuple[Container, ...]:
        """Return the containers with these labels."""

    async def list_pod_sandboxes(self, labels: Mapping[str, str]) -> tuple[PodSandbox, ...]:
        """Return the sandboxes with these labels."""

    async def container_status(self, id: str, *, verbose: bool = False) -> ContainerStatusResponse:
        """Return the state of a container."""

    async def stop_container(self, id: str, grace: int) -> None:
        """Stop a container."""

    async def remove_container(self, id: str) -> None:
        """Remove a container."""

    async def stop_pod_sandbox(self, id: str) -> None:
        """Stop a sandbox."""

    async def remove_pod_sandbox(self, id: str) -> None:
        """Remove a sandbox."""


class ContainerGC:
    """Collects the garbage of one node; `on_listed` gets the IDs of all containers that are left."""

    def __init__(
        self,
        runtime: GarbageService,
        pod_logs: Path,
        links: ContainerLogLinks,
        on_listed: Callable[[set[str]], None],
    ) -> None:
        self._runtime = runtime
        self._pod_logs = pod_logs
        self._links = links
        self._on_listed = on_listed

    async def run(self, is_known: IsKnownPod) -> None:
        """Collect garbage forever."""
        while True:
            await asyncio.sleep(GC_SECONDS)
            try:
                await self.collect(is_known)
            except (RpcError, OSError) as error:
                log.warning("container garbage collection failed: %s", error)

    async def collect(self, is_known: IsKnownPod) -> None:
        """Remove dead containers but the newest of each name, sandboxes, then logs. Raises `RpcError`."""
        await self._remove_containers()
        await self._remove_sandboxes(is_known)
        self._remove_pod_logs(is_known)
        await self._remove_links()

    async def remove_dead_containers(self, is_running: IsKnownPod) -> None:
        """Remove all dead containers of pods that have ended, to free disk space. Raises `RpcError`."""
        for one in await self._runtime.list_containers({}):
            uid = one.labels.get(POD_UID)
            if uid and one.state == ContainerState.EXITED and not is_running(uid):
                await self._remove_container(one)

    async def _remove_containers(self) -> None:
        units: dict[tuple[str, str], list[Container]] = defaultdict(list)
        every = await self._runtime.list_containers({})
        for one in every:
            if one.state != ContainerState.RUNNING and (uid := one.labels.get(POD_UID)):
                units[uid, one.labels.get(CONTAINER_NAME, "")].append(one)
        left = {one.id for one in every}
        for dead in units.values():
            dead.sort(key=lambda one: one.created_at, reverse=True)
            for one in dead[_DEAD_PER_CONTAINER:]:
                await self._remove_container(one)
                left.discard(one.id)
        self._on_listed(left)

    async def _remove_container(self, container: Container) -> None:
        """Remove a container with its logs; one in an unknown state may still run and is stopped before."""
        status = (await self._runtime.container_status(container.id)).status
        if container.state == ContainerState.UNKNOWN:
            await self._runtime.stop_container(container.id, 0)
        if status is not None and status.log_path:
            remove_logs(Path(status.log_path))
        self._links.remove(container.id, container.labels)
        await self._runtime.remove_container(container.id)

    async def _remove_sandboxes(self, is_known: IsKnownPod) -> None:
        """Remove sandboxes that are neither ready nor have containers; the newest one of a pod is kept."""
        in_use = {one.pod_sandbox_id for one in await self._runtime.list_containers({})}
        pods: dict[str, list[PodSandbox]] = defaultdict(list)
        for one in await self._runtime.list_pod_sandboxes({}):
            if uid := one.labels.get(POD_UID):
                pods[uid].append(one)
        for uid, sandboxes in pods.items():
            for one in _removable_sandboxes(sandboxes, in_use, keeps_newest=is_known(uid)):
                await self._runtime.stop_pod_sandbox(one.id)
                await self._runtime.remove_pod_sandbox(one.id)

    def _remove_pod_logs(self, is_known: IsKnownPod) -> None:
        folders = self._pod_logs.iterdir() if self._pod_logs.is_dir() else ()
        for folder in folders:
            if folder.is_dir() and folder.name.count("_") == 2 and not is_known(folder.name.rpartition("_")[2]):
                shutil.rmtree(folder, ignore_errors=True)

    async def _remove_links(self) -> None:
        """Remove links to logs that are gone, unless the log of a running container is being rotated."""
        for link, id in self._links.dangling():
            try:
                status = (await self._runtime.container_status(id)).status
            except RpcError:
                status = None
            if status is None or status.state == ContainerState.EXITED:
                link.unlink(missing_ok=True)


def _removable_sandboxes(
    sandboxes: Iterable[PodSandbox], in_use: set[str], *, keeps_newest: bool
) -> Iterable[PodSandbox]:
    ordered = sorted(sandboxes, key=lambda one: one.created_at, reverse=True)
    old = ordered[1:] if keeps_newest else ordered
    return [one for one in old if one.state != PodSandboxState.READY and one.id not in in_use]
