# SPDX-License-Identifier: Apache-2.0
"""PodResources API, read by a client of the real gRPC library."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest

from kubeloop.api.generated.core_v1 import Container, Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.grpc.message import decode_message, encode_message
from kubeloop.kubelet.cm.devices.messages import NUMANode, TopologyInfo
from kubeloop.kubelet.podresources import messages
from kubeloop.kubelet.podresources.providers import PodResourcesProviders
from kubeloop.kubelet.podresources.server import PodResourcesMetrics, PodResourcesServer, RequestLimiter
from kubeloop.metrics import MetricRegistry
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.kubelet.cm.devices.fakes import SetClock

WIDGET = messages.ContainerDevices(
    resource_name="example.com/widget", device_ids=("w1",), topology=TopologyInfo(nodes=(NUMANode(id=1),))
)
MEMORY = messages.ContainerMemory(memory_type="memory", size=1 << 63, topology=TopologyInfo(nodes=(NUMANode(id=0),)))
CLAIM = messages.DynamicResource(claim_name="claim", claim_namespace="ns")


class FakeManagers:
    """All providers; the container c of the pod with UID 1 has everything."""

    def get_devices(self, uid: str, container: str) -> tuple[messages.ContainerDevices, ...]:
        return (WIDGET,) if (uid, container) == ("1", "c") else ()

    def get_allocatable_devices(self) -> tuple[messages.ContainerDevices, ...]:
        return (WIDGET,)

    def get_cpus(self, pod: Pod, container: Container) -> tuple[int, ...]:
        return (0, 3) if (pod.metadata.uid, container.name) == ("1", "c") else ()

    def get_allocatable_cpus(self) -> tuple[int, ...]:
        return (0, 1, 2, 3)

    def get_memory(self, pod: Pod, container: Container) -> tuple[messages.ContainerMemory, ...]:
        return (MEMORY,) if container.name == "c" else ()

    def get_allocatable_memory(self) -> tuple[messages.ContainerMemory, ...]:
        return (MEMORY,)

    def get_dynamic_resources(self, pod: Pod, container: Container) -> tuple[messages.DynamicResource, ...]:
        return (CLAIM,) if container.name == "c" else ()


def pod(name: str, uid: str, *containers: str) -> Pod:
    init = (Container(name="init"), Container(name="sidecar", restart_policy="Always"))
    spec = PodSpec(init_containers=init, containers=tuple(Container(name=one) for one in containers))
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=uid), spec=spec)


Story = Callable[[grpc.aio.Channel, SetClock, MetricRegistry], Awaitable[None]]


def run(tmp_path: Path, story: Story) -> None:
    async def whole() -> None:
        clock, registry, managers = SetClock(), MetricRegistry(), FakeManagers()
        pods = [pod("one", "1", "c", "d"), pod("two", "2", "e")]
        ended = pod("ended", "3", "c")
        providers = PodResourcesProviders(lambda: [*pods, ended], lambda: pods, managers, managers, managers, managers)
        folder = tmp_path / "pod-resources"
        server = PodResourcesServer(folder, providers, RequestLimiter(clock), PodResourcesMetrics(registry))
        await server.start()
        task = asyncio.create_task(server.run())
        async with (
            asyncio.timeout(GIVE_UP_SECONDS),
            grpc.aio.insecure_channel(f"unix://{folder / 'kubelet.sock'}") as channel,
        ):
            await story(channel, clock, registry)
        task.cancel()
        await asyncio.wait((task,))
        assert list(folder.iterdir()) == []

    asyncio.run(whole())


def test_pods_are_listed_with_their_resources(tmp_path: Path) -> None:
    async def story(channel: grpc.aio.Channel, clock: SetClock, registry: MetricRegistry) -> None:
        content = await channel.unary_unary("/v1.PodResourcesLister/List")(b"")
        found = decode_message(messages.ListPodResourcesResponse, content).pod_resources
        assert [(one.name, one.namespace, [each.name for each in one.containers]) for one in found] == [
            ("one", "ns", ["sidecar", "c", "d"]),
            ("two", "ns", ["sidecar", "e"]),
        ]
        assert found[0].containers[1] == messages.ContainerResources(
            name="c", devices=(WIDGET,), cpu_ids=(0, 3), memory=(MEMORY,), dynamic_resources=(CLAIM,)
        )
        assert found[0].containers[2] == messages.ContainerResources(name="d")
        page = registry.render()
        assert 'kubelet_pod_resources_endpoint_requests_total{server_api_version="v1"} 1' in page
        assert 'kubelet_pod_resources_endpoint_requests_list{server_api_version="v1"} 1' in page

    run(tmp_path, story)


def test_one_pod_is_found_by_its_name(tmp_path: Path) -> None:
    async def story(channel: grpc.aio.Channel, clock: SetClock, registry: MetricRegistry) -> None:
        get = channel.unary_unary("/v1.PodResourcesLister/Get")
        request = encode_message(messages.GetPodResourcesRequest(pod_name="two", pod_namespace="ns"))
        found = decode_message(messages.GetPodResourcesResponse, await get(request)).pod_resources
        assert found is not None
        assert found.name == "two"
        await get(encode_message(messages.GetPodResourcesRequest(pod_name="ended", pod_namespace="ns")))
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await get(encode_message(messages.GetPodResourcesRequest(pod_name="two", pod_namespace="other")))
        assert raised.value.code() is grpc.StatusCode.UNKNOWN
        assert raised.value.details() == "pod two in namespace other not found"
        page = registry.render()
        assert 'kubelet_pod_resources_endpoint_requests_get{server_api_version="v1"} 3' in page
        assert 'kubelet_pod_resources_endpoint_errors_get{server_api_version="v1"} 1' in page

    run(tmp_path, story)


def test_the_resources_of_the_node(tmp_path: Path) -> None:
    async def story(channel: grpc.aio.Channel, clock: SetClock, registry: MetricRegistry) -> None:
        content = await channel.unary_unary("/v1.PodResourcesLister/GetAllocatableResources")(b"")
        assert decode_message(messages.AllocatableResourcesResponse, content) == messages.AllocatableResourcesResponse(
            devices=(WIDGET,), cpu_ids=(0, 1, 2, 3), memory=(MEMORY,)
        )
        assert 'kubelet_pod_resources_endpoint_requests_get_allocatable{server_api_version="v1"} 1' in registry.render()

    run(tmp_path, story)


def test_the_alpha_version_lists_devices_of_all_pods(tmp_path: Path) -> None:
    async def story(channel: grpc.aio.Channel, clock: SetClock, registry: MetricRegistry) -> None:
        content = await channel.unary_unary("/v1alpha1.PodResourcesLister/List")(b"")
        found = decode_message(messages.ListPodResourcesResponse, content).pod_resources
        assert [one.name for one in found] == ["one", "two", "ended"]
        widget = messages.ContainerDevices(resource_name="example.com/widget", device_ids=("w1",))
        assert found[0].containers == (
            messages.ContainerResources(name="c", devices=(widget,)),
            messages.ContainerResources(name="d"),
        )
        assert 'kubelet_pod_resources_endpoint_requests_total{server_api_version="v1alpha1"} 1' in registry.render()

    run(tmp_path, story)


def test_more_than_a_burst_is_refused_until_time_has_passed(tmp_path: Path) -> None:
    async def story(channel: grpc.aio.Channel, clock: SetClock, registry: MetricRegistry) -> None:
        list_pods = channel.unary_unary("/v1.PodResourcesLister/List")
        for _ in range(10):
            await list_pods(b"")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await list_pods(b"")
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert raised.value.details() == "rejected by rate limit"
        clock.seconds += 0.015
        await list_pods(b"")
        with pytest.raises(grpc.aio.AioRpcError):
            await list_pods(b"")

    run(tmp_path, story)
