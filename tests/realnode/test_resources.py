# SPDX-License-Identifier: Apache-2.0
"""Resources of real pods: control groups, their limits, and in-place resize."""

from __future__ import annotations

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
