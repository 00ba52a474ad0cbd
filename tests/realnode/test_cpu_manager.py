# SPDX-License-Identifier: Apache-2.0
"""CPU manager of a real node: exclusive CPUs, the shared pool, restarts and rejections."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from tests.realnode.node import NODE, RealNode
from tests.realnode.test_pods import container, pod
from tests.realnode.test_resources import SLEEP, group_of

pytestmark = pytest.mark.realnode
ONE_CPU = {"cpu": "1", "memory": "32Mi"}
EXCLUSIVE = {"requests": ONE_CPU, "limits": ONE_CPU}
FLAGS = ("--cpu-manager-policy", "static", "--kube-reserved", "cpu=500m", "--cpu-manager-reconcile-period", "1s")


@pytest.fixture
def static_node(node: RealNode) -> Iterator[RealNode]:
    """The node, whose kubelet has the static policy during a test."""
    if os.sched_getaffinity(0) != {0, 1}:
        pytest.skip("needs a machine with two CPUs")
    restart(node, *FLAGS)
    yield node
    node.remove_pods()
    restart(node)


def restart(node: RealNode, *flags: str) -> None:
    """Start the kubelet with another policy, which needs another state."""
    state = node.root / "cpu_manager_state"
    node.stop_kubelet()
    state.unlink(missing_ok=True)
    node.start_kubelet(*flags)
    node.eventually(state.exists)  # the status of the node may be an old one
    node.eventually(node.is_ready)


def cpus(node: RealNode, name: str) -> str:
    """Return the CPUs that the first process of a pod's container may use."""
    return node.kubectl(
        "exec", name, "--", "sh", "-c", "sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/1/status"
    ).strip()


def test_a_guaranteed_pod_has_its_cpu_across_restarts(static_node: RealNode) -> None:
    node = static_node
    node.apply(pod("other", container("c", SLEEP)))
    node.wait_ready("other")
    assert cpus(node, "other") == "0-1"
    node.apply(pod("own", container("c", SLEEP, resources=EXCLUSIVE)))
    node.wait_ready("own")
    assert cpus(node, "own") == "1"
    node.eventually(lambda: cpus(node, "other") == "0" or None)
    assert group_of(node, "own").limits[1] == "-1"  # no quota
    before = node.statuses("own")["c"]["containerID"]
    node.stop_kubelet(signal.SIGKILL)
    node.start_kubelet(*FLAGS)
    many = pod("many", container("c", SLEEP, resources=EXCLUSIVE), nodeName=NODE)
    node.apply(many)
    status = node.wait_phase("many", "Failed")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert status["message"] == (
        "Pod was rejected: Allocate failed due to not enough cpus available to satisfy request: requested=1, "
        "available=0, which is unexpected"
    )
    assert (cpus(node, "own"), cpus(node, "other")) == ("1", "0")
    assert node.statuses("own")["c"]["containerID"] == before
    state = json.loads((node.root / "cpu_manager_state").read_text())
    assert (state["policyName"], state["defaultCpuSet"]) == ("static", "0")
    node.kubectl("delete", "pod", "own", "--wait=true")
    node.eventually(lambda: cpus(node, "other") == "0-1" or None)


def test_another_policy_is_refused_while_the_state_of_the_first_is_there(static_node: RealNode) -> None:
    node = static_node
    node.stop_kubelet()
    node.start_kubelet()
    log = node.folder / "kubelet.log"
    why = 'the node cannot start: could not restore state from checkpoint: configured policy "none" differs'
    node.eventually(lambda: why in log.read_text())
