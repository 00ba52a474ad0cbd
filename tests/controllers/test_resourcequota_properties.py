# SPDX-License-Identifier: Apache-2.0
"""Property tests of quotas: enforced under faults, and usage converges."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import HealthCheck, given, settings

from kubeloop.api.errors import ApiError, Forbidden
from kubeloop.api.generated.core_v1 import ConfigMap, Pod, ResourceQuota
from kubeloop.controllers.resourcequota import wire
from kubeloop.testing import Cluster, config_map
from tests.controllers.faults import NETWORK, ControllerProcess, Step, steps

NS = "default"
HARD = {"pods": "3", "requests.cpu": "1", "count/configmaps": "2"}
TROUBLE = (*NETWORK, "lose patch", "crash")


class ResourceQuotaHarness:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._made = 0
        meta = {"name": "q", "namespace": NS}
        cluster.client.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": HARD}})
        self._process = ControllerProcess(cluster, wire)

    def take(self, step: Step) -> None:
        name, number = step
        self._made += 1
        match name:
            case "pod":
                self._try(_pod(f"p{self._made}", number))
            case "config map":
                self._try(config_map(f"c{self._made}"))
            case "end":
                for one in self._living()[: number % 3]:
                    ended = {"status": {"phase": "Failed"}}
                    self.cluster.client.patch(Pod, one.metadata.name, ended, NS, subresource="status")
            case "delete":
                for kind in (Pod, ConfigMap):
                    for one in self.cluster.client.list(kind, NS).items[: number % 3]:
                        self.cluster.client.delete(kind, one.metadata.name, NS)
            case "wait":
                self.cluster.advance(number)
            case _:
                self._process.disturb(name, number)
        self._check_limits()

    def _try(self, obj: Any) -> None:
        with contextlib.suppress(Forbidden):
            self.cluster.client.create(obj)

    def _living(self) -> list[Any]:
        return [one for one in self.cluster.client.list(Pod, NS).items if one.status.phase != "Failed"]

    def present(self) -> tuple[int, int, int]:
        """Pods, thousandths of a processor, config maps."""
        pods = self._living()
        cpu = sum(int(one.spec.containers[0].resources.requests["cpu"].removesuffix("m")) for one in pods)
        return len(pods), cpu, len(self.cluster.client.list(ConfigMap, NS).items)

    def _check_limits(self) -> None:
        pods, cpu, maps = self.present()
        assert pods <= 3
        assert cpu <= 1000
        assert maps <= 2

    def told(self) -> tuple[int, int, int]:
        used = self.cluster.client.get(ResourceQuota, "q", NS).status.used
        cpu = used["requests.cpu"]
        milli = int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
        return int(used["pods"]), milli, int(used["count/configmaps"])


def _pod(name: str, number: int) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": f"{100 + number * 50}m"}}}
    meta = {"name": name, "namespace": NS}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps("pod", "pod", "config map", "end", "delete", "wait", *TROUBLE))
def test_quotas_are_never_exceeded_and_converge(taken: list[Step]) -> None:
    with Cluster() as cluster:
        harness = ResourceQuotaHarness(cluster)
        for step in taken:
            try:
                harness.take(step)
            except ApiError as error:  # the test's own calls are not disturbed
                raise AssertionError(step) from error
        cluster.faults.clear()
        cluster.advance(minutes=6)
        assert harness.told() == harness.present()
