# SPDX-License-Identifier: Apache-2.0
"""Pods that are given other sizes while they run."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import ContainerResizePolicy, Event, Pod, ResourceRequirements
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.agent_config import NodeAgentConfig
from kubeloop.kubelet.node_status.registration import NodeShape
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import container, get, new_agent, put

SMALL = {"cpu": Quantity("500m"), "memory": Quantity("256Mi")}


def sized(cpu: str = "500m", **fields: Any) -> Any:
    requests = {**SMALL, "cpu": Quantity(cpu)}
    return builders.container(resources=ResourceRequirements(requests=requests), **fields)


def resize(cluster: Cluster, cpu: str, name: str = "pod") -> None:
    patch = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]}}
    cluster.client.patch(
        Pod, name, patch, "default", type="application/strategic-merge-patch+json", subresource="resize"
    )
    cluster.settle()


def conditions(pod: Pod) -> dict[str, tuple[str, str, str, int]]:
    return {
        one.type: (one.status, one.reason, one.message, one.observed_generation)
        for one in pod.status.conditions
        if one.type.startswith("PodResize")
    }


def sizes(pod: Pod) -> tuple[str, str]:
    """Return allocated and actual resources."""
    status = container(pod)
    assert status.resources is not None
    return status.allocated_resources["cpu"], status.resources.requests["cpu"]


def resize_events(cluster: Cluster) -> list[tuple[str, str]]:
    cluster.advance(1)
    events = cluster.client.list(Event, "default").items
    return [(one.reason, one.message) for one in events if one.reason.startswith("Resize")]


def test_container_is_resized_without_restart(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(sized(),))
    before = container(get(cluster))
    resize(cluster, "800m")
    pod = get(cluster)
    assert sizes(pod) == ("800m", "800m")
    assert (container(pod).container_id, container(pod).restart_count) == (before.container_id, 0)
    assert (conditions(pod), pod.status.observed_generation) == ({}, 2)
    shown = '{"containers":[{"name":"app","resources":{"requests":{"cpu":"800m","memory":"256Mi"}}}],"generation":2}'
    assert resize_events(cluster) == [
        ("ResizeStarted", f"Pod resize started: {shown}"),
        ("ResizeCompleted", f"Pod resize completed: {shown}"),
    ]


def test_slow_resize_is_in_progress_until_done(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(sized(),), script={"resize-delay": "10s"})
    resize(cluster, "800m")
    assert sizes(get(cluster)) == ("800m", "500m")
    assert conditions(get(cluster)) == {"PodResizeInProgress": ("True", "", "", 2)}
    cluster.advance(11)
    assert sizes(get(cluster)) == ("800m", "800m")
    assert conditions(get(cluster)) == {}


def test_resize_without_capacity_is_deferred(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(cpu="1"))
    put(cluster, containers=(sized("500m"),))
    put(cluster, "other", containers=(sized("400m"),))
    resize(cluster, "800m")
    short = "Node didn't have enough resource: cpu, requested: 800, used: 400, capacity: 1000"
    assert sizes(get(cluster)) == ("500m", "500m")
    assert conditions(get(cluster)) == {"PodResizePending": ("True", "Deferred", short, 2)}
    ((reason, message),) = resize_events(cluster)
    asked = '{"name":"app","resources":{"requests":{"cpu":"800m","memory":"256Mi"}}}'
    assert reason == "ResizeDeferred"
    assert message == f'Pod resize OutOfcpu: {{"containers":[{asked}],"generation":2,"error":"{short}"}}'
    cluster.client.delete(Pod, "other", "default")
    cluster.settle()
    cluster.advance(5)
    assert sizes(get(cluster)) == ("800m", "800m")
    assert conditions(get(cluster)) == {}


def test_deferred_resizes_are_ordered_by_priority(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(cpu="1"))
    cluster.add(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        }
    )
    put(cluster, "low", containers=(sized("200m"),))
    put(cluster, "high", containers=(sized("200m"),), priority_class_name="high")
    put(cluster, "other", containers=(sized("600m"),))
    resize(cluster, "700m", "low")
    resize(cluster, "700m", "high")
    cluster.client.delete(Pod, "other", "default")
    cluster.settle()
    cluster.advance(5)
    assert (sizes(get(cluster, "low")), sizes(get(cluster, "high"))) == (("200m", "200m"), ("700m", "700m"))


def test_reverted_resize_is_not_pending(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(cpu="1"))
    put(cluster, containers=(sized("500m"),))
    put(cluster, "other", containers=(sized("400m"),))
    resize(cluster, "800m")
    resize(cluster, "500m")
    assert conditions(get(cluster)) == {}
    assert sizes(get(cluster)) == ("500m", "500m")


def test_released_resources_are_available_to_others(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(cpu="1"))
    put(cluster, containers=(sized("800m"),))
    resize(cluster, "200m")
    put(cluster, "other", containers=(sized("800m"),))
    assert get(cluster, "other").status.phase == "Running"
    put(cluster, "third", containers=(sized("100m"),))
    assert get(cluster, "third").status.reason == "OutOfcpu"


def test_container_with_restart_policy_is_restarted_on_resize(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    policy = (ContainerResizePolicy(resource_name="cpu", restart_policy="RestartContainer"),)
    put(cluster, containers=(sized(resize_policy=policy),))
    resize(cluster, "800m")
    pod = get(cluster)
    assert sizes(pod) == ("800m", "800m")
    assert container(pod).restart_count == 1
    assert conditions(pod) == {}


def test_restarted_kubelet_restores_allocated_resources(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1, shape=NodeShape(cpu="1"))
    put(cluster, containers=(sized("500m"),))
    put(cluster, "other", containers=(sized("400m"),))
    resize(cluster, "800m")
    for loop in fleet.loops:
        cluster.stop(loop)
    before = get(cluster).status
    new_agent(cluster, NodeAgentConfig(count=1))
    assert get(cluster).status == before
    put(cluster, "third", containers=(sized("200m"),))
    assert get(cluster, "third").status.reason == "OutOfcpu"
    cluster.client.delete(Pod, "other", "default")
    cluster.settle()
    cluster.advance(5)
    assert sizes(get(cluster)) == ("800m", "800m")
