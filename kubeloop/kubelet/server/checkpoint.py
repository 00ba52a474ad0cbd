# SPDX-License-Identifier: Apache-2.0
"""Endpoint `/checkpoint/NAMESPACE/POD/CONTAINER` of a real node: writes the state of a container to a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kubelet_requests import NodeRequest, NodeResponse
from kubeloop.api.scalars.times import format_time
from kubeloop.clock import Clock
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.runtime import ContainerCheckpointError
from kubeloop.kubelet.server.endpoints import NOT_FOUND
from kubeloop.kubelet.sync.containers import find_container

_JSON = "application/json"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_LARGEST = (1 << 63) - 1


class CheckpointRuntime(Protocol):
    """Runtime, as far as it is needed here."""

    async def checkpoint_container(self, pod: Pod, container: str, location: Path, seconds: int) -> None:
        """Write a checkpoint of a running container to a file. Raises `ContainerCheckpointError` or `RpcError`."""


class CheckpointEndpoint:
    """Checkpoints of the containers of one node, in a folder."""

    def __init__(
        self, get_pod: Callable[[str, str], Pod | None], runtime: CheckpointRuntime, folder: Path, clock: Clock
    ) -> None:
        self._get_pod = get_pod
        self._runtime = runtime
        self._folder = folder
        self._clock = clock

    async def serve(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        """Return the file of a new checkpoint; statuses and messages are upstream's."""
        if len(rest) != 3:
            return NOT_FOUND
        namespace, name, container = rest
        pod = self._get_pod(namespace, name)
        if pod is None:
            return NodeResponse(404, b"pod does not exist")
        if find_container(pod, container) is None:
            return NodeResponse(404, f"container {container} does not exist".encode())
        given = next((value for key, value in reversed(request.query) if key == "timeout"), "0")
        if _INTEGER.fullmatch(given) is None or abs(int(given)) > _LARGEST:
            return NodeResponse(404, b"cannot parse value of timeout parameter")
        moment = format_time(self._clock.now())
        location = self._folder / f"checkpoint-{name}_{namespace}-{container}-{moment}.tar"
        try:
            await self._runtime.checkpoint_container(pod, container, location, int(given))
        except (ContainerCheckpointError, RpcError) as error:
            why = error.format() if isinstance(error, RpcError) else error
            return NodeResponse(500, f"checkpointing of {namespace}/{name}/{container} failed ({why})".encode())
        return NodeResponse(200, msgspec.json.encode({"items": [str(location)]}), _JSON)
