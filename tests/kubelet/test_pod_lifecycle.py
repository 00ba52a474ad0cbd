# SPDX-License-Identifier: Apache-2.0
"""Tests of pods on simulated nodes, from binding to termination."""

from __future__ import annotations

import msgspec

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.testing import Cluster, builders

TRUE = {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}


def running(cluster: Cluster, name: str = "pod") -> Pod:
    return cluster.client.get(Pod, name, "default")


def command(*words: str, **about: object) -> tuple[object, ...]:
    return (builders.container(command=words, **about),)


def is_gone(cluster: Cluster, name: str = "pod") -> bool:
    try:
        cluster.client.get(Pod, name, "default")
    except NotFound:
        return True
    return False


def test_nodes_register_ready_with_labels_capacity_and_lease(cluster: Cluster) -> None:
    cluster.add_nodes(3)
    nodes = cluster.client.list("nodes").items
    assert [one.metadata.name for one in nodes] == ["n1", "n2", "n3"]
    first: Node = nodes[0]
    assert first.metadata.labels["kubernetes.io/hostname"] == "n1"
    assert first.metadata.labels["kubernetes.io/os"] == "linux"
    assert first.status.allocatable["pods"] == "110"
    said = {one.type: (one.status, one.reason) for one in first.status.conditions}
    assert said == {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
        "Ready": ("True", "KubeletReady"),
    }
    assert len({one.status.addresses[0].address for one in nodes}) == 3
    lease = cluster.client.get(Lease, "n1", "kube-node-lease")
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("n1", 40)
    assert lease.metadata.owner_references[0].uid == first.metadata.uid


