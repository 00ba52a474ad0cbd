# SPDX-License-Identifier: Apache-2.0
"""Dynamic resource allocation on a real node, with the process of a driver that uses the real gRPC library."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.realnode.dra_process import FAILURES, JOURNAL
from tests.realnode.node import RealNode
from tests.realnode.test_pods import container, pod

pytestmark = pytest.mark.realnode
DRIVER = "gpu.example.com"
ROOT = Path(__file__).parents[2]
SLEEP = "trap 'exit 0' TERM; while true; do sleep 0.1; done"


class Driver:
    """Driver of a node: its process and its journal."""

    def __init__(self, node: RealNode) -> None:
        self._node = node
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process in the network namespace of the node."""
        node = self._node
        words = (DRIVER, str(node.root), str(node.kubeconfig), node.name)
        command = node.runtime.enter(sys.executable, "-m", "tests.realnode.dra_process", *words)
        with (node.folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def stop(self) -> None:
        """Kill the process; its sockets stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def fail(self, failures: dict[str, str]) -> None:
        """Let the driver fail for claims, by name."""
        (self._node.root / FAILURES).write_text(json.dumps(failures))

    @property
    def journal(self) -> dict[str, Any]:
        """Calls, prepared claims and registrations."""
        file = self._node.root / JOURNAL
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found


@contextmanager
def running_driver(node: RealNode) -> Iterator[Driver]:
    driver = Driver(node)
    driver.start()
    try:
        yield driver
    finally:
        driver.stop()
        (node.root / "plugins_registry" / "reg.sock").unlink(missing_ok=True)
        (node.root / JOURNAL).unlink(missing_ok=True)
        (node.root / FAILURES).unlink(missing_ok=True)


@pytest.fixture
def driver(node: RealNode) -> Iterator[Driver]:
    """A registered driver, and a device class with all its devices."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    node.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [selector]},
        }
    )
    with running_driver(node) as found:
        node.eventually(lambda: found.journal.get("registered"))
        yield found
        node.remove_pods()
        node.kubectl("delete", "resourceclaims", "--all", "--wait=true")


def claim(name: str) -> dict[str, Any]:
    request = {"name": "req", "exactly": {"deviceClassName": "gpu"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }


def pod_with(name: str, claim_name: str) -> dict[str, Any]:
    found = pod(name, container("c", SLEEP, resources={"claims": [{"name": "gpu"}]}))
    found["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim_name}]
    return found


def checkpoint(node: RealNode) -> list[dict[str, Any]]:
    """Return the claims in the checkpoint of the kubelet."""
    data = json.loads((node.root / "dra_manager_state").read_text())["Data"]
    return json.loads(data)["ClaimInfoStateList"] or []


def events(node: RealNode, name: str) -> list[tuple[str, str]]:
    found = json.loads(node.kubectl("get", "events", "-o", "json"))["items"]
    return [(one["reason"], one["message"]) for one in found if one["involvedObject"]["name"] == name]


def test_a_claim_is_prepared_before_its_pod_runs_and_unprepared_after_it(node: RealNode, driver: Driver) -> None:
    node.apply(claim("one"), pod_with("p", "one"))
    found = node.wait_ready("p")
    uid = found["metadata"]["uid"]
    assert ["prepare", ["one"]] in driver.journal["calls"]
    assert driver.journal["prepared"] == ["one"]
    info = next(one for one in checkpoint(node) if one["ClaimName"] == "one")
    assert list(info["PodUIDs"]) == [uid]
    device = info["DriverState"][DRIVER]["Devices"][0]
    assert device["CDIDeviceIDs"] == [f"{DRIVER}/device=one"]
    health = node.statuses("p")["c"]["allocatedResourcesStatus"]
    assert health == [{"name": "claim:gpu", "resources": [{"health": "Unknown", "resourceID": f"{DRIVER}/device=one"}]}]
    # The node itself may read the claims of its pods, and no other.
    user = ("--as", f"system:node:{node.name}", "--as-group", "system:nodes")
    assert node.kubectl("get", "resourceclaim", "one", "-o", "name", *user)
    node.apply(claim("other"))
    assert "forbidden" in node.kubectl("get", "resourceclaim", "other", *user, check=False)
    node.kubectl("delete", "pod", "p", "--wait=true")
    assert driver.journal["prepared"] == []
    assert driver.journal["calls"][-1] == ["unprepare", ["one"]]
    assert all(one["ClaimName"] != "one" for one in checkpoint(node))


def test_kills_of_the_kubelet_leave_no_claim_prepared(node: RealNode, driver: Driver) -> None:
    node.apply(claim("kept"), claim("gone"), pod_with("kept", "kept"), pod_with("gone", "gone"))
    before = [node.wait_ready(name)["status"]["containerStatuses"][0]["containerID"] for name in ("kept", "gone")]
    node.stop_kubelet(signal.SIGKILL)
    node.kubectl("delete", "pod", "gone", "--force", "--grace-period=0")  # the kubelet will not see it any more
    node.start_kubelet()
    node.eventually(lambda: driver.journal["prepared"] == ["kept"], lambda: str(driver.journal))
    node.eventually(lambda: len(driver.journal["registered"]) == 2, lambda: str(driver.journal))
    assert node.statuses("kept")["c"]["containerID"] == before[0]
    node.kubectl("delete", "pod", "kept", "--wait=false")
    node.stop_kubelet(signal.SIGKILL)
    node.start_kubelet()
    node.eventually(lambda: driver.journal["prepared"] == [], lambda: str(driver.journal))
    node.eventually(lambda: "pod/kept" not in node.kubectl("get", "pods", "-o", "name"))


def test_failures_of_a_driver_are_events_of_the_pod(node: RealNode, driver: Driver) -> None:
    driver.fail({"bad": "no power"})
    node.apply(claim("bad"), pod_with("p", "bad"))
    why = (
        "Failed to prepare dynamic resources: prepare dynamic resources: "
        "NodePrepareResources failed for ResourceClaim bad: no power"
    )
    node.eventually(lambda: ("FailedPrepareDynamicResources", why) in events(node, "p"), lambda: str(events(node, "p")))
    assert node.pod("p")["status"]["phase"] == "Pending"
    driver.fail({})
    node.wait_ready("p")
    # A driver that cannot unprepare keeps the pod.
    driver.fail({"bad": "still busy"})
    node.kubectl("delete", "pod", "p", "--wait=false")
    node.eventually(lambda: ["unprepare", ["bad"]] in driver.journal["calls"])
    assert node.pod("p")["status"]["phase"] == "Running"
    driver.fail({})
    node.eventually(lambda: "pod/p" not in node.kubectl("get", "pods", "-o", "name"))
    assert driver.journal["prepared"] == []


def test_slices_of_a_driver_that_is_gone_are_removed(node: RealNode, driver: Driver) -> None:
    names = ("get", "resourceslices", "-o", "name")
    node.eventually(lambda: DRIVER in node.kubectl(*names))
    driver.stop()
    node.eventually(lambda: DRIVER not in node.kubectl(*names))
