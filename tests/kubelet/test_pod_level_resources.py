# SPDX-License-Identifier: Apache-2.0
"""Pods that are sized as a whole, and what statuses say of the sizes of all pods."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Pod, ResourceRequirements
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.agent_config import NodeAgentConfig
from kubeloop.kubelet.node_status.registration import NodeShape
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import condition_tuple, get, new_agent, put
from tests.kubelet.test_resize import conditions, resize_events

Amounts = dict[str, str]


def sized(requests: Amounts | None = None, limits: Amounts | None = None) -> ResourceRequirements:
    return ResourceRequirements(
        requests={name: Quantity(text) for name, text in (requests or {}).items()},
        limits={name: Quantity(text) for name, text in (limits or {}).items()},
    )


def of_pod(pod: Pod) -> tuple[Amounts, Amounts, Amounts]:
    """Return allocated, actual and maximum resources."""
    has = pod.status.resources
    assert has is not None
    return dict(pod.status.allocated_resources), dict(has.requests), dict(has.limits)


def two(*sizes: ResourceRequirements) -> tuple[Any, ...]:
    return tuple(builders.container(name, resources=one) for name, one in zip("ab", sizes, strict=True))


def test_pod_without_requests_has_empty_resources(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    pod = get(cluster)
    assert of_pod(pod) == ({}, {}, {})
    assert pod.status.container_statuses[0].resources == ResourceRequirements()


SMALL, LARGE = {"cpu": "100m", "memory": "64Mi"}, {"cpu": "400m", "memory": "128Mi"}


def test_container_resources_are_added_up_for_the_pod(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=two(sized(SMALL, LARGE), sized(SMALL, LARGE)))
    both, most = {"cpu": "200m", "memory": "128Mi"}, {"cpu": "800m", "memory": "256Mi"}
    assert of_pod(get(cluster)) == (both, both, most)


def test_pod_limit_requires_limits_of_all_containers(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=two(sized(SMALL, LARGE), sized(SMALL, {"memory": "1Gi"})))
    assert of_pod(get(cluster))[2] == {"memory": "1152Mi"}


def test_pending_pod_has_its_full_resources(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    script = {"start-delay": "10s"}
    size = sized({**SMALL, "ephemeral-storage": "1Gi"}, {"cpu": "400m"})
    put(cluster, containers=two(size, sized()), script=script)
    given = {**SMALL, "ephemeral-storage": "1Gi"}
    assert of_pod(get(cluster)) == (given, given, {"cpu": "400m"})
    cluster.advance(11)
    assert of_pod(get(cluster)) == (given, SMALL, {})


@pytest.mark.parametrize(
    ("whole", "qos"),
    [(sized(SMALL, SMALL), "Guaranteed"), (sized(SMALL, LARGE), "Burstable"), (sized({"cpu": "1"}), "Burstable")],
)
def test_pod_level_resources_are_reported_and_set_the_qos_class(
    cluster: Cluster, whole: ResourceRequirements, qos: str
) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=two(sized(), sized()), resources=whole)
    pod = get(cluster)
    assert (of_pod(pod), pod.status.qos_class) == ((whole.requests, whole.requests, whole.limits), qos)


def test_pod_level_requests_count_for_admission(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(cpu="1"))
    put(cluster, resources=sized({"cpu": "800m"}))
    put(cluster, "other", resources=sized({"cpu": "300m"}))
    assert get(cluster).status.phase == "Running"
    why = "Node didn't have enough resource: cpu, requested: 300, used: 800, capacity: 1000"
    assert get(cluster, "other").status.message == f"Pod was rejected: {why}"


def resize(cluster: Cluster, cpu: str) -> None:
    patch = {"spec": {"resources": {"requests": {"cpu": cpu}}}}
    cluster.client.patch(
        Pod, "pod", patch, "default", type="application/strategic-merge-patch+json", subresource="resize"
    )
    cluster.settle()


def test_pod_level_resources_can_be_resized(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(cpu="1"))
    put(cluster, resources=sized({"cpu": "500m"}))
    resize(cluster, "800m")
    pod = get(cluster)
    assert of_pod(pod) == ({"cpu": "800m"}, {"cpu": "800m"}, {})
    assert (conditions(pod), pod.status.container_statuses[0].restart_count) == ({}, 0)
    put(cluster, "other", resources=sized({"cpu": "300m"}))
    assert get(cluster, "other").status.reason == "OutOfcpu"
    assert [reason for reason, _ in resize_events(cluster)] == ["ResizeStarted", "ResizeCompleted"]


def test_pod_level_resize_waits_for_capacity(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1, shape=NodeShape(cpu="1"))
    put(cluster, resources=sized({"cpu": "500m"}))
    put(cluster, "other", resources=sized({"cpu": "300m"}))
    resize(cluster, "800m")
    short = "Node didn't have enough resource: cpu, requested: 800, used: 300, capacity: 1000"
    assert condition_tuple(get(cluster), "PodResizePending") == ("True", "Deferred", short)
    assert of_pod(get(cluster)) == ({"cpu": "500m"}, {"cpu": "500m"}, {})
    for loop in fleet.loops:
        cluster.stop(loop)
    before = get(cluster).status
    new_agent(cluster, NodeAgentConfig(count=1))
    assert get(cluster).status == before
    cluster.client.delete(Pod, "other", "default")
    cluster.advance(5)
    assert of_pod(get(cluster)) == ({"cpu": "800m"}, {"cpu": "800m"}, {})
