# SPDX-License-Identifier: Apache-2.0
"""In-memory fake of CRI's runtime service."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import msgspec

from kubeloop.grpc.streams import NOT_FOUND, RpcError
from kubeloop.kubelet.cri.config.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from kubeloop.kubelet.cri.messages.container import Container, ContainerState, ContainerStatus, ContainerStatusResponse
from kubeloop.kubelet.cri.messages.sandbox import (
    PodSandbox,
    PodSandboxNetworkStatus,
    PodSandboxState,
    PodSandboxStatus,
    PodSandboxStatusResponse,
)
from kubeloop.kubelet.cri.messages.streaming import ExecSyncResponse
from kubeloop.kubelet.cri.services import RuntimeService


def labels_of(uid: str, container: str = "") -> dict[str, str]:
    """Return the labels of a pod's sandbox or container."""
    labels = {POD_NAME: f"pod-{uid}", POD_NAMESPACE: "ns", POD_UID: uid}
    return labels | ({CONTAINER_NAME: container} if container else {})


class FakeRuntime:
    """Sandboxes and containers of one node; `failure` is raised instead of an answer."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, PodSandbox] = {}
        self.statuses: dict[str, ContainerStatus] = {}
        self.owners: dict[str, str] = {}  # sandbox of each container
        self.failure: RpcError | None = None
        self.gate: asyncio.Event | None = None  # status calls wait for it
        self.status_calls = 0
        self.asked = asyncio.Event()  # a status was asked for
        self.stops: list[tuple[str, int, float]] = []  # container, grace period, time
        self.is_stubborn = False  # containers end only with their grace period
        self.exec_answers: list[ExecSyncResponse | RpcError] = []

    def as_service(self) -> RuntimeService:
        """Return the fake as the type that callers expect."""
        return cast(RuntimeService, self)

    def add_sandbox(self, id: str, uid: str, created_at: int = 1) -> None:
        """Add a ready sandbox."""
        self.sandboxes[id] = PodSandbox(
            id=id, state=PodSandboxState.READY, created_at=created_at, labels=labels_of(uid)
        )

    def add_container(self, status: ContainerStatus, sandbox: str) -> None:
        """Add or replace a container."""
        self.statuses[status.id] = status
        self.owners[status.id] = sandbox

    async def list_pod_sandboxes(self, labels: Mapping[str, str]) -> tuple[PodSandbox, ...]:
        """Return the sandboxes with these labels."""
        self._fail()
        return tuple(one for one in self.sandboxes.values() if labels.items() <= one.labels.items())

    async def pod_sandbox_status(self, id: str) -> PodSandboxStatusResponse:
        """Return the state of a sandbox."""
        self._fail()
        one = self.sandboxes[id]
        network = PodSandboxNetworkStatus(ip="10.0.0.1")
        status = PodSandboxStatus(id=id, state=one.state, created_at=one.created_at, network=network)
        return PodSandboxStatusResponse(status=status)

    async def list_containers(self, labels: Mapping[str, str]) -> tuple[Container, ...]:
        """Return the containers with these labels."""
        self._fail()
        return tuple(
            Container(id=one.id, pod_sandbox_id=self.owners[one.id], state=one.state, labels=one.labels)
            for one in self.statuses.values()
            if labels.items() <= one.labels.items()
        )

    async def container_status(self, id: str) -> ContainerStatusResponse:
        """Return the state of a container."""
        self.status_calls += 1
        self.asked.set()
        found = self.statuses.get(id)
        if self.gate is not None:
            await self.gate.wait()
        if found is None:
            raise RpcError(NOT_FOUND, "gone")
        return ContainerStatusResponse(status=found)

    async def stop_container(self, id: str, grace: int) -> None:
        """Stop a container."""
        self.stops.append((id, grace, asyncio.get_running_loop().time()))
        self._fail()
        if self.is_stubborn:
            await asyncio.sleep(grace)
        if id in self.statuses:
            self.statuses[id] = msgspec.structs.replace(self.statuses[id], state=ContainerState.EXITED)

    async def remove_container(self, id: str) -> None:
        """Remove a container."""
        self._fail()
        self.statuses.pop(id, None)

    async def exec_sync(self, id: str, command: tuple[str, ...], seconds: int) -> ExecSyncResponse:
        """Return the next of the given answers."""
        answer = self.exec_answers.pop(0)
        if isinstance(answer, RpcError):
            raise answer
        return answer

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure
