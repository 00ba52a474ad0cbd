# SPDX-License-Identifier: Apache-2.0
"""The endpoint of checkpoints answers as upstream's."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubeloop.api.generated.core_v1 import Container, EphemeralContainer, Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kubelet_requests import NodeRequest, NodeResponse
from kubeloop.clock import SystemClock
from kubeloop.grpc.streams import UNIMPLEMENTED, RpcError
from kubeloop.kubelet.runtime import ContainerCheckpointError
from kubeloop.kubelet.server.checkpoint import CheckpointEndpoint
from kubeloop.kubelet.server.endpoints import subresources_of, verb_of

POD = Pod(
    metadata=ObjectMeta(name="p", namespace="ns", uid="u"),
    spec=PodSpec(
        containers=(Container(name="c"),),
        init_containers=(Container(name="i"),),
        ephemeral_containers=(EphemeralContainer(name="e"),),
    ),
)


class StillClock(SystemClock):
    """Clock that stands still."""

    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, 678, UTC)


class Runtime:
    """Runtime that records checkpoints."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.made: list[tuple[str, str, int]] = []

    async def checkpoint_container(self, pod: Pod, container: str, location: Path, seconds: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.made.append((container, str(location), seconds))


def ask(runtime: Runtime, path: str, *timeouts: str) -> NodeResponse:
    """Return the answer to a request."""
    endpoint = CheckpointEndpoint(
        lambda namespace, name: POD if (namespace, name) == ("ns", "p") else None,
        runtime,
        Path("/root-dir/checkpoints"),
        StillClock(),
    )
    query = tuple(("timeout", one) for one in timeouts)
    request = NodeRequest(method="POST", path=f"/checkpoint/{path}", query=query)
    return asyncio.run(endpoint.serve("n", request, path.split("/")))


@pytest.mark.parametrize("name", ["c", "i", "e"])
def test_a_checkpoint_is_named_by_pod_container_and_time(name: str) -> None:
    runtime = Runtime()
    response = ask(runtime, f"ns/p/{name}", "1", "20")
    file = f"/root-dir/checkpoints/checkpoint-p_ns-{name}-2026-01-02T03:04:05Z.tar"
    assert (response.status, response.body) == (200, f'{{"items":["{file}"]}}'.encode())
    assert response.content_type == "application/json"
    assert runtime.made == [(name, file, 20)]


@pytest.mark.parametrize(
    ("path", "timeout", "status", "body"),
    [
        ("ns/other/c", "1", 404, "pod does not exist"),
        ("ns/p/other", "1", 404, "container other does not exist"),
        ("ns/p/c", "1s", 404, "cannot parse value of timeout parameter"),
        ("ns/p/c", "1_0", 404, "cannot parse value of timeout parameter"),
        ("ns/p/c", "9223372036854775808", 404, "cannot parse value of timeout parameter"),
        ("ns/p", "1", 404, "404 page not found\n"),
    ],
)
def test_what_does_not_exist_is_not_found(path: str, timeout: str, status: int, body: str) -> None:
    runtime = Runtime()
    response = ask(runtime, path, timeout)
    assert (response.status, response.body, runtime.made) == (status, body.encode(), [])


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (ContainerCheckpointError("container c not found"), "container c not found"),
        (RpcError(UNIMPLEMENTED, "unknown method"), "rpc error: code = Unimplemented desc = unknown method"),
    ],
)
def test_failures_are_told(failure: Exception, why: str) -> None:
    response = ask(Runtime(failure), "ns/p/c")
    assert (response.status, response.body) == (500, f"checkpointing of ns/p/c failed ({why})".encode())


def test_checkpoints_need_their_own_permission() -> None:
    assert (subresources_of("/checkpoint/ns/p/c"), verb_of("POST")) == (("checkpoint",), "create")
