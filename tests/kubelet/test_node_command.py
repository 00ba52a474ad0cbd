# SPDX-License-Identifier: Apache-2.0
"""`kubeloop node`, against a plane with simulated nodes."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any

import pytest
import yaml

from kubeloop.api.generated.core_v1 import Node
from kubeloop.cli.commands.node import NodeCommandError, NodeCommands, format_nodes, is_drainable
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import get, is_gone, put, state


class Commands:
    """Run commands in sequence; returns their output."""

    def __init__(self, cluster: Cluster) -> None:
        self.said: list[str] = []
        self._cluster = cluster
        self.nodes = NodeCommands(cluster.async_client, cluster.clock, self._report)

    def _report(self, kind: str, name: str, result: str) -> None:
        self.said.append(f"{kind}/{name} {result}")

    def do(self, command: Coroutine[Any, Any, None]) -> None:
        self._cluster.run(command)
        self._cluster.settle()


@pytest.fixture
def commands(cluster: Cluster) -> Commands:
    cluster.add_nodes(2)
    return Commands(cluster)


def test_list_shows_status_and_state(cluster: Cluster, commands: Commands) -> None:
    put(cluster)
    cluster.add(builders.node("metal"))
    commands.do(commands.nodes.cordon("n1"))
    commands.do(commands.nodes.stop("n2"))
    found = cluster.run(commands.nodes.list())
    assert [line.split() for line in format_nodes(found, "", cluster.clock).splitlines()] == [
        ["NAME", "STATUS", "STATE", "PODS", "AGE"],
        ["metal", "Ready", "real", "0", "0s"],
        ["n1", "Ready,SchedulingDisabled", "running", "1", "0s"],
        ["n2", "Ready", "stopped", "0", "0s"],
    ]
    assert format_nodes(found, "name", cluster.clock).splitlines() == ["node/metal", "node/n1", "node/n2"]
    document = json.loads(format_nodes(found, "json", cluster.clock))
    assert document == yaml.safe_load(format_nodes(found, "yaml", cluster.clock))
    assert document["nodes"][1]["pods"] == 1


def test_stopped_node_is_started_again(cluster: Cluster, commands: Commands) -> None:
    put(cluster)
    commands.do(commands.nodes.stop("n1"))
    commands.do(commands.nodes.start("n1"))
    assert commands.said == ["node/n1 stopped", "node/n1 started"]
    assert get(cluster).status.container_statuses[0].restart_count == 1


def test_partitioned_node_is_healed(cluster: Cluster, commands: Commands) -> None:
    commands.do(commands.nodes.partition("n1"))
    put(cluster)
    assert get(cluster).status.phase == "Pending"
    commands.do(commands.nodes.heal("n1"))
    assert get(cluster).status.phase == "Running"


def test_real_node_cannot_be_stopped(cluster: Cluster, commands: Commands) -> None:
    cluster.add(builders.node("metal"))
    with pytest.raises(NodeCommandError, match="node metal is not simulated"):
        commands.do(commands.nodes.stop("metal"))


def test_drained_node_only_has_daemon_pods(cluster: Cluster, commands: Commands) -> None:
    daemon = cluster.client.create(builders.daemon_set())
    cluster.client.create(builders.pod("daemon", node="n1", owner=daemon))
    put(cluster)
    commands.do(commands.nodes.drain("n1", 60))
    assert is_gone(cluster)
    assert state(get(cluster, "daemon")) == "running"
    assert cluster.client.get(Node, "n1").spec.unschedulable
    assert commands.said[-1] == "node/n1 drained"
    assert not is_drainable(get(cluster, "daemon"))


def test_added_node_runs_pods(cluster: Cluster, commands: Commands) -> None:
    commands.do(commands.nodes.add("extra"))
    put(cluster, node="extra")
    pod = get(cluster)
    assert pod.status.phase == "Running"
    assert pod.status.host_ip == cluster.client.get(Node, "extra").status.addresses[0].address


def test_pressure_shows_in_conditions(cluster: Cluster, commands: Commands) -> None:
    commands.do(commands.nodes.pressure("n1", "memory,pid"))
    said = {one.type: (one.status, one.reason) for one in cluster.client.get(Node, "n1").status.conditions}
    assert said["MemoryPressure"] == ("True", "KubeletHasInsufficientMemory")
    assert said["PIDPressure"] == ("True", "KubeletHasInsufficientPID")
    assert said["DiskPressure"][0] == "False"
    commands.do(commands.nodes.pressure("n1", "none"))
    cluster.advance(minutes=6)
    said = {one.type: (one.status, one.reason) for one in cluster.client.get(Node, "n1").status.conditions}
    assert said["MemoryPressure"][0] == "False"
    with pytest.raises(NodeCommandError):
        commands.do(commands.nodes.pressure("n1", "rum"))
