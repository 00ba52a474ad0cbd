# SPDX-License-Identifier: Apache-2.0
"""Tests of the scheduler's `/metrics/resources`."""

from __future__ import annotations

from typing import Any

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.metrics import MetricRegistry
from kubeloop.scheduler.status.pod_resources import PATH, register_pod_resources


def pod(name: str, phase: str = "Running", **spec: Any) -> Pod:
    resources = {"requests": {"cpu": "250m", "hugepages-2Mi": "4Mi"}, "limits": {"memory": "1Gi", "example.com/g": "2"}}
    container = {"name": "c", "image": "i", "resources": resources}
    body = {"containers": [container], "schedulerName": "default-scheduler", **spec}
    return from_plain({"metadata": {"name": name, "namespace": "n"}, "spec": body, "status": {"phase": phase}}, Pod)


def lines_of(*pods: Pod) -> list[str]:
    registry = MetricRegistry()
    register_pod_resources(registry, lambda: pods)
    assert registry.names == frozenset()
    return [one for one in registry.pages[PATH].render().splitlines() if not one.startswith("#")]


def test_requests_and_limits_have_the_pod_and_a_unit() -> None:
    def line(kind: str, resource: str, unit: str, value: str) -> str:
        place = f'namespace="n",node="node",pod="p",priority="5",resource="{resource}"'
        return f'kube_pod_resource_{kind}{{{place},scheduler="default-scheduler",unit="{unit}"}} {value}'

    assert sorted(lines_of(pod("p", nodeName="node", priority=5))) == [
        line("limit", "example.com/g", "", "2"),
        line("limit", "memory", "bytes", "1.073741824e+09"),
        line("request", "cpu", "cores", "0.25"),
        line("request", "hugepages-2Mi", "bytes", "4.194304e+06"),
    ]


def test_pods_that_have_ended_are_left_out() -> None:
    assert lines_of(pod("done", "Succeeded", nodeName="node"), pod("failed", "Failed", nodeName="node")) == []
    assert len(lines_of(pod("pending", "Pending"))) == 4
