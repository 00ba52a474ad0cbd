# SPDX-License-Identifier: Apache-2.0
"""Reports of resource managers: the node that predicates see, and the health of resources in container statuses."""

from __future__ import annotations

from datetime import UTC, datetime

from kubeloop.api.generated.core_v1 import (
    Container,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceHealth,
    ResourceStatus,
)
from kubeloop.api.scalars.wire import Time
from kubeloop.kubelet.cm.devices.node_devices import with_allocated_devices
from kubeloop.kubelet.cm.resource_managers import ResourceManager, ResourceManagers
from kubeloop.kubelet.cm.topology.manager import AffinityStore, TopologyManager
from kubeloop.kubelet.runtime import ContainerRun, PodObservation
from kubeloop.kubelet.status.container_status import app_container_statuses
from kubeloop.kubelet.sync.pod_state import PodState

POD = Pod(spec=PodSpec(containers=(Container(name="c"),)))


class Widgets(ResourceManager):
    """Manager of one resource, with one device of each pod."""

    def __init__(self, resource: str) -> None:
        self.resource = resource

    def node_for_admission(self, pod: Pod, node: Node) -> Node:
        return with_allocated_devices(node, {self.resource: {"w"}})

    def resource_statuses(self, pod: Pod, container: str) -> tuple[ResourceStatus, ...]:
        return (ResourceStatus(name=self.resource, resources=(ResourceHealth(resource_id=container),)),)


def managers() -> ResourceManagers:
    all_managers = (Widgets("example.com/a"), ResourceManager(), Widgets("example.com/b"))
    return ResourceManagers(TopologyManager(AffinityStore(), ()), all_managers, list)


def test_predicates_see_the_resources_of_all_managers() -> None:
    node = Node(status=NodeStatus(allocatable={"cpu": "1"}))
    found = managers().node_for_admission(POD, node)
    assert found.status.allocatable == {"cpu": "1", "example.com/a": "1", "example.com/b": "1"}


def test_the_health_of_resources_is_in_the_status_of_a_container() -> None:
    health = managers().resource_statuses(POD, "c")
    assert [(one.name, one.resources[0].resource_id) for one in health] == [
        ("example.com/a", "c"),
        ("example.com/b", "c"),
    ]
    run = ContainerRun(
        container="c",
        id="x://1",
        attempt=0,
        image="i",
        image_id="",
        state="running",
        created_at=datetime(2030, 1, 1, tzinfo=UTC),
        resource_statuses=health,
    )
    memory = PodState(reported_status=PodStatus(), first_seen=Time("2030-01-01T00:00:00Z"))
    (status,) = app_container_statuses(POD, PodObservation(runs={"c": (run,)}), memory)
    assert status.allocated_resources_status == health
