# SPDX-License-Identifier: Apache-2.0
"""Logs of containers through the API server, and what nodes and pods use."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import BadRequest, NotFound, ServiceUnavailable
from kubeloop.api.generated.apiregistration_v1 import APIService, APIServiceSpec, ServiceReference
from kubeloop.api.generated.core_v1 import ResourceRequirements
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.node_status.served_nodes import STATE_ANNOTATION
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import put, runs


def log(cluster: Cluster, pod: str = "pod", **options: Any) -> list[str]:
    async def read() -> list[str]:
        return [line async for line in cluster.async_client.stream_logs(pod, "default", **options)]

    return cluster.run(read())


def test_log_has_the_output_so_far(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(runs("sh", "-c", "echo one; sleep 10; echo two; sleep 10; echo three; sleep 1000"),))
    assert log(cluster) == ["one"]
    cluster.advance(11)
    assert log(cluster) == ["one", "two"]
    assert log(cluster, tail_lines=1) == ["two"]
    assert log(cluster, since_seconds=5) == ["two"]
    assert log(cluster, tail_lines=0) == []
    assert log(cluster, limit_bytes=5) == ["one", "t"]
    assert log(cluster, timestamps=True)[0] == "2026-01-01T00:00:00.000000000Z one"


def test_followed_log_continues_until_the_container_ends(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    command = "echo one; sleep 10; echo two; sleep 5; exit 0"
    put(cluster, restart_policy="Never", containers=(runs("sh", "-c", command),))
    began = cluster.clock.monotonic()
    assert log(cluster, follow=True) == ["one", "two"]
    assert 15 <= cluster.clock.monotonic() - began < 17


def test_previous_log_is_of_the_run_before_the_last_restart(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(runs("sh", "-c", "echo $NOTHING hello; sleep 5; exit 1"),))
    with pytest.raises(BadRequest, match='previous terminated container "app" in pod "pod" not found'):
        log(cluster, previous=True)
    cluster.advance(6)
    assert log(cluster, previous=True) == ["$NOTHING hello"]


def test_log_of_a_container_that_has_not_started_is_an_error(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, script={"start-delay": "1m"})
    with pytest.raises(BadRequest, match='container "app" in pod "pod" is waiting to start: ContainerCreating'):
        log(cluster)


def test_log_of_a_pod_on_a_partitioned_node_is_unavailable(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    assert log(cluster) == ["simulated container app of pod default/pod runs registry.example/app:1"]
    cluster.client.patch("nodes", "n1", {"metadata": {"annotations": {STATE_ANNOTATION: "partitioned"}}})
    cluster.settle()
    with pytest.raises(ServiceUnavailable):
        log(cluster)


def test_pod_usage_is_half_of_its_requests_unless_scripted(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    asks = ResourceRequirements(requests={"cpu": Quantity("1"), "memory": Quantity("1Gi")})
    put(cluster, "plain", containers=(builders.container(resources=asks),))
    put(cluster, "busy", node="n2", script={"cpu": "3", "memory": "10Mi"})
    put(cluster, "done", restart_policy="Never", containers=(runs("true"),))
    usage = {
        one["metadata"]["name"]: one["containers"][0]["usage"]
        for one in cluster.client.list("pods.metrics.k8s.io/v1beta1", "default").items
    }
    assert usage == {
        "plain": {"cpu": "500000000n", "memory": "524288Ki"},
        "busy": {"cpu": "3000000000n", "memory": "10240Ki"},
    }
    node = cluster.client.get("nodes.metrics.k8s.io/v1beta1", "n2")
    assert node["usage"] == {"cpu": "3050000000n", "memory": "272384Ki"}
    with pytest.raises(NotFound):
        cluster.client.get("pods.metrics.k8s.io/v1beta1", "done", "default")


def test_the_group_of_metrics_is_a_local_api_service(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.settle()
    found = cluster.client.get(APIService, "v1beta1.metrics.k8s.io")
    assert found.spec.service is None
    assert (found.spec.group_priority_minimum, found.spec.version_priority) == (100, 100)
    (condition,) = found.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Available", "True", "Local")


def test_an_api_service_of_a_metrics_server_is_left_alone(cluster: Cluster) -> None:
    service = ServiceReference(namespace="kube-system", name="metrics-server", port=443)
    spec = APIServiceSpec(
        group="metrics.k8s.io", version="v1beta1", service=service, group_priority_minimum=100, version_priority=100,
        insecure_skip_tls_verify=True,
    )  # fmt: skip
    cluster.client.create(APIService(metadata=ObjectMeta(name="v1beta1.metrics.k8s.io"), spec=spec))
    cluster.add_nodes(1)
    cluster.settle()
    assert cluster.client.get(APIService, "v1beta1.metrics.k8s.io").spec.service == spec.service


def test_usage_rules_match_labels(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    for name in ("a", "b"):
        cluster.client.create(builders.pod(name, node="n1", labels={"name": name}))
    cluster.settle()
    found = cluster.client.list("pods.metrics.k8s.io/v1beta1", "default", labels="name=b").items
    assert [one["metadata"]["name"] for one in found] == ["b"]
