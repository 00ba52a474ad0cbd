# SPDX-License-Identifier: Apache-2.0
"""Devices of real pods: a plugin process of the real gRPC library, from registration to a killed kubelet."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.realnode import device_plugin
from tests.realnode.device_plugin import RESOURCE, texts
from tests.realnode.node import RealNode
from tests.realnode.test_pods import container, pod

pytestmark = pytest.mark.realnode
SLEEP = "trap 'exit 0' TERM; while true; do sleep 0.1; done"
WIDGET = {"limits": {RESOURCE: "1"}}


class Widgets:
    """Plugin process with two devices."""

    def __init__(self, node: RealNode, folder: Path) -> None:
        self._node = node
        self._state = folder / "state"
        self._started = folder / "started"
        self._started.touch()
        self._log = folder / "plugin.log"
        self.set_health(w1="Healthy", w2="Healthy")

    def set_health(self, **health: str) -> None:
        fresh = self._state.with_name("new")
        fresh.write_text(json.dumps(health))
        fresh.replace(self._state)

    def start(self) -> subprocess.Popen[bytes]:
        folder = str(self._node.root / "device-plugins")
        with self._log.open("ab") as log:
            command = (sys.executable, device_plugin.__file__, folder, str(self._state))
            return subprocess.Popen(command, stdout=log, stderr=log)

    def wait_resources(self, capacity: str, allocatable: str) -> None:
        self._node.eventually(
            lambda: self.resources() == (capacity, allocatable), lambda: f"{self.resources()} {self._log.read_text()}"
        )

    def resources(self) -> tuple[str, str]:
        status = json.loads(self._node.kubectl("get", "node", self._node.name, "-o", "json"))["status"]
        return status["capacity"].get(RESOURCE, ""), status["allocatable"].get(RESOURCE, "")

    @property
    def started(self) -> list[str]:
        """Devices for which PreStartContainer was called."""
        return self._started.read_text().split()


@pytest.fixture
def widgets(node: RealNode, tmp_path: Path) -> Iterator[Widgets]:
    found = Widgets(node, tmp_path)
    process = found.start()
    try:
        found.wait_resources("2", "2")
        yield found
        node.remove_pods()
    finally:
        process.terminate()
        process.wait()


def list_pod_resources(node: RealNode) -> dict[str, list[str]]:
    """Return the devices of each pod by the PodResources API."""
    with grpc.insecure_channel(f"unix://{node.root}/pod-resources/kubelet.sock") as channel:
        response = channel.unary_unary("/v1.PodResourcesLister/List")(b"")
    found = {}
    for one in texts(response, 1):
        [name] = texts(one, 1)
        devices = [device for container in texts(one, 3) for device in texts(container, 2)]
        found[name.decode()] = [id.decode() for device in devices for id in texts(device, 2)]
    return found


def health_of(node: RealNode, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = node.statuses(name)["c"].get("allocatedResourcesStatus", [])
    return found


def test_pods_get_devices_until_there_are_none_left(node: RealNode, widgets: Widgets) -> None:
    node.apply(pod("first", container("c", SLEEP, resources=WIDGET)))
    node.wait_ready("first")
    id = node.kubectl("exec", "first", "--", "sh", "-c", "echo $WIDGETS").strip()
    assert id in ("w1", "w2")
    assert node.kubectl("exec", "first", "--", "ls", "-l", f"/dev/{id}").startswith("crw")
    node.kubectl("exec", "first", "--", "sh", "-c", f"echo gone > /dev/{id}")
    assert widgets.started == [id]
    assert list_pod_resources(node)["first"] == [id]
    assert health_of(node, "first") == [{"name": RESOURCE, "resources": [{"resourceID": id, "health": "Healthy"}]}]
    two = {"limits": {RESOURCE: "2"}}
    node.apply(pod("waits", container("c", SLEEP, resources=two)))
    bound = pod("refused", container("c", SLEEP, resources=two))
    bound["spec"]["nodeName"] = node.name
    node.apply(bound)
    refused = node.wait_phase("refused", "Failed")["status"]
    assert refused["reason"] == "UnexpectedAdmissionError"
    assert refused["message"] == (
        f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {RESOURCE}. "
        "Requested: 2, Available: 1, which is unexpected"
    )
    node.eventually(lambda: "Insufficient example.com/widget" in node.kubectl("describe", "pod", "waits"))
    node.kubectl("delete", "pod", "first", "--wait=true", "--grace-period=1")
    node.wait_ready("waits")
    assert list_pod_resources(node)["waits"] == ["w1", "w2"]


def test_health_changes_what_is_allocatable_and_the_status_of_containers(node: RealNode, widgets: Widgets) -> None:
    node.apply(pod("user", container("c", SLEEP, resources={"limits": {RESOURCE: "2"}})))
    node.wait_ready("user")
    widgets.set_health(w1="Unhealthy", w2="Healthy")
    widgets.wait_resources("2", "1")
    unhealthy = [{"resourceID": "w1", "health": "Unhealthy"}, {"resourceID": "w2", "health": "Healthy"}]
    node.eventually(lambda: health_of(node, "user") == [{"name": RESOURCE, "resources": unhealthy}])
    widgets.set_health(w1="Healthy", w2="Healthy", w3="Healthy")
    widgets.wait_resources("3", "3")
    assert node.statuses("user")["c"]["restartCount"] == 0


def test_a_killed_kubelet_keeps_devices_and_the_plugin_registers_again(node: RealNode, tmp_path: Path) -> None:
    widgets = Widgets(node, tmp_path)
    process = widgets.start()
    try:
        widgets.wait_resources("2", "2")
        node.apply(pod("keeper", container("c", SLEEP, resources=WIDGET)))
        before = node.wait_ready("keeper")
        devices = list_pod_resources(node)["keeper"]
        node.stop_kubelet(signal.SIGKILL)
        process.terminate()
        process.wait()
        node.start_kubelet()
        widgets.wait_resources("0", "0")
        assert list_pod_resources(node)["keeper"] == devices
        process = widgets.start()
        widgets.wait_resources("2", "2")
        after = node.wait_ready("keeper")
        assert (
            after["status"]["containerStatuses"][0]["containerID"]
            == before["status"]["containerStatuses"][0]["containerID"]
        )
        node.apply(pod("other", container("c", SLEEP, resources=WIDGET)))
        node.wait_ready("other")
        assert list_pod_resources(node)["other"] != devices
        node.remove_pods()
    finally:
        process.terminate()
        process.wait()
