# SPDX-License-Identifier: Apache-2.0
"""Pods out of the ordinary on simulated nodes: debugged, on the node's own network, many-containered, changed."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Node, Pod, ResourceRequirements
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.wire import Quantity
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import condition_tuple, container, get, is_gone, put, runs, state


def test_ephemeral_container_is_started_once(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    debugger = {"name": "debugger", "image": "busybox", "command": ["sleep", "5"]}
    patch = {"spec": {"ephemeralContainers": [debugger]}}
    cluster.client.patch(Pod, "pod", patch, "default", subresource="ephemeralcontainers", type=STRATEGIC_PATCH)
    cluster.settle()
    (status,) = get(cluster).status.ephemeral_container_statuses
    assert status.state.running is not None
    cluster.advance(20)
    pod = get(cluster)
    (status,) = pod.status.ephemeral_container_statuses
    assert status.state.terminated is not None
    assert status.restart_count == 0
    assert (pod.status.phase, condition_tuple(pod, "Ready")[0]) == ("Running", "True")


def test_container_statuses_are_sorted_by_name(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    init = (runs("true", name="second"), runs("true", name="first"))
    put(cluster, init_containers=init, containers=(runs("server", name="z"), runs("server", name="a")))
    status = get(cluster).status
    assert [one.name for one in status.container_statuses] == ["a", "z"]
    assert [one.name for one in status.init_container_statuses] == ["second", "first"]


def test_host_network_pod_has_the_nodes_address(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, host_network=True)
    pod = get(cluster)
    assert pod.status.pod_ip == pod.status.host_ip == cluster.client.get(Node, "n1").status.addresses[0].address


def test_pod_with_a_terminated_container_is_running_and_not_ready(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(runs("server"), runs("false", name="broken")))
    pod = get(cluster)
    assert pod.status.phase == "Running"
    assert (state(pod), state(pod, "broken")) == ("running", "CrashLoopBackOff")
    assert condition_tuple(pod, "Ready") == ("False", "ContainersNotReady", "containers with unready status: [broken]")


def test_restart_policy_on_failure_keeps_succeeded_containers(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, restart_policy="OnFailure", containers=(runs("true"), runs("sh", "-c", "exit 1", name="other")))
    pod = get(cluster)
    assert pod.status.phase == "Running"
    assert (state(pod), container(pod).restart_count) == ("ended 0", 0)
    assert state(pod, "other") == "CrashLoopBackOff"


def test_status_has_container_resources(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    asks = ResourceRequirements(requests={"cpu": Quantity("100m")}, limits={"cpu": Quantity("200m")})
    put(cluster, containers=(builders.container(resources=asks),))
    status = container(get(cluster))
    assert status.allocated_resources == {"cpu": "100m"}
    assert status.resources is not None
    assert status.resources.limits == {"cpu": "200m"}


def test_recreated_pod_starts_from_scratch(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(runs("false"),))
    cluster.advance(30)
    assert container(get(cluster)).restart_count > 1
    cluster.client.delete(Pod, "pod", "default", grace_seconds=0)
    put(cluster)
    assert container(get(cluster)).restart_count == 0
    assert state(get(cluster)) == "running"


def test_pod_deleted_before_it_was_observed_is_removed_immediately(cluster: Cluster) -> None:
    cluster.client.create(Pod(metadata=builders.metadata("pod", "default"), spec=builders.pod(node="n1").spec))
    cluster.client.delete(Pod, "pod", "default")
    cluster.add_nodes(1)
    cluster.advance(1)
    assert is_gone(cluster)


def test_many_pods_leave_no_state(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(2)
    for number in range(30):
        cluster.client.create(builders.pod(f"p{number}", node=f"n{number % 2 + 1}"))
    cluster.settle()
    assert len(fleet.runtime) == 30
    assert fleet.loops[1].queue.delayed == 0, "nothing is waited for while pods merely run"
    cluster.client.delete_collection("pods", "default")
    cluster.settle()
    assert cluster.client.list("pods", "default").items == ()
    assert len(fleet.runtime) == 0
    assert len(fleet.pod_states) == 0


def test_address_of_a_terminated_pod_is_released(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.client.patch(Node, "n1", {"spec": {"podCIDR": "10.9.0.0/29", "podCIDRs": ["10.9.0.0/29"]}})
    cluster.settle()
    for number in range(12):
        put(cluster, f"p{number}", restart_policy="Never", containers=(runs("true"),))
        status = get(cluster, f"p{number}").status
        assert (status.phase, status.pod_ip.rpartition(".")[0]) == ("Succeeded", "10.9.0")
    assert condition_tuple(get(cluster, "p0"), "PodReadyToStartContainers")[0] == "False"
