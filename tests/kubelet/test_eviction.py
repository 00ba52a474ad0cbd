# SPDX-License-Identifier: Apache-2.0
"""Nodes that are short of something: which pods they give up, and which they don't take."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Node, ResourceRequirements, Toleration
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.eviction.thresholds import PRESSURE
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import condition_tuple, get, put, state

LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "


def short_of(cluster: Cluster, what: str | None) -> None:
    cluster.client.patch(Node, "n1", {"metadata": {"annotations": {PRESSURE: what}}})
    cluster.settle()


def guaranteed(memory: str, **others: str) -> tuple[Any, ...]:
    amounts = {"cpu": Quantity("100m"), "memory": Quantity(memory)}
    amounts |= {name.replace("_", "-"): Quantity(text) for name, text in others.items()}
    return (builders.container(resources=ResourceRequirements(requests=amounts, limits=amounts)),)


def phases(cluster: Cluster, *names: str) -> list[str]:
    return [get(cluster, name).status.phase for name in names]


def condition(cluster: Cluster, type: str) -> str:
    return next(str(one.status) for one in cluster.client.get(Node, "n1").status.conditions if one.type == type)


def test_pods_exceeding_requests_are_evicted_first_one_at_a_time(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, "modest", containers=guaranteed("1Gi"), script={"memory": "900Mi"})
    put(cluster, "greedy", script={"memory": "200Mi"})
    put(cluster, "greediest", script={"memory": "400Mi"})
    short_of(cluster, "memory")
    assert phases(cluster, "modest", "greedy", "greediest") == ["Running", "Running", "Failed"]
    pod = get(cluster, "greediest")
    assert pod.status.reason == "Evicted"
    assert pod.status.message == (
        f"{LOW}Container app was using 400Mi, request is 0, has larger consumption of memory. "
    )
    assert condition_tuple(pod, "DisruptionTarget") == ("True", "TerminationByKubelet", pod.status.message)
    assert state(pod) == "ended 0"
    cluster.advance(1.5)  # the one before it was seen to be gone
    assert phases(cluster, "modest", "greedy") == ["Running", "Failed"]
    short_of(cluster, None)
    cluster.advance(60)
    assert phases(cluster, "modest") == ["Running"]
    events = cluster.events(reason="Evicted")
    assert [one.message for one in events] == [pod.status.message, get(cluster, "greedy").status.message]
    assert events[0].metadata.annotations == {
        "offending_containers": "app",
        "offending_containers_usage": "400Mi",
        "starved_resource": "memory",
    }
    (of_node, *_) = cluster.events(reason="EvictionThresholdMet")
    assert (of_node.involved_object.kind, of_node.involved_object.name) == ("Node", "n1")
    assert (of_node.type, of_node.message) == ("Warning", "Attempting to reclaim memory")


def test_next_eviction_waits_for_termination_or_timeout(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, "slow", script={"memory": "400Mi", "stop-delay": "1m"})
    put(cluster, "quick", script={"memory": "200Mi"})
    short_of(cluster, "memory")
    assert phases(cluster, "slow", "quick") == ["Running", "Running"]
    assert not any(one.type == "DisruptionTarget" for one in get(cluster, "slow").status.conditions)
    cluster.advance(4)  # it has two seconds at most
    assert phases(cluster, "slow", "quick") == ["Failed", "Failed"]
    assert state(get(cluster, "slow")) == "ended 137"


def test_pressure_condition_lasts_five_minutes_without_further_evictions(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    short_of(cluster, "pid")
    assert phases(cluster, "pod") == ["Failed"]
    cluster.advance(60)
    short_of(cluster, None)
    assert condition(cluster, "PIDPressure") == "True"
    put(cluster, "early")
    assert get(cluster, "early").status.message == "Pod was rejected: The node had condition: [PIDPressure]. "
    cluster.advance(280)
    assert condition(cluster, "PIDPressure") == "True"
    cluster.advance(30)
    assert condition(cluster, "PIDPressure") == "False"
    put(cluster, "late")
    assert phases(cluster, "late") == ["Running"]


def test_soft_threshold_sets_the_condition_immediately(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    short_of(cluster, "memory:30s")
    assert (condition(cluster, "MemoryPressure"), phases(cluster, "pod")) == ("True", ["Running"])
    cluster.advance(25)
    assert phases(cluster, "pod") == ["Running"]
    cluster.advance(20)
    assert phases(cluster, "pod") == ["Failed"]


def test_soft_threshold_met_briefly_evicts_nothing(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    short_of(cluster, "memory:30s")
    cluster.advance(25)
    short_of(cluster, None)
    cluster.advance(60)
    assert phases(cluster, "pod") == ["Running"]


def test_lowest_priority_is_evicted_first_and_critical_pods_never(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.add(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        }
    )
    put(cluster, "critical", priority_class_name="system-node-critical", script={"memory": "1Gi"})
    put(cluster, "high", priority_class_name="high", script={"memory": "500Mi"})
    put(cluster, "low", script={"memory": "100Mi"})
    short_of(cluster, "memory")
    assert phases(cluster, "critical", "high", "low") == ["Running", "Running", "Failed"]
    cluster.advance(60)
    assert phases(cluster, "critical", "high") == ["Running", "Failed"]


def test_of_pods_within_requests_the_closest_to_them_is_evicted(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, "near", containers=guaranteed("1Gi"), script={"memory": "900Mi"})
    put(cluster, "far", containers=guaranteed("2Gi"), script={"memory": "1Gi"})
    short_of(cluster, "memory")
    assert phases(cluster, "near", "far") == ["Failed", "Running"]
    assert get(cluster, "near").status.message == LOW


def test_disk_pressure_evicts_the_pod_with_the_most_disk_usage(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, "writer", script={"storage": "2Gi"})
    put(cluster, "reader", script={"memory": "20Gi"})
    short_of(cluster, "disk")
    assert phases(cluster, "writer", "reader") == ["Failed", "Running"]
    assert get(cluster, "writer").status.message == (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10737418400, available: 5368709200. "
        "Container app was using 2Gi, request is 0, has larger consumption of ephemeral-storage. "
    )


def test_eviction_message_names_the_pod_with_pod_level_resources(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    whole = ResourceRequirements(requests={"memory": Quantity("250Mi")})
    both = (builders.container("first"), builders.container("second"))
    put(cluster, containers=both, resources=whole, script={"memory.first": "250Mi", "memory.second": "350Mi"})
    short_of(cluster, "memory")
    assert get(cluster).status.message == (
        f"{LOW}Pod pod was using 600Mi, request is 250Mi, has larger consumption of memory. "
        "Container first was using 250Mi, request is 0, has larger consumption of memory. "
        "Container second was using 350Mi, request is 0, has larger consumption of memory. "
    )


def test_pod_exceeding_its_storage_limit_is_evicted(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, "much", containers=guaranteed("1Gi", ephemeral_storage="1Gi"), script={"storage": "2Gi"})
    put(cluster, "little", containers=guaranteed("1Gi", ephemeral_storage="1Gi"), script={"storage": "1Gi"})
    cluster.advance(11)
    assert phases(cluster, "much", "little") == ["Failed", "Running"]
    status = get(cluster, "much").status
    assert status.reason == "Evicted"
    assert status.message == "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
    assert not any(one.type == "DisruptionTarget" for one in status.conditions)


def test_container_exceeding_its_storage_limit_evicts_its_pod(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    limits = [ResourceRequirements(limits={"ephemeral-storage": Quantity(text)}) for text in ("1Gi", "4Gi")]
    both = tuple(builders.container(name, resources=one) for name, one in zip(("a", "b"), limits, strict=True))
    put(cluster, containers=both, script={"storage.a": "2Gi"})
    cluster.advance(11)
    message = 'Container a exceeded its local ephemeral storage limit "1Gi". '
    assert (get(cluster).status.phase, get(cluster).status.message) == ("Failed", message)


def test_node_with_memory_pressure_rejects_best_effort_pods(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    short_of(cluster, "memory:1h")
    put(cluster, "careless")
    status = get(cluster, "careless").status
    assert (status.phase, status.reason) == ("Failed", "Evicted")
    assert status.message == "Pod was rejected: The node had condition: [MemoryPressure]. "
    put(cluster, "careful", containers=guaranteed("1Gi"))
    tolerant = Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists", effect="NoSchedule")
    put(cluster, "tolerant", tolerations=(tolerant,))
    other = Toleration(key="node.kubernetes.io/disk-pressure", operator="Exists", effect="NoSchedule")
    put(cluster, "otherwise", tolerations=(other,))
    assert phases(cluster, "careful", "tolerant", "otherwise") == ["Running", "Running", "Failed"]


@pytest.mark.parametrize("what", ["disk", "pid"])
def test_node_with_disk_or_pid_pressure_admits_critical_pods_only(cluster: Cluster, what: str) -> None:
    cluster.add_nodes(1)
    short_of(cluster, what)
    put(cluster, containers=guaranteed("1Gi"))
    type = {"disk": "DiskPressure", "pid": "PIDPressure"}[what]
    assert get(cluster).status.message == f"Pod was rejected: The node had condition: [{type}]. "
    put(cluster, "critical", priority_class_name="system-node-critical")
    assert phases(cluster, "critical") == ["Running"]
