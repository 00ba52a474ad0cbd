# SPDX-License-Identifier: Apache-2.0
"""Tests of usage of nodes and pods from two samples of the kubelets."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import ApiError
from kubeloop.api.pods.usage import NODES, PODS, ResourceUsage
from kubeloop.apiserver.kubelet_client.metrics_group import KubeletMetrics
from kubeloop.apiserver.kubelet_client.resource_metrics import NODE, parse_scrape, usage_between
from kubeloop.testing import Cluster, builders

WEB = ("default", "web", "app")


def page(cpu: float, memory: int = 2**20, *, at: str = "", started: float = 0.0) -> str:
    labels = 'container="app",namespace="default",pod="web"'
    return f"""# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{{{labels}}} {cpu}{at}
container_memory_working_set_bytes{{{labels}}} {memory}
container_start_time_seconds{{{labels}}} {started}
pod_cpu_usage_seconds_total{{namespace="default",pod="web"}} 99
node_cpu_usage_seconds_total {cpu * 2}
node_memory_working_set_bytes {memory * 2}
scrape_error NaN and more
resource_scrape_error 0
"""


def test_usage_is_computed_between_two_samples() -> None:
    before, now = parse_scrape(page(10.0), 100.0), parse_scrape(page(13.0), 115.0)
    assert usage_between(before, now, WEB) == ResourceUsage(200_000_000, 2**20)
    assert usage_between(before, now, NODE) == ResourceUsage(400_000_000, 2**21)


def test_timestamps_of_the_kubelet_are_used() -> None:
    before, now = parse_scrape(page(10.0, at=" 100000"), 107.0), parse_scrape(page(13.0, at=" 110000"), 122.0)
    assert usage_between(before, now, WEB) == ResourceUsage(300_000_000, 2**20)


def test_single_sample_uses_the_start_time() -> None:
    assert usage_between(None, parse_scrape(page(3.0, started=100.0), 115.0), WEB) == ResourceUsage(200_000_000, 2**20)
    assert usage_between(parse_scrape("", 101.0), parse_scrape(page(3.0, started=100.0), 115.0), WEB) is None
    assert usage_between(None, parse_scrape(page(3.0, started=100.0), 115.0), NODE) is None


def test_restarted_container_is_not_compared_with_its_past() -> None:
    before, now = parse_scrape(page(90.0, started=1.0), 100.0), parse_scrape(page(1.0, started=105.0), 115.0)
    assert usage_between(before, now, WEB) == ResourceUsage(100_000_000, 2**20)
    assert usage_between(before, now, NODE) is None


class Kubelets:
    """Nodes with scripted metrics."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}
        self.asked: list[str] = []

    async def get_text(self, name: str, target: str, seconds: float) -> str:
        self.asked.append(f"{name}{target}")
        if name not in self.said:
            raise ApiError("connection refused")
        return self.said[name]


class FakeRegistry:
    resources = (NODES, PODS)

    def objects(self, resource: Any, namespace: str, name: str = "") -> list[dict[str, Any]]:
        return [{"metadata": {"name": "n1"}}] if resource is NODES and name in ("", "n1") else []


@pytest.fixture
def kubelets() -> Kubelets:
    return Kubelets()


def names(group: KubeletMetrics, resource: Any, *asked: str) -> list[str]:
    return [one["metadata"]["name"] for one in group.objects(resource, *(asked or ("",)))]


def test_group_has_all_containers_with_two_samples(cluster: Cluster, kubelets: Kubelets) -> None:
    cluster.add_nodes(1)
    cluster.add(builders.node("far"))
    cluster.add(builders.node("silent"))
    cluster.add(builders.pod("web", node="far"))
    asked: Any = kubelets
    group = KubeletMetrics(cluster.server.registry, asked, cluster.clock, FakeRegistry())
    for cpu in (10.0, 13.0):
        kubelets.said["far"] = page(cpu)
        cluster.run(group.scrape_all())
        cluster.advance(15)
    assert kubelets.asked == ["far/metrics/resource", "silent/metrics/resource"] * 2
    assert names(group, NODES) == ["n1", "far"]
    assert [names(group, NODES, "", one) for one in ("n1", "far", "silent")] == [["n1"], ["far"], []]
    (shown,) = group.objects(PODS, "default")
    assert shown["containers"] == [{"name": "app", "usage": {"cpu": "200000000n", "memory": "1024Ki"}}]
    assert shown["window"] == "15.000s"
    assert names(group, PODS, "other") == []


def test_silent_or_deleted_node_is_removed(cluster: Cluster, kubelets: Kubelets) -> None:
    cluster.add(builders.node("far"))
    asked: Any = kubelets
    group = KubeletMetrics(cluster.server.registry, asked, cluster.clock)
    for _ in range(2):
        kubelets.said["far"] = page(cluster.clock.now().timestamp())
        cluster.run(group.scrape_all())
        cluster.advance(15)
    assert names(group, NODES) == ["far"]
    kubelets.said.clear()
    cluster.run(group.scrape_all())
    assert names(group, NODES) == []
