# SPDX-License-Identifier: Apache-2.0
"""Observed states of pods as last read from the runtime; after a change only what changed is read again.

Invariant: an entry is what the runtime reported after the last `invalidate` of its pod, with what the kubelet's own
operations added since. The PLEG invalidates pods that changed by themselves. Without the cache, each step of a pod's
sync would list its sandboxes and containers and read every one of them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from kubeloop.grpc.streams import NOT_FOUND, RpcError
from kubeloop.kubelet.cri.config.labels import POD_UID
from kubeloop.kubelet.cri.messages.container import ContainerState
from kubeloop.kubelet.cri.messages.sandbox import PodSandboxState
from kubeloop.kubelet.cri.pod_status import addresses_of, observe_pod, run_of
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.kubelet.runtime import ContainerRun, PodObservation, RunState

PodParts = frozenset[tuple[str, int]]  # IDs and states of the sandboxes and containers of a pod
_STATES: dict[RunState, int] = {
    "created": ContainerState.CREATED,
    "running": ContainerState.RUNNING,
    "exited": ContainerState.EXITED,
}


class KnownSandbox(NamedTuple):
    """Sandbox of a pod."""

    id: str
    attempt: int
    state: int = PodSandboxState.READY


class _PodEntry(msgspec.Struct, frozen=True):
    """Sandboxes, newest first, and containers of a pod with their sandboxes, and what was read of them."""

    sandboxes: tuple[KnownSandbox, ...] = ()
    containers: tuple[tuple[str, str], ...] = ()  # IDs of container and sandbox
    addresses: tuple[str, ...] | None = None
    unread: frozenset[str] = frozenset()  # IDs whose status must be read
    runs: dict[str, ContainerRun] = {}  # by container ID
    observation: PodObservation | None = None  # of all this, once nothing is unread


class PodStatusCache:
    """Observations by pod UID. `is_absent` returns True for a pod that the runtime is known to have nothing of."""

    def __init__(
        self,
        runtime: RuntimeService,
        scheme: str,
        host_addresses: tuple[str, ...],
        is_absent: Callable[[str], bool] | None = None,
    ) -> None:
        self._runtime = runtime
        self._scheme = scheme
        self._host_addresses = host_addresses
        self._is_absent = is_absent
        self._entries: dict[str, _PodEntry] = {}
        self._sandboxes: dict[str, str] = {}
        self._exited: dict[str, ContainerRun] = {}  # by container ID: they do not change any more
        self._changes: Counter[str] = Counter()

    # Changes.

    def invalidate(self, uid: str) -> None:
        """Read a pod again before it is used next."""
        self._changes[uid] += 1
        self._entries.pop(uid, None)

    def remove(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self.invalidate(uid)
        del self._changes[uid]
        self._sandboxes.pop(uid, None)

    def add_sandbox(self, uid: str, sandbox: KnownSandbox) -> None:
        """Add a sandbox that was created for a pod, whose other sandboxes were stopped."""
        self._changes[uid] += 1
        if (entry := self._entries.get(uid)) is not None:
            stopped = tuple(one._replace(state=PodSandboxState.NOTREADY) for one in entry.sandboxes)
            self._entries[uid] = msgspec.structs.replace(
                entry, sandboxes=(sandbox, *stopped), unread=entry.unread | {sandbox.id}, observation=None
            )

    def add_container(self, uid: str, sandbox: str, id: str) -> None:
        """Add a container that was created in a sandbox of a pod."""
        self._changes[uid] += 1
        if (entry := self._entries.get(uid)) is not None:
            self._entries[uid] = msgspec.structs.replace(
                entry, containers=(*entry.containers, (id, sandbox)), unread=entry.unread | {id}, observation=None
            )

    # Reads.

    def sandbox_of(self, uid: str) -> str:
        """Return the ID of a pod's newest sandbox, as last read; empty without any."""
        return self._sandboxes.get(uid, "")

    def peek(self, uid: str) -> PodObservation | None:
        """Return the state of a pod if it has not changed since it was read."""
        entry = self._entries.get(uid)
        return entry.observation if entry is not None else None

    def parts_of(self, uid: str) -> PodParts | None:
        """Return what the PLEG finds of a pod if it has not changed since it was read."""
        entry = self._entries.get(uid)
        if entry is None or entry.observation is None:
            return None
        containers = {(id, _STATES[run.state]) for id, run in entry.runs.items()}
        return frozenset({(one.id, one.state) for one in entry.sandboxes} | containers)

    async def sandboxes(self, uid: str) -> tuple[KnownSandbox, ...]:
        """Return the sandboxes of a pod, newest first. Raises `RpcError`."""
        entry = self._entries.get(uid)
        return (await self._list_sandboxes(uid)) if entry is None else entry.sandboxes

    async def get(self, uid: str) -> PodObservation:
        """Return the state of a pod. Raises `RpcError`."""
        entry = self._entries.get(uid)
        if entry is not None and entry.observation is not None:
            return entry.observation
        version = self._changes[uid]
        if entry is None:
            is_new = uid not in self._changes and self._is_absent is not None and self._is_absent(uid)
            entry = _PodEntry() if is_new else await self._list(uid)
        entry = await self._read(entry)
        self._sandboxes[uid] = entry.sandboxes[0].id if entry.sandboxes else ""
        if self._changes[uid] == version:
            self._entries[uid] = entry
        assert entry.observation is not None, "everything was read"
        return entry.observation

    async def remove_unstarted(self, uid: str) -> None:
        """Remove containers that were created, and whose start was interrupted: they would never run or exit."""
        runs = (await self.get(uid)).runs.values()
        unstarted = [run.id.rpartition("/")[2] for found in runs for run in found if run.state == "created"]
        for id in unstarted:
            await self._runtime.remove_container(id)
        if unstarted:
            self.invalidate(uid)

    def forget_containers(self, kept: set[str]) -> None:
        """Forget exited containers that the runtime does not have any more."""
        self._exited = {id: run for id, run in self._exited.items() if id in kept}

    async def _list_sandboxes(self, uid: str) -> tuple[KnownSandbox, ...]:
        found = sorted(
            await self._runtime.list_pod_sandboxes({POD_UID: uid}), key=lambda one: one.created_at, reverse=True
        )
        return tuple(
            KnownSandbox(one.id, one.metadata.attempt if one.metadata is not None else 0, one.state) for one in found
        )

    async def _list(self, uid: str) -> _PodEntry:
        """Return an entry of which nothing is read but the lists."""
        sandboxes = await self._list_sandboxes(uid)
        listed = await self._runtime.list_containers({POD_UID: uid})
        unread = frozenset((*(one.id for one in sandboxes[:1]), *(one.id for one in listed)))
        return _PodEntry(sandboxes, tuple((one.id, one.pod_sandbox_id) for one in listed), unread=unread)

    async def _read(self, entry: _PodEntry) -> _PodEntry:
        """Return an entry with the statuses that were not read yet, and without what is gone since."""
        sandboxes, addresses, runs = entry.sandboxes, entry.addresses, dict(entry.runs)
        if sandboxes and sandboxes[0].id in entry.unread:
            addresses = await self._addresses(sandboxes[0].id)
            state = PodSandboxState.NOTREADY if addresses is None else PodSandboxState.READY
            sandboxes = (sandboxes[0]._replace(state=state), *sandboxes[1:])
        for id, _ in entry.containers:
            if id in entry.unread and (run := await self._run(id)) is not None:
                runs[id] = run
        containers = tuple(one for one in entry.containers if one[0] in runs)
        newest = sandboxes[0].id if sandboxes else ""
        observation = observe_pod(addresses, newest, [(sandbox, runs[id]) for id, sandbox in containers])
        return _PodEntry(sandboxes, containers, addresses, runs=runs, observation=observation)

    async def _addresses(self, sandbox: str) -> tuple[str, ...] | None:
        try:
            status = (await self._runtime.pod_sandbox_status(sandbox)).status
        except RpcError as error:
            if error.code == NOT_FOUND:  # it was removed since the list
                return None
            raise
        return addresses_of(status, self._host_addresses)

    async def _run(self, id: str) -> ContainerRun | None:
        if (exited := self._exited.get(id)) is not None:
            return exited
        try:
            status = (await self._runtime.container_status(id)).status
        except RpcError as error:
            if error.code == NOT_FOUND:
                return None
            raise
        run = run_of(status, self._scheme) if status is not None else None
        if run is not None and run.state == "exited" and run.finished_at is not None:
            self._exited[id] = run
        return run