def test_leases_are_renewed_every_ten_seconds_and_conditions_every_five_minutes(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    before = cluster.client.get(Lease, "n1", "kube-node-lease").spec.renew_time
    node = cluster.client.get(Node, "n1")
    cluster.advance(11)
    assert cluster.client.get(Lease, "n1", "kube-node-lease").spec.renew_time > before
    assert cluster.client.get(Node, "n1").metadata.resource_version == node.metadata.resource_version
    cluster.advance(minutes=6)
    beat = cluster.client.get(Node, "n1").status.conditions[0].last_heartbeat_time
    assert beat > node.status.conditions[0].last_heartbeat_time


def test_bound_pod_becomes_ready_with_one_write(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    made = cluster.client.create(builders.pod(node="n1"))
    cluster.settle()
    pod = running(cluster)
    assert pod.status.phase == "Running"
    assert {one.type for one in pod.status.conditions if one.status == "True"} == TRUE
    assert all(one.observed_generation == 1 for one in pod.status.conditions)
    (status,) = pod.status.container_statuses
    assert (status.ready, status.started, status.restart_count) == (True, True, 0)
    assert status.state.running is not None
    assert status.container_id.startswith("sim://")
    assert "@sha256:" in status.image_id
    assert pod.status.pod_ip == pod.status.pod_ips[0].ip
    assert pod.status.host_ip == cluster.client.get(Node, "n1").status.addresses[0].address
    assert pod.status.start_time is not None
    assert pod.metadata.uid == made.metadata.uid


def test_pod_that_was_bound_before_its_node_existed_runs(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.add(builders.pod("pod", node_name="late"))
    cluster.advance(60)
    assert running(cluster).status.phase == "Pending"
    node = builders.node("late")
    node = msgspec.structs.replace(node, metadata=builders.metadata("late", annotations={"sim.kubeloop.io/node": ""}))
    cluster.add(node)
    cluster.advance(1)
    assert running(cluster).status.phase == "Running"


def test_pods_have_distinct_addresses(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    for number in range(6):
        cluster.client.create(builders.pod(f"p{number}", node=f"n{number % 2 + 1}"))
    cluster.settle()
    assert len({running(cluster, f"p{number}").status.pod_ip for number in range(6)}) == 6


def test_pod_of_a_real_node_is_ignored(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.add(builders.node("real"))
    cluster.client.create(builders.pod(node="real"))
    cluster.settle()
    assert running(cluster).status.phase == "Pending"


def test_succeeded_container_completes_the_pod(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.client.create(builders.pod(node="n1", restart_policy="Never", containers=command("true")))
    cluster.settle()
    status = running(cluster).status
    assert status.phase == "Succeeded"
    end = status.container_statuses[0].state.terminated
    assert end is not None
    assert (end.exit_code, end.reason) == (0, "Completed")
    said = {one.type: (one.status, one.reason) for one in status.conditions}
    assert said["Ready"] == ("False", "PodCompleted")
    assert said["ContainersReady"] == ("False", "PodCompleted")
    assert said["Initialized"] == ("True", "PodCompleted")


def test_failed_container_fails_the_pod_with_its_exit_code(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    containers = command("sh", "-c", "sleep 5; exit 42")
    cluster.client.create(builders.pod(node="n1", restart_policy="Never", containers=containers))
    cluster.advance(4)
    assert running(cluster).status.phase == "Running"
    cluster.advance(2)
    status = running(cluster).status
    assert status.phase == "Failed"
    end = status.container_statuses[0].state.terminated
    assert end is not None
    assert (end.exit_code, end.reason) == (42, "Error")
    assert {one.reason for one in status.conditions if one.type == "Ready"} == {"PodFailed"}


def test_failing_container_is_restarted_with_backoff(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.client.create(builders.pod(node="n1", containers=command("false")))
    cluster.settle()
    pod = running(cluster)
    (status,) = pod.status.container_statuses
    assert pod.status.phase == "Running"
    assert status.restart_count == 1
    assert status.state.waiting is not None
    assert status.state.waiting.reason == "CrashLoopBackOff"
    text = f"pod_default({pod.metadata.uid})"
    assert status.state.waiting.message == f"back-off 10s restarting failed container=app pod={text}"
    assert status.last_state.terminated is not None
    seen = []
    for _ in range(700):
        cluster.advance(1)
        seen.append(running(cluster).status.container_statuses[0].restart_count)
    restarts = [index + 1 for index in range(1, 700) if seen[index] != seen[index - 1]]
    assert restarts == [10, 30, 70, 150, 310, 610]
    (event, *_) = cluster.events(reason="BackOff")
    assert event.message == f"Back-off restarting failed container app in pod {text}"
    assert event.involved_object.field_path == "spec.containers{app}"
    assert (event.source.component, event.source.host) == ("kubelet", "n1")


def test_deleted_pod_terminates_and_is_removed(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.client.create(builders.pod(node="n1"))
    cluster.settle()
    cluster.client.delete(Pod, "pod", "default")
    cluster.settle()
    assert is_gone(cluster)


def test_deleted_pod_with_a_finalizer_has_termination_states(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    meta = builders.metadata("pod", "default", finalizers=("example.com/mine",))
    cluster.client.create(Pod(metadata=meta, spec=builders.pod(node="n1").spec))
    cluster.settle()
    cluster.client.delete(Pod, "pod", "default")
    cluster.settle()
    pod = running(cluster)
    assert pod.status.phase == "Succeeded"
    assert pod.status.container_statuses[0].state.terminated is not None
    assert pod.metadata.deletion_grace_period_seconds == 0


def patch_status(cluster: Cluster, **status: object) -> None:
    merge = "application/strategic-merge-patch+json"
    cluster.client.patch(Pod, "pod", {"status": status}, "default", subresource="status", type=merge)


def test_overwritten_pod_status_is_restored(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.client.create(builders.pod(node="n1"))
    cluster.advance(30)
    before = running(cluster)
    unready = {"type": "Ready", "status": "False", "reason": "Mine", "message": "so I say"}
    patch_status(cluster, phase="Pending", podIP="1.2.3.4", conditions=[unready, {"type": "Mine", "status": "True"}])
    cluster.advance(5)
    assert running(cluster).status.phase == "Pending"
    cluster.advance(16)
    after = running(cluster).status
    assert [one.type for one in after.conditions if one.type not in TRUE] == ["Mine"]
    assert (after.phase, after.pod_ip) == ("Running", before.status.pod_ip)
    ready = {one.type: one for one in after.conditions}["Ready"]
    assert ready in before.status.conditions  # with the time at which it became so


def test_unchanged_statuses_are_not_rewritten(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.client.create(builders.pod(node="n1"))
    cluster.advance(30)
    patch_status(cluster, conditions=[{"type": "Mine", "status": "True"}])
    cluster.client.patch(Pod, "pod", {"metadata": {"annotations": {"a": "b"}}}, "default")
    revision = running(cluster).metadata.resource_version
    cluster.advance(minutes=20)
    assert running(cluster).metadata.resource_version == revision


def test_dual_stack_pods_and_nodes_have_an_address_per_family(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.client.patch(Node, "n1", {"spec": {"podCIDR": "10.5.0.0/24", "podCIDRs": ["10.5.0.0/24", "fd05::/64"]}})
    addresses = [{"type": "InternalIP", "address": one} for one in ("172.16.0.1", "fd16::1")]
    cluster.client.patch(Node, "n1", {"status": {"addresses": addresses}}, subresource="status")
    cluster.client.create(builders.pod(node="n1"))
    cluster.client.create(builders.pod("host", node="n1", host_network=True))
    cluster.settle()
    status = running(cluster).status
    assert (status.pod_ip, [one.ip for one in status.pod_ips]) == ("10.5.0.2", ["10.5.0.2", "fd05::2"])
    assert (status.host_ip, [one.ip for one in status.host_ips]) == ("172.16.0.1", ["172.16.0.1", "fd16::1"])
    assert [one.ip for one in running(cluster, "host").status.pod_ips] == ["172.16.0.1", "fd16::1"]
