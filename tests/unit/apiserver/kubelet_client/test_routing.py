# SPDX-License-Identifier: Apache-2.0
"""Tests of routing of node requests: in-process agent, remote kubelet, or none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubeloop.api.errors import NotFound, ServiceUnavailable
from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.kubelet_requests import SIMULATED_NODE_ANNOTATION
from kubeloop.kubelet.node_status.served_nodes import STATE_ANNOTATION, STOPPED
from kubeloop.testing import Cluster, builders


class Kubelets:
    """Records the called nodes."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def logs(self, pod: Any, container: str, options: Any) -> AsyncIterator[bytes]:
        self.asked.append(pod.spec.node_name)
        yield b"from afar\n"


@pytest.fixture
def dialled(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Kubelets:
    made = Kubelets()
    cluster.add_nodes(1)
    monkeypatch.setattr(cluster.server.nodes, "kubelets", made)
    return made


def log_of(cluster: Cluster, node: str) -> str:
    cluster.add(builders.pod("pod", node=node))
    cluster.settle()
    return "".join(cluster.client.stream_logs("pod", "default"))


def test_in_process_node_is_called_directly(cluster: Cluster, dialled: Kubelets) -> None:
    assert "runs" in log_of(cluster, "n1")
    assert dialled.asked == []


@pytest.mark.parametrize("said", [{}, {SIMULATED_NODE_ANNOTATION: "kubelet"}])
def test_external_node_is_dialed(cluster: Cluster, dialled: Kubelets, said: dict[str, str]) -> None:
    cluster.add(Node(metadata=builders.metadata("far", "", annotations=said)))
    assert log_of(cluster, "far") == "from afar"
    assert dialled.asked == ["far"]


def test_stopped_in_process_node_is_not_dialed(cluster: Cluster, dialled: Kubelets) -> None:
    cluster.client.patch(Node, "n1", {"metadata": {"annotations": {STATE_ANNOTATION: STOPPED}}})
    with pytest.raises(ServiceUnavailable, match="no route to host"):
        log_of(cluster, "n1")
    assert dialled.asked == []


def test_node_of_another_planes_process_is_not_dialed(
    cluster: Cluster, dialled: Kubelets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.server.nodes, "_local", [])
    with pytest.raises(ServiceUnavailable, match="no route to host"):
        log_of(cluster, "n1")
    assert dialled.asked == []


def test_missing_node_is_not_found(cluster: Cluster, dialled: Kubelets) -> None:
    with pytest.raises(NotFound, match='nodes "nowhere" not found'):
        log_of(cluster, "nowhere")
