# SPDX-License-Identifier: Apache-2.0
"""Kills of the kubelet and of the container runtime at random moments: thirty pods of mixed kinds must not notice.

`KUBELOOP_KILLS=200 make test-realnode ARGS="-k kills -s"` kills 200 kubelets and restarts containerd 50 times; CI
kills a few. Pods are created and deleted meanwhile, so that starts and stops are interrupted, too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.realnode.mixed_pods import expected_phases, mixed_objects
from tests.realnode.node import RealNode
from tests.realnode.test_pods import container, pod, serve

pytestmark = pytest.mark.realnode
KILLS = int(os.environ.get("KUBELOOP_KILLS", "6"))
PODS = 30
LONGEST_PAUSE = 3.0  # seconds between two kills
CHURN = "churn-"


def test_kills_restart_no_container(node: RealNode) -> None:
    chance = random.Random(KILLS)
    node.apply(*mixed_objects())
    before = node.eventually(lambda: settled(node), lambda: node.kubectl("get", "pods", "-o", "wide"))
    assert len(before) == PODS
    node.eventually(lambda: uids_of_cgroups(node) == running_uids(node), lambda: str(node.pod_cgroups()))
    parts = parts_of(node)
    for number in range(KILLS):
        node.stop_kubelet(signal.SIGKILL)
        churn(node, number)
        if number % 4 == 3:
            node.runtime.kill()
            node.runtime.start()
        node.start_kubelet()
        time.sleep(chance.uniform(0.0, LONGEST_PAUSE))  # the moment of the next kill is what is tried
    began = time.monotonic()
    node.kubectl("delete", "pods", "-l", "kind=churn", "--wait=false")
    node.eventually(node.is_ready)
    node.apply(pod("after", serve()))
    node.wait_ready("after")
    assert facts(node) == before
    seconds = time.monotonic() - began
    print(f"\n{KILLS} kills: statuses right {seconds:.1f} s after the last start")  # noqa: T201  # a measurement
    node.kubectl("delete", "pod", "after", "--wait=true")
    node.eventually(lambda: CHURN not in node.kubectl("get", "pods", "-o", "name"))
    node.eventually(lambda: parts_of(node) == parts, lambda: f"{parts_of(node)} instead of {parts}")


def churn(node: RealNode, number: int) -> None:
    """Create a pod and delete an older one, while no kubelet runs."""
    made = pod(f"{CHURN}{number}", container("c", "sleep 1000", volumeMounts=[{"name": "d", "mountPath": "/d"}]))
    made["spec"]["volumes"] = [{"name": "d", "emptyDir": {"medium": "Memory"}}]
    made["metadata"]["labels"] = {"kind": "churn"}
    node.apply(made)
    node.kubectl("delete", "pod", f"{CHURN}{number - 1}", "--wait=false", "--ignore-not-found")


def settled(node: RealNode) -> dict[str, Any] | None:
    """The facts about the pods, once they are in their phases and those that run are ready."""
    found = facts(node)
    phases = expected_phases()
    for name, (phase, is_ready, _, _, containers) in found.items():
        wanted = phases.get(name) or next(one for start, one in phases.items() if name.startswith(start))
        if phase != wanted or (phase == "Running" and not is_ready) or not containers:
            return None
    return found if len(found) == PODS else None


def facts(node: RealNode) -> dict[str, Any]:
    """Facts about each pod that a restart of a container, or a change of its status, would change."""
    pods = json.loads(node.kubectl("get", "pods", "-o", "json"))["items"]
    names = {one["metadata"]["name"]: one["status"] for one in pods}
    return {name: _facts(status) for name, status in names.items() if not name.startswith((CHURN, "after"))}


def _facts(status: dict[str, Any]) -> tuple[Any, ...]:
    ready = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), {})
    groups = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    containers = [(one["name"], one.get("containerID"), one["restartCount"], one["ready"]) for one in groups]
    is_ready = ready.get("status") == "True"
    return status.get("phase"), is_ready, ready.get("lastTransitionTime"), status.get("podIP"), containers


def running_uids(node: RealNode) -> set[str]:
    """UIDs of the running pods. A pod that has ended keeps its sandbox and control group for a moment."""
    pods = json.loads(node.kubectl("get", "pods", "-o", "json"))["items"]
    return {one["metadata"]["uid"] for one in pods if one["status"]["phase"] == "Running"}


def uids_of_cgroups(node: RealNode) -> set[str]:
    """UIDs of the pods that have control groups."""
    return {Path(one).name.removeprefix("pod") for one in node.pod_cgroups()}


def parts_of(node: RealNode) -> dict[str, int]:
    """Count what the machine has of the pods: containers with sandboxes, mounts, control groups, folders."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return {
        "containers": len(node.runtime.list_containers()),
        "mounts of volumes": sum(1 for one in mounts if one.startswith(str(node.root))),
        "mounts of containers": sum(1 for one in mounts if one.startswith(str(node.runtime.folder / "state"))),
        "control groups": len(node.pod_cgroups()),
        "folders of pods": len(list((node.root / "pods").iterdir())),
        "folders of logs": len(list(node.pod_logs.iterdir())),
    }
