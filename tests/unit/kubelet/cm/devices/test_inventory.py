# SPDX-License-Identifier: Apache-2.0
"""Device inventory and the node's status: plugins that come, change, go and do not return."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Node, NodeStatus
from kubeloop.grpc.channel import UnixChannel
from kubeloop.kubelet.cm.devices.endpoint import STOP_GRACE_SECONDS, DevicePluginEndpoint
from kubeloop.kubelet.cm.devices.inventory import PluginInventory
from kubeloop.kubelet.cm.devices.messages import DevicePluginOptions, PluginDevice
from kubeloop.kubelet.cm.devices.node_devices import NodeDevices, with_allocated_devices
from tests.unit.kubelet.cm.devices.fakes import RESOURCE, SetClock


def endpoint(socket: str = "/a") -> DevicePluginEndpoint:
    return DevicePluginEndpoint(RESOURCE, socket, DevicePluginOptions(), UnixChannel(socket))


def devices(**health: str) -> list[PluginDevice]:
    return [PluginDevice(id=id, health=value) for id, value in health.items()]


class World:
    """Inventory with a node's status that is written as the kubelet does."""

    def __init__(self, *, has_checkpoint: bool = True, **capacity: str) -> None:
        self.clock = SetClock()
        self.inventory = PluginInventory()
        self.writes = 0
        self._node = NodeDevices(self.inventory, self.clock, self._write)
        self._node.start(has_checkpoint=has_checkpoint)
        self.status = NodeStatus(capacity=capacity, allocatable=capacity)

    def _write(self) -> None:
        self.writes += 1

    def report(self) -> tuple[str | None, str | None]:
        self._node.set_status(self.status)  # the kubelet computes a status more than once before it writes it
        self.status = self._node.set_status(self.status)
        assert self._node.set_status(self.status) is self.status
        return self.status.capacity.get(RESOURCE), self.status.allocatable.get(RESOURCE)


def test_unhealthy_devices_are_not_allocatable() -> None:
    world = World(cpu="2")
    world.inventory.connect(endpoint())
    assert world.report() == (None, None)
    assert world.inventory.update(RESOURCE, devices(a="Healthy", b="Healthy")) == {"a", "b"}
    assert world.report() == ("2", "2")
    assert world.inventory.update(RESOURCE, devices(a="Unhealthy", b="Healthy", c="Healthy")) == {"a", "c"}
    assert world.report() == ("3", "2")
    assert world.status.capacity["cpu"] == "2"


def test_a_plugin_that_does_not_return_loses_its_resource() -> None:
    world, first = World(), endpoint()
    world.inventory.connect(first)
    world.inventory.update(RESOURCE, devices(a="Healthy"))
    world.inventory.disconnect(first, world.clock.monotonic())
    assert world.report() == ("1", "0")
    world.clock.seconds += STOP_GRACE_SECONDS
    assert world.report() == ("1", "0")
    world.clock.seconds += 1
    assert world.report() == ("0", "0")
    assert RESOURCE not in world.inventory.healthy
    assert world.writes == 1
    world.inventory.connect(endpoint())
    world.inventory.update(RESOURCE, devices(a="Healthy"))
    assert world.report() == ("1", "1")


def test_a_second_plugin_of_a_resource_takes_over() -> None:
    world, first, second = World(), endpoint("/a"), endpoint("/b")
    world.inventory.connect(first)
    world.inventory.connect(second)
    world.inventory.update(RESOURCE, devices(a="Healthy"))
    assert world.inventory.endpoint(RESOURCE) is second
    assert world.inventory.is_connected(RESOURCE, "/a")
    world.inventory.disconnect(second, 0.0)
    assert world.inventory.endpoint(RESOURCE) is first
    assert world.report() == ("1", "1")
    world.inventory.disconnect(second, 0.0)  # nothing changes
    world.inventory.disconnect(first, world.clock.monotonic())
    assert world.report() == ("1", "0")


def test_resources_of_an_earlier_kubelet_are_zero_until_their_plugin_registers() -> None:
    world = World(**{RESOURCE: "4"})
    world.inventory.restore((RESOURCE,), world.clock.monotonic())
    assert world.report() == ("0", "0")
    world.inventory.connect(endpoint())
    world.inventory.update(RESOURCE, devices(a="Healthy"))
    world.clock.seconds += 2 * STOP_GRACE_SECONDS
    assert world.report() == ("1", "1")


def test_without_a_checkpoint_extended_resources_are_set_to_zero_once() -> None:
    world = World(has_checkpoint=False, cpu="2", **{"example.com/old": "3"})
    world.inventory.connect(endpoint())
    world.inventory.update(RESOURCE, devices(a="Healthy"))
    assert world.report() == ("1", "1")
    assert world.status.capacity["example.com/old"] == "0"
    assert world.status.capacity["cpu"] == "2"
    world.status = NodeStatus(capacity={"example.com/old": "5"}, allocatable={})
    world.report()
    assert world.status.capacity["example.com/old"] == "5"


def test_pods_with_devices_fit_into_their_node() -> None:
    node = Node(status=NodeStatus(allocatable={"cpu": "2", RESOURCE: "1"}))
    assert with_allocated_devices(node, {RESOURCE: {"a"}}) is node
    grown = with_allocated_devices(node, {RESOURCE: {"a", "b"}, "example.com/gone": {"x"}})
    assert grown.status.allocatable == {"cpu": "2", RESOURCE: "2", "example.com/gone": "1"}
