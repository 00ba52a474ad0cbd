# SPDX-License-Identifier: Apache-2.0
"""Observed states of pods as last read from the runtime; read again after the pod changed.

Invariant: an entry is what the runtime reported after the last `invalidate` of its pod. The PLEG invalidates pods that
changed by themselves, operations those that they change. Without it, each step of a pod's sync would read every
container again.
"""

from __future__ import annotations

from collections import Counter

from kubeloop.grpc.streams import NOT_FOUND, RpcError
from kubeloop.kubelet.cri.config.labels import POD_UID
from kubeloop.kubelet.cri.messages.container import Container
from kubeloop.kubelet.cri.messages.sandbox import PodSandboxStatus
from kubeloop.kubelet.cri.pod_status import addresses_of, observe_pod, run_of
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.kubelet.runtime import ContainerRun, PodObservation


class PodStatusCache:
    """Observations by pod UID, and the IDs of their sandboxes."""

    def __init__(self, runtime: RuntimeService, scheme: str, host_addresses: tuple[str, ...]) -> None:
        self._runtime = runtime
        self._scheme = scheme
        self._host_addresses = host_addresses
        self._observations: dict[str, PodObservation] = {}
        self._sandboxes: dict[str, str] = {}
        self._exited: dict[str, ContainerRun] = {}  # by container ID: they do not change any more
        self._changes: Counter[str] = Counter()

    def invalidate(self, uid: str) -> None:
        """Read a pod again before it is used next."""
        self._changes[uid] += 1
        self._observations.pop(uid, None)

    def remove(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self.invalidate(uid)
        del self._changes[uid]
        self._sandboxes.pop(uid, None)

    def sandbox_of(self, uid: str) -> str:
        """Return the ID of a pod's newest sandbox, as last read; empty without any."""
        return self._sandboxes.get(uid, "")

    def peek(self, uid: str) -> PodObservation | None:
        """Return the state of a pod if it has not changed since it was read."""
        return self._observations.get(uid)

    async def get(self, uid: str) -> PodObservation:
        """Return the state of a pod. Raises `RpcError`."""
        found = self._observations.get(uid)
        if found is None:
            version = self._changes[uid]
            found = await self._read(uid)
            if self._changes[uid] == version:
                self._observations[uid] = found
        return found

    async def remove_unstarted(self, uid: str) -> None:
        """Remove containers that were created, and whose start was interrupted: they would never run or exit."""
        runs = (await self.get(uid)).runs.values()
        unstarted = [run.id.rpartition("/")[2] for found in runs for run in found if run.state == "created"]
        for id in unstarted:
            await self._runtime.remove_container(id)
        if unstarted:
            self.invalidate(uid)

    async def _read(self, uid: str) -> PodObservation:
        chosen = {POD_UID: uid}
        sandboxes = await self._runtime.list_pod_sandboxes(chosen)
        newest = max(sandboxes, key=lambda one: one.created_at, default=None)
        status = await self._sandbox_status(newest.id) if newest is not None else None
        self._sandboxes[uid] = newest.id if newest is not None else ""
        containers = await self._runtime.list_containers(chosen)
        runs = [(one.pod_sandbox_id, run) for one in containers if (run := await self._run(one)) is not None]
        return observe_pod(addresses_of(status, self._host_addresses), self._sandboxes[uid], runs)

    async def _sandbox_status(self, id: str) -> PodSandboxStatus | None:
        try:
            return (await self._runtime.pod_sandbox_status(id)).status
        except RpcError as error:
            if error.code == NOT_FOUND:  # it was removed since the list
                return None
            raise

    async def _run(self, container: Container) -> ContainerRun | None:
        if (exited := self._exited.get(container.id)) is not None:
            return exited
        try:
            status = (await self._runtime.container_status(container.id)).status
        except RpcError as error:
            if error.code == NOT_FOUND:
                return None
            raise
        run = run_of(status, self._scheme) if status is not None else None
        if run is not None and run.state == "exited" and run.finished_at is not None:
            self._exited[container.id] = run
        return run

    def forget_containers(self, kept: set[str]) -> None:
        """Forget exited containers that the runtime does not have any more."""
        self._exited = {id: run for id, run in self._exited.items() if id in kept}
