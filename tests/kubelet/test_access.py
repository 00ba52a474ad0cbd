"""Logs of containers through the API server, and what nodes and pods use."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import BadRequest, NotFound, ServiceUnavailable
from kubeloop.api.generated.core_v1 import ResourceRequirements
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.node_status.served_nodes import STATE_ANNOTATION
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import put, runs


def log(cluster: Cluster, pod: str = "pod", **options: Any) -> list[str]:
    async def read() -> list[str]:
        return [line async for line in cluster.async_client.logs(pod, "default", **options)]

    return cluster.run(read())


def test_log_is_what_a_command_wrote_by_now(cluster: Cluster) -> None:
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


def test_followed_log_goes_on_until_the_container_ends(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    command = "echo one; sleep 10; echo two; sleep 5; exit 0"
    put(cluster, restart_policy="Never", containers=(runs("sh", "-c", command),))
    began = cluster.clock.monotonic()
    assert log(cluster, follow=True) == ["one", "two"]
    assert 15 <= cluster.clock.monotonic() - began < 17


def test_log_of_the_run_before_the_last_restart(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(runs("sh", "-c", "echo $NOTHING hello; sleep 5; exit 1"),))
    with pytest.raises(BadRequest, match='previous terminated container "app" in pod "pod" not found'):
        log(cluster, previous=True)
    cluster.advance(6)
    assert log(cluster, previous=True) == ["$NOTHING hello"]


def test_container_that_has_not_started_has_no_log(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, script={"start-delay": "1m"})
    with pytest.raises(BadRequest, match='container "app" in pod "pod" is waiting to start: ContainerCreating'):
        log(cluster)


def test_log_of_a_pod_whose_node_is_cut_off_cannot_be_had(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    assert log(cluster) == ["simulated container app of pod default/pod runs registry.example/app:1"]
    cluster.client.patch("nodes", "n1", {"metadata": {"annotations": {STATE_ANNOTATION: "partitioned"}}})
    cluster.settle()
    with pytest.raises(ServiceUnavailable):
        log(cluster)


def test_usage_of_pods_is_half_of_what_they_ask_for_unless_it_is_scripted(cluster: Cluster) -> None:
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


def test_usage_is_chosen_by_labels(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    for name in ("a", "b"):
        cluster.client.create(builders.pod(name, node="n1", labels={"name": name}))
    cluster.settle()
    found = cluster.client.list("pods.metrics.k8s.io/v1beta1", "default", labels="name=b").items
    assert [one["metadata"]["name"] for one in found] == ["b"]
