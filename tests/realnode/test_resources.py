# SPDX-License-Identifier: Apache-2.0
"""Resources of real pods: control groups, their limits, and in-place resize."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.realnode.node import RealNode
from tests.realnode.test_pods import container, pod

pytestmark = pytest.mark.realnode
MIB = 1 << 20
SLEEP = "trap 'exit 0' TERM; while true; do sleep 0.1; done"


class Group:
    """Control group of a pod, of a QoS class or of all pods, in hierarchies of version 1."""

    def __init__(self, node: RealNode, path: str) -> None:
        if not Path("/sys/fs/cgroup/cpu/cpu.shares").exists():
            pytest.skip("needs control groups of version 1")
        self._path = f"{node.cgroup_root}/kubepods{path}"

    def read(self, controller: str, name: str) -> str:
        return Path(f"/sys/fs/cgroup/{controller}{self._path}/{name}").read_text().strip()

    def exists(self) -> bool:
        return any(Path("/sys/fs/cgroup").glob(f"*{self._path}"))

    @property
    def limits(self) -> tuple[str, str, int]:
        """CPU shares and quota, and the memory limit in MiB."""
        memory = int(self.read("memory", "memory.limit_in_bytes")) // MIB
        return self.read("cpu", "cpu.shares"), self.read("cpu", "cpu.cfs_quota_us"), memory


def group_of(node: RealNode, name: str) -> Group:
    found = node.pod(name)
    qos = {"Guaranteed": "", "Burstable": "/burstable", "BestEffort": "/besteffort"}[found["status"]["qosClass"]]
    return Group(node, f"{qos}/pod{found['metadata']['uid']}")


def test_pods_have_control_groups_of_their_qos_class(node: RealNode) -> None:
    both = {"cpu": "100m", "memory": "32Mi"}
    node.apply(
        pod("sure", container("c", SLEEP, resources={"requests": both, "limits": both})),
        pod("some", container("c", SLEEP, resources={"requests": {"cpu": "200m"}, "limits": {"memory": "64Mi"}})),
        pod("any", container("c", SLEEP)),
    )
    for name in ("sure", "some", "any"):
        node.wait_ready(name)
    assert group_of(node, "sure").limits == ("102", "10000", 32)
    assert group_of(node, "some").limits[:2] == ("204", "-1")
    assert group_of(node, "some").limits[2] == 64
    assert group_of(node, "any").read("cpu", "cpu.shares") == "2"
    assert Group(node, "/burstable").read("cpu", "cpu.shares") == "204"
    assert Group(node, "/besteffort").read("cpu", "cpu.shares") == "2"
    group = group_of(node, "sure")
    node.kubectl("delete", "pod", "sure", "--wait=true")
    node.eventually(lambda: not group.exists())


def test_pods_together_have_the_resources_of_the_node(node: RealNode) -> None:
    kubepods = Group(node, "")
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    memory = next(int(words[1]) for words in lines if words[0] == "MemTotal:")
    assert int(kubepods.read("memory", "memory.limit_in_bytes")) == memory * 1024
    events = node.kubectl("get", "events", "--all-namespaces")
    assert "Updated Node Allocatable limit across pods" in events


def test_pod_level_limits_hold_for_all_containers_together(node: RealNode) -> None:
    whole = {"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "48Mi"}}
    hungry = "x=$(head -c 100000000 /dev/zero | tr '\\0' a); echo ${#x}"
    node.apply(
        pod("whole", container("c", SLEEP), container("oom", hungry), resources=whole, restartPolicy="Never"),
    )
    group = group_of(node, "whole")
    node.eventually(lambda: node.statuses("whole").get("oom", {}).get("state", {}).get("terminated"))
    assert group.limits == ("102", "50000", 48)
    assert node.statuses("whole")["oom"]["state"]["terminated"]["reason"] == "OOMKilled"
    assert "running" in node.statuses("whole")["c"]["state"]


def test_groups_of_pods_that_are_gone_are_removed(node: RealNode) -> None:
    node.apply(pod("kept", container("c", SLEEP)))
    node.wait_ready("kept")
    for controller in ("cpu", "memory"):
        Path(f"/sys/fs/cgroup/{controller}{node.cgroup_root}/kubepods/burstable/podorphan").mkdir()
    orphan = Group(node, "/burstable/podorphan")
    assert orphan.exists()
    node.eventually(lambda: not orphan.exists())
    assert group_of(node, "kept").exists()


def resources(cpu: str, memory: str) -> dict[str, dict[str, str]]:
    return {kind: {"cpu": cpu, "memory": memory} for kind in ("requests", "limits")}


def resize(node: RealNode, name: str, cpu: str, memory: str) -> None:
    patch = {"spec": {"containers": [{"name": "c", "resources": resources(cpu, memory)}]}}
    node.kubectl("patch", "pod", name, "--subresource", "resize", "-p", json.dumps(patch))


def limits_in(node: RealNode, name: str) -> tuple[str, str, int]:
    """Return the limits that a container sees itself."""
    files = ("cpu/cpu.shares", "cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes")
    said = node.kubectl("exec", name, "-c", "c", "--", "sh", "-c", f"cd /sys/fs/cgroup; cat {' '.join(files)}").split()
    return said[0], said[1], int(said[2]) // MIB


def is_resized(node: RealNode, name: str, cpu: str) -> bool:
    found = node.pod(name)["status"]
    status = next(one for one in found["containerStatuses"] if one["name"] == "c")
    in_progress = any(one["type"] == "PodResizeInProgress" for one in found["conditions"])
    return status.get("resources", {}).get("requests", {}).get("cpu") == cpu and not in_progress


def test_resize_in_place_keeps_the_container(node: RealNode) -> None:
    node.apply(pod("size", container("c", SLEEP, resources=resources("100m", "32Mi"))))
    before = node.wait_ready("size")["status"]["containerStatuses"][0]["containerID"]
    group = group_of(node, "size")
    for cpu, memory, seen in (("200m", "64Mi", ("204", "20000", 64)), ("150m", "48Mi", ("153", "15000", 48))):
        resize(node, "size", cpu, memory)
        node.eventually(lambda cpu=cpu: is_resized(node, "size", cpu))
        assert group.limits == limits_in(node, "size") == seen
    status = node.statuses("size")["c"]
    assert (status["containerID"], status["restartCount"]) == (before, 0)
    assert status["resources"] == {**resources("150m", "48Mi")}
    events = node.kubectl("get", "events", "--field-selector", "involvedObject.name=size")
    assert "ResizeCompleted" in events


def test_resize_that_requires_a_restart(node: RealNode) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    node.apply(pod("again", container("c", SLEEP, resources=resources("100m", "32Mi"), resizePolicy=policy)))
    node.wait_ready("again")
    resize(node, "again", "100m", "64Mi")
    node.eventually(lambda: node.statuses("again")["c"]["restartCount"] == 1 or None)
    node.wait_ready("again")
    assert group_of(node, "again").limits == limits_in(node, "again") == ("102", "10000", 64)


def test_resize_survives_a_killed_kubelet(node: RealNode) -> None:
    node.apply(pod("kill", container("c", SLEEP, resources=resources("100m", "32Mi"))))
    before = node.wait_ready("kill")["status"]["containerStatuses"][0]["containerID"]
    node.stop_kubelet(signal.SIGKILL)
    resize(node, "kill", "200m", "64Mi")
    node.start_kubelet()
    node.eventually(lambda: is_resized(node, "kill", "200m"))
    assert limits_in(node, "kill") == ("204", "20000", 64)
    assert node.statuses("kill")["c"]["containerID"] == before


def test_limits_below_the_usage_are_refused(node: RealNode) -> None:
    hold = "x=$(head -c 20000000 /dev/zero | tr '\\0' a); " + SLEEP
    node.apply(pod("full", container("c", hold, resources=resources("100m", "128Mi"))))
    node.wait_ready("full")
    group = group_of(node, "full")
    node.eventually(lambda: int(group.read("memory", "memory.usage_in_bytes")) > 19 * MIB)
    resize(node, "full", "100m", "8Mi")

    def error() -> str:
        conditions = {one["type"]: one for one in node.pod("full")["status"]["conditions"]}
        return str(conditions.get("PodResizeInProgress", {}).get("message", ""))

    assert "cannot decrease memory limits: " in node.eventually(error)
    assert group.limits[2] == 128
    assert "ResizeError" in node.kubectl("get", "events", "--field-selector", "involvedObject.name=full")
    resize(node, "full", "100m", "256Mi")
    node.eventually(lambda: group.limits[2] == 256)
