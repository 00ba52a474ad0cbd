# SPDX-License-Identifier: Apache-2.0
"""Graceful shutdown with a real message bus, on which a stand-in for logind runs, and checkpoints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.realnode.containerd import Containerd
from tests.realnode.node import RealNode
from tests.realnode.test_pods import container, pod

pytestmark = pytest.mark.realnode
_BUS = """<busconfig>
<type>system</type><listen>unix:path={folder}/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/><allow user="*"/>
</policy></busconfig>
"""
_CONFIG = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "shutdownGracePeriodByPodPriority": [
        {"priority": 0, "shutdownGracePeriodSeconds": 60},
        {"priority": 1000, "shutdownGracePeriodSeconds": 60},
    ],
}
_API_SERVER = "kube-apiserver-kubelet-client"
_ENDS_WHEN_TOLD = "trap 'exit 0' TERM; while true; do sleep 0.1; done"


@contextmanager
def run_bus(folder: Path) -> Iterator[None]:
    """Run a message bus at the socket `bus` of a folder."""
    (folder / "bus.conf").write_text(_BUS.format(folder=folder))
    command = ["dbus-daemon", "--nofork", f"--config-file={folder}/bus.conf", "--print-address"]
    bus = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert bus.stdout is not None
        assert bus.stdout.readline()
        yield
    finally:
        bus.terminate()
        bus.communicate()


@contextmanager
def run_logind(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a stand-in for logind: a line of its input is a signal, a line of its output an event."""
    command = [sys.executable, "-m", "tests.realnode.stand_in_logind", str(folder / "bus")]
    logind = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert _line(logind) == "ready"
        yield logind
    finally:
        logind.terminate()
        logind.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_shutdown_waits_for_the_pods_in_the_order_of_their_priorities(own_containerd: Containerd) -> None:
    assert shutil.which("dbus-daemon"), "make runtime-tools installs it"
    folder: Path = own_containerd.folder / "node"
    folder.mkdir()
    (folder / "kubelet.yaml").write_text(json.dumps(_CONFIG))
    node = RealNode(own_containerd, folder, environment={"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={folder}/bus"})
    with node.plane(), run_bus(folder), run_logind(folder) as logind:
        node.start_kubelet("--config", str(folder / "kubelet.yaml"))
        try:
            node.eventually(node.is_ready)
            assert _line(logind) == "locked shutdown kubelet delay"
            node.apply(_priority_class(), _ending_pod("plain"), _ending_pod("important", "important"))
            for name in ("plain", "important"):
                node.wait_ready(name)
            _shut_down(node, logind)
            _check_ended_pods(node)
            _check_kubelet_afterwards(node)
        finally:
            node.stop_kubelet()


def _shut_down(node: RealNode, logind: subprocess.Popen[str]) -> None:
    assert logind.stdin is not None
    logind.stdin.write("shutdown\n")
    logind.stdin.flush()
    assert _line(logind) == "released"
    node.eventually(lambda: not node.is_ready())


def _check_ended_pods(node: RealNode) -> None:
    ended = {}
    for name in ("plain", "important"):
        found = node.pod(name)["status"]
        assert (found["phase"], found["reason"]) == ("Failed", "Terminated")
        assert found["message"] == "Pod was terminated in response to imminent node shutdown."
        condition = {one["type"]: one for one in found["conditions"]}["DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "TerminationByKubelet")
        ended[name] = found["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
        assert not (node.root / "pods" / node.pod(name)["metadata"]["uid"] / "volumes").exists()
    assert ended["plain"] <= ended["important"]


def _check_kubelet_afterwards(node: RealNode) -> None:
    path = "{.status.conditions[?(@.type=='Ready')].message}"
    assert node.kubectl("get", "node", node.name, "-o", f"jsonpath={path}") == "node is shutting down"
    node.apply(_ending_pod("late", nodeName=node.name))
    late = node.wait_phase("late", "Failed")["status"]
    said = "Pod was rejected: Pod was rejected as the node is shutting down."
    assert (late["reason"], late["message"]) == ("NodeShutdown", said)
    state = json.loads((node.root / "graceful_node_shutdown_state").read_text())
    assert "2000" < state["startTime"] <= state["endTime"]
    metrics = node.kubectl("get", "--raw", f"/api/v1/nodes/{node.name}/proxy/metrics")
    assert "kubelet_graceful_shutdown_end_time_seconds 1" in metrics
    events = node.kubectl("get", "events", "--field-selector", "reason=NodeShutdown", "-o", "name")
    assert events


def _priority_class() -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "important"},
        "value": 5000,
    }


def _ending_pod(name: str, priority: str = "", **spec: Any) -> dict[str, Any]:
    further = {"priorityClassName": priority} if priority else {}
    volumes = [{"name": "v", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "v", "mountPath": "/v"}]
    return pod(name, container("c", _ENDS_WHEN_TOLD, volumeMounts=mounts), volumes=volumes, **further, **spec)


def test_checkpoints_are_refused_as_the_runtime_says(node: RealNode) -> None:
    node.apply(pod("p", container("c", _ENDS_WHEN_TOLD)))
    node.wait_ready("p")
    assert oct(os.stat(node.root / "checkpoints").st_mode & 0o777) == "0o700"
    path = f"/api/v1/nodes/{node.name}/proxy/checkpoint/default"
    said = node.kubectl("create", "--raw", f"{path}/p/c", "-f", "-", check=False, stdin="")
    assert "subresource(s)=[checkpoint]" in said, "the API server's client needs the permission"
    node.kubectl("create", "clusterrole", "checkpoints", "--verb=create", "--resource=nodes/checkpoint")
    node.kubectl("create", "clusterrolebinding", "checkpoints", "--clusterrole=checkpoints", f"--user={_API_SERVER}")
    why = "checkpointing of default/p/c failed (rpc error: code = Unimplemented desc = "
    answers: list[str] = []

    def is_refused() -> bool:
        answers.append(node.kubectl("create", "--raw", f"{path}/p/c", "-f", "-", check=False, stdin=""))
        return why in answers[-1]

    node.eventually(is_refused, lambda: answers[-1])
    missing = node.kubectl("create", "--raw", f"{path}/p/other", "-f", "-", check=False, stdin="")
    assert "(NotFound)" in missing
