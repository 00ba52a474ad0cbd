# SPDX-License-Identifier: Apache-2.0
"""Device manager with plugins at real sockets: registration, allocation, health, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Set
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeloop.api.generated.core_v1 import Container, Node, NodeStatus, Pod, PodSpec, ResourceRequirements
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cm.devices.allocator import ContainerRef
from kubeloop.kubelet.cm.devices.checkpoint import CHECKPOINT_NAME
from kubeloop.kubelet.cm.devices.device_metrics import DevicePluginMetrics
from kubeloop.kubelet.cm.devices.manager import DeviceManager, DeviceManagerParts
from kubeloop.kubelet.cm.devices.messages import DevicePluginOptions
from kubeloop.kubelet.cm.resource_managers import RunOptionsError
from kubeloop.kubelet.cm.topology.hints import ResourceAllocationError, TopologyHint
from kubeloop.kubelet.cm.topology.manager import AffinityStore
from kubeloop.kubelet.cri.messages.container import Device
from kubeloop.metrics import MetricRegistry
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.kubelet.cm.devices.fakes import RESOURCE, FakePlugin, SetClock, device


class Kubelet:
    """Collaborators of device managers that run one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "device-plugins"
        self.clock = SetClock()
        self.affinities = AffinityStore()
        self.running: set[ContainerRef] = set()
        self.changed: list[Set[str]] = []
        self.registry = MetricRegistry()
        self.plugin = FakePlugin(self.folder)

    @asynccontextmanager
    async def manager(self) -> AsyncIterator[DeviceManager]:
        """Run a manager until the end of the block, which ends as if it was killed: plugins get no message."""
        parts = DeviceManagerParts(
            self.clock, self.affinities, (0, 1), self, self.changed.append, DevicePluginMetrics(self.registry)
        )
        found = DeviceManager(self.folder, parts)
        await found.start()
        tasks = [asyncio.create_task(one) for one in found.tasks()]
        await asyncio.sleep(0)  # they begin
        try:
            yield found
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def list_running(self) -> dict[ContainerRef, str]:
        return dict.fromkeys(self.running, "id")


def run(tmp_path: Path, story: Callable[[Kubelet], Awaitable[None]]) -> None:
    async def whole() -> None:
        kubelet = Kubelet(tmp_path)
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                await story(kubelet)
        finally:
            await kubelet.plugin.stop()

    asyncio.run(whole())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # what is waited for happens in other tasks
        await asyncio.sleep(0.001)


async def wait_healthy(manager: DeviceManager, *ids: str) -> None:
    await until(lambda: manager.inventory.healthy.get(RESOURCE) == frozenset(ids))


def container(name: str, count: int, **fields: str) -> Container:
    return Container(name=name, resources=ResourceRequirements(limits={RESOURCE: str(count), "cpu": "1"}), **fields)


def pod(uid: str, *containers: Container, init: tuple[Container, ...] = ()) -> Pod:
    return Pod(metadata=ObjectMeta(uid=uid, name=uid), spec=PodSpec(containers=containers, init_containers=init))


async def admit(manager: DeviceManager, one: Pod) -> None:
    for each in (*one.spec.init_containers, *(one.spec.containers or ())):
        await manager.allocate(one, each)


