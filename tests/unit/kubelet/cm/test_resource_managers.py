# SPDX-License-Identifier: Apache-2.0
"""Resource managers: admission, options of containers, and release."""

from __future__ import annotations

import asyncio
from collections.abc import Set

import pytest

from kubeloop.api.generated.core_v1 import Container, NodeStatus, Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.cm.resource_managers import ResourceManager, ResourceManagers
from kubeloop.kubelet.cm.run_options import RunOptions
from kubeloop.kubelet.cm.topology.hints import ResourceAllocationError, ResourceHints, unexpected_admission_error
from kubeloop.kubelet.cm.topology.manager import AffinityStore, TopologyManager


class Recorder(ResourceManager):
    """Manager that records its calls, and refuses one container."""

    def __init__(self, options: RunOptions, refused: str = "") -> None:
        self.calls: list[str] = []
        self.options = options
        self.refused = refused

    def get_topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
        return {}

    def get_pod_topology_hints(self, pod: Pod) -> ResourceHints:
        return {}

    async def allocate(self, pod: Pod, container: Container) -> None:
        self.calls.append(f"allocate {container.name}")
        if container.name == self.refused:
            raise unexpected_admission_error("no room")

    def retain_pods(self, uids: Set[str]) -> None:
        self.calls.append(f"retain {sorted(uids)}")

    async def prepare(self, pod: Pod) -> None:
        self.calls.append("prepare")

    async def run_options(self, pod: Pod, container: Container) -> RunOptions:
        return self.options

    async def unprepare(self, pod: Pod) -> None:
        self.calls.append("unprepare")

    def remove_pod(self, uid: str) -> None:
        self.calls.append(f"remove {uid}")


def pod(uid: str) -> Pod:
    containers = (Container(name="a"), Container(name="b"))
    return Pod(
        metadata=ObjectMeta(uid=uid), spec=PodSpec(init_containers=(Container(name="i"),), containers=containers)
    )


def managers(*providers: Recorder) -> ResourceManagers:
    topology = TopologyManager(AffinityStore(), providers)
    return ResourceManagers(topology, (*providers, ResourceManager()), lambda: [pod("old")])


def test_each_container_is_allocated_after_stale_pods_are_released() -> None:
    one = Recorder(RunOptions())
    asyncio.run(managers(one).admit(pod("new")))
    assert one.calls == ["retain ['new', 'old']", "allocate i", "allocate a", "allocate b"]


def test_a_provider_rejects_a_pod_with_its_reason() -> None:
    first, second = Recorder(RunOptions()), Recorder(RunOptions(), refused="a")
    with pytest.raises(ResourceAllocationError) as caught:
        asyncio.run(managers(first, second).admit(pod("new")))
    assert (caught.value.reason, str(caught.value)) == (
        "UnexpectedAdmissionError",
        "Allocate failed due to no room, which is unexpected",
    )
    assert first.calls[-1] == second.calls[-1] == "allocate a"


def test_options_of_all_managers_are_merged() -> None:
    found = managers(
        Recorder(RunOptions(environment={"A": "1", "B": "1"}, cpuset_cpus="1", has_exclusive_cpus=True)),
        Recorder(RunOptions(environment={"B": "2"}, cpuset_mems="0")),
    )
    given = pod("new")
    options = asyncio.run(found.run_options(given, Container(name="a")))
    assert options == RunOptions(
        environment={"A": "1", "B": "2"}, cpuset_cpus="1", cpuset_mems="0", has_exclusive_cpus=True
    )


def test_a_terminated_pod_is_released_after_its_resources_are_unprepared() -> None:
    one = Recorder(RunOptions())
    found = managers(one)

    async def run() -> None:
        await found.prepare(pod("new"))
        await found.unprepare(pod("new"))

    asyncio.run(run())
    assert one.calls == ["prepare", "unprepare", "remove new"]


def test_managers_without_effect_change_nothing() -> None:
    found = ResourceManagers(TopologyManager(AffinityStore(), ()), (ResourceManager(),), list)
    status = NodeStatus(capacity={"cpu": Quantity("1")})
    assert found.set_node_status(status) is status
    assert found.tasks() == ()
    assert not found.has_exclusive_cpus(pod("new"))
    assert asyncio.run(found.run_options(pod("new"), Container(name="a"))) == RunOptions()