def test_an_absolute_endpoint_is_below_the_folder_of_plugins(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        async with kubelet.manager() as manager:
            await kubelet.plugin.start(device("w1"))
            await wait_healthy(manager, "w1")
            with pytest.raises(RpcError, match="already connected"):
                await kubelet.plugin.register(endpoint=f"/{kubelet.plugin.name}")

    run(tmp_path, story)


def test_a_container_gets_devices_and_what_they_need(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        async with kubelet.manager() as manager:
            await kubelet.plugin.start(device("w1"), device("w2"), device("w3", health="Unhealthy"))
            await wait_healthy(manager, "w1", "w2")
            first = pod("first", container("c", 1), Container(name="without"))
            await admit(manager, first)
            assert kubelet.plugin.allocated == [["w1"]]
            options = await manager.run_options(first, container("c", 1))
            assert options.environment == {"WIDGETS": "w1"}
            assert options.devices == (Device(container_path="/dev/w1", host_path="/dev/null"),)
            assert (await manager.run_options(first, Container(name="without"))).devices == ()
            assert kubelet.plugin.allocated == [["w1"]]
            assert [one.device_ids for one in manager.get_devices("first", "c")] == [("w1",)]
            assert [one.device_ids for one in manager.get_allocatable_devices()] == [("w1",), ("w2",)]
            with pytest.raises(ResourceAllocationError) as raised:
                await admit(manager, pod("second", container("c", 2)))
            assert raised.value.reason == "UnexpectedAdmissionError"
            assert str(raised.value) == (
                f"Allocate failed due to requested number of devices unavailable for {RESOURCE}. "
                "Requested: 2, Available: 1, which is unexpected"
            )
            manager.remove_pod("first")
            await admit(manager, pod("second", container("c", 2)))
            page = kubelet.registry.render()
            assert f'kubelet_device_plugin_registration_total{{resource_name="{RESOURCE}"}} 1' in page
            assert f'kubelet_device_plugin_alloc_duration_seconds_count{{resource_name="{RESOURCE}"}} 2' in page

    run(tmp_path, story)


def test_registrations_are_checked(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        async with kubelet.manager():
            plugin = kubelet.plugin
            with pytest.raises(RpcError) as raised:
                await plugin.register("v1alpha1")
            assert raised.value.format() == (
                'rpc error: code = Unknown desc = requested API version "v1alpha1" is not supported by kubelet. '
                'Supported version is ["v1beta1"]'
            )
            plugin.resource = "cpu"
            with pytest.raises(RpcError, match='the ResourceName "cpu" is invalid'):
                await plugin.register()
            plugin.resource = RESOURCE
            with pytest.raises(RpcError, match="failed to dial device plugin"):
                await plugin.register()
            await plugin.start(device("w1"))
            with pytest.raises(RpcError, match="device plugin already connected"):
                await plugin.register()

    run(tmp_path, story)


def test_devices_of_init_containers_are_used_again(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        async with kubelet.manager() as manager:
            await kubelet.plugin.start(*(device(f"w{number}") for number in range(4)))
            await wait_healthy(manager, "w0", "w1", "w2", "w3")
            init = (container("i", 2), container("sidecar", 1, restart_policy="Always"), container("j", 1))
            await admit(manager, pod("p", container("a", 1), container("b", 1), container("c", 1), init=init))
            # The sidecar keeps w0, which i has used before; j and later a use w1; b and c need others.
            assert kubelet.plugin.allocated == [["w0", "w1"], ["w0"], ["w1"], ["w1"], ["w2"], ["w3"]]

    run(tmp_path, story)


def test_a_failed_allocation_leaves_nothing(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        async with kubelet.manager() as manager:
            await kubelet.plugin.start(device("w1"))
            await wait_healthy(manager, "w1")
            kubelet.plugin.failure = "no power"
            with pytest.raises(ResourceAllocationError, match="rpc error: code = Unknown desc = no power"):
                await admit(manager, pod("first", container("c", 1)))
            kubelet.plugin.failure = ""
            await admit(manager, pod("second", container("c", 1)))

    run(tmp_path, story)


def test_plugins_choose_devices_and_prepare_them(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        plugin = kubelet.plugin
        plugin.options = DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
        plugin.preferred = ("w2",)
        async with kubelet.manager() as manager:
            await plugin.start(device("w1"), device("w2"))
            await wait_healthy(manager, "w1", "w2")
            one = pod("p", container("c", 1))
            await admit(manager, one)
            assert plugin.allocated == [["w2"]]
            await manager.run_options(one, container("c", 1))
            await manager.run_options(one, container("c", 1))
            assert plugin.started == [["w2"], ["w2"]]
            plugin.failure = "broken"
            with pytest.raises(RunOptionsError, match=r"PreStartContainer rpc failed with err: .*broken"):
                await manager.run_options(one, container("c", 1))

    run(tmp_path, story)


def test_hints_and_affinity(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        async with kubelet.manager() as manager:
            await kubelet.plugin.start(device("a", 0), device("b", 1))
            await wait_healthy(manager, "a", "b")
            one = pod("p", container("c", 1), container("d", 1))
            whole = TopologyHint(frozenset((0, 1)), False)
            assert manager.get_topology_hints(one, container("c", 1)) == {
                RESOURCE: [TopologyHint(frozenset((0,)), True), TopologyHint(frozenset((1,)), True), whole]
            }
            assert manager.get_pod_topology_hints(one) == {RESOURCE: [whole._replace(preferred=True)]}
            assert manager.get_topology_hints(one, container("c", 3)) == {RESOURCE: []}
            assert manager.get_topology_hints(one, Container(name="x")) == {}
            kubelet.affinities.set_affinity("p", "c", TopologyHint(frozenset((1,)), True))
            await manager.allocate(one, container("c", 1))
            assert kubelet.plugin.allocated == [["b"]]
            assert manager.get_topology_hints(one, container("c", 1)) == {
                RESOURCE: [TopologyHint(frozenset((1,)), True), whole]
            }

    run(tmp_path, story)


def test_health_reaches_pods_and_their_statuses(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        async with kubelet.manager() as manager:
            await kubelet.plugin.start(device("w1"), device("w2"))
            await wait_healthy(manager, "w1", "w2")
            one = pod("p", container("c", 1))
            await admit(manager, one)
            kubelet.plugin.announce(device("w1", health="Unhealthy"), device("w2"))
            await wait_healthy(manager, "w2")
            assert kubelet.changed == [{"p"}]
            [status] = manager.resource_statuses(one, "c")
            assert (status.name, [(each.resource_id, each.health) for each in status.resources]) == (
                RESOURCE,
                [("w1", "Unhealthy")],
            )
            with pytest.raises(ResourceAllocationError, match="previously allocated devices are no longer healthy"):
                await manager.allocate(one, container("c", 1))
            with pytest.raises(ResourceAllocationError, match=r"changed request .* from 1 to 2"):
                await manager.allocate(one, container("c", 2))
            await kubelet.plugin.stop()
            await wait_healthy(manager)
            with pytest.raises(ResourceAllocationError, match="no healthy devices present"):
                await admit(manager, pod("q", container("c", 1)))

    run(tmp_path, story)


def test_a_restarted_kubelet_keeps_the_devices_of_its_pods(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        one = pod("p", container("c", 1))
        async with kubelet.manager() as manager:
            await kubelet.plugin.start(device("w1"), device("w2"))
            await wait_healthy(manager, "w1", "w2")
            await admit(manager, one)
        await kubelet.plugin.stop()
        kubelet.running = {("p", "c")}
        async with kubelet.manager() as manager:
            empty = NodeStatus(capacity={RESOURCE: "2"}, allocatable={RESOURCE: "2"})
            assert manager.set_node_status(empty).allocatable == {RESOURCE: "0"}
            await admit(manager, one)  # it runs
            node = Node(status=NodeStatus(allocatable={RESOURCE: "0"}))
            assert manager.node_for_admission(one, node).status.allocatable == {RESOURCE: "1"}
            assert manager.node_for_admission(pod("q"), node) is node
            with pytest.raises(ResourceAllocationError, match="no healthy devices present"):
                await admit(manager, pod("q", container("c", 1)))
            assert (await manager.run_options(one, container("c", 1))).environment == {"WIDGETS": "w1"}
            kubelet.plugin = FakePlugin(kubelet.folder)
            await kubelet.plugin.start(device("w1"), device("w2"))
            await wait_healthy(manager, "w1", "w2")
            await admit(manager, pod("q", container("c", 1)))
            assert kubelet.plugin.allocated == [["w2"]]
            manager.retain_pods({"q"})
            await admit(manager, pod("r", container("c", 1)))
            assert kubelet.plugin.allocated == [["w2"], ["w1"]]

    run(tmp_path, story)


def test_a_container_that_does_not_run_any_more_needs_its_plugin(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        one = pod("p", container("c", 1))
        async with kubelet.manager() as manager:
            await kubelet.plugin.start(device("w1"))
            await wait_healthy(manager, "w1")
            await admit(manager, one)
        async with kubelet.manager() as manager:
            with pytest.raises(ResourceAllocationError, match="no healthy devices present"):
                await admit(manager, one)

    run(tmp_path, story)


def test_a_container_that_ran_without_notes_gets_devices_when_it_starts_again(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        one = pod("p", container("c", 1))
        kubelet.running = {("p", "c")}
        async with kubelet.manager() as manager:
            await kubelet.plugin.start(device("w1"))
            await wait_healthy(manager, "w1")
            await admit(manager, one)
            assert kubelet.plugin.allocated == []
            assert (await manager.run_options(one, container("c", 1))).environment == {"WIDGETS": "w1"}

    run(tmp_path, story)


def test_a_damaged_checkpoint_is_left_behind_and_old_sockets_are_removed(tmp_path: Path) -> None:
    async def story(kubelet: Kubelet) -> None:
        async with kubelet.manager():
            await kubelet.plugin.start(device("w1"))
        (kubelet.folder / CHECKPOINT_NAME).write_text("damaged")
        (kubelet.folder / "other").write_text("a plain file")
        async with kubelet.manager() as manager:
            assert sorted(one.name for one in kubelet.folder.iterdir()) == ["kubelet.sock", CHECKPOINT_NAME, "other"]
            assert list(manager.pods) == []

    run(tmp_path, story)
