# SPDX-License-Identifier: Apache-2.0
"""Services of type LoadBalancer get a balancer of the cloud, which follows them and the nodes to their end."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Node, Service, Taint
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.cloud.provider import CloudError, ImplementedElsewhere, RetryAfter
from kubeloop.cloud.service_lb import wire
from kubeloop.cloud.service_lb.policy import EXCLUDED, FINALIZER, TO_BE_DELETED
from kubeloop.testing import Cluster, node, service
from tests.cloud.memory_cloud import MemoryCloud, start

CLASS = "example.com/other"


@pytest.fixture
def cloud(cluster: Cluster) -> MemoryCloud:
    cluster.add(node("n1"), node("n2"))
    made = MemoryCloud()
    start(cluster, wire, made)
    return made


def balanced(name: str = "web", **spec: Any) -> Service:
    return service(name, type="LoadBalancer", **spec)


def read(cluster: Cluster, name: str = "web") -> Service:
    found: Service = cluster.client.get(Service, name, "default")
    return found


def addresses(cluster: Cluster, name: str = "web") -> list[str]:
    return [one.ip for one in read(cluster, name).status.load_balancer.ingress]


def change(cluster: Cluster, patch: dict[str, Any], name: str = "web") -> None:
    cluster.client.patch(Service, name, patch, "default")
    cluster.settle()


def reasons(cluster: Cluster) -> list[str]:
    return [one.reason for one in cluster.events("default") if one.involved_object.kind == "Service"]


def only(cloud: MemoryCloud) -> Any:
    (found,) = cloud.load_balancers.balancers.values()
    return found


def test_service_gets_load_balancer_finalizer_and_address(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.settle()
    assert addresses(cluster) == [only(cloud).address]
    assert FINALIZER in read(cluster).metadata.finalizers
    assert only(cloud).hosts == ("n1", "n2")
    assert reasons(cluster) == ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]
    assert {one.source.component for one in cluster.events("default")} == {"service-controller"}


def test_existing_service_gets_a_load_balancer(cluster: Cluster) -> None:
    cluster.add(node("n1"), balanced())
    cloud = MemoryCloud()
    start(cluster, wire, cloud)
    assert addresses(cluster) == [only(cloud).address]


def test_services_of_other_types_and_classes_are_ignored(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(service("plain"), balanced("classy", load_balancer_class=CLASS))
    cluster.settle()
    assert cloud.load_balancers.calls == []
    assert read(cluster, "classy").metadata.finalizers == ()


def test_unchanged_service_makes_no_cloud_calls(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.advance(hours=2)
    assert cloud.load_balancers.calls == ["ensure"]


@pytest.mark.parametrize(
    "spec",
    [
        {"sessionAffinity": "ClientIP"},
        {"loadBalancerSourceRanges": ["10.0.0.0/8"]},
        {"externalTrafficPolicy": "Local"},
        {"externalIPs": ["192.0.2.99"]},
        {"ports": [{"port": 80, "targetPort": 8080}]},
    ],
)
def test_relevant_change_updates_the_load_balancer(cluster: Cluster, cloud: MemoryCloud, spec: dict[str, Any]) -> None:
    cluster.add(balanced())
    cluster.settle()
    change(cluster, {"spec": spec})
    assert cloud.load_balancers.count("ensure") == 2
    assert only(cloud).service.spec == read(cluster).spec


def test_annotations_are_relevant_and_labels_are_not(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.settle()
    change(cluster, {"metadata": {"labels": {"a": "b"}}})
    assert cloud.load_balancers.count("ensure") == 1
    change(cluster, {"metadata": {"annotations": {"cloud/size": "large"}}})
    assert cloud.load_balancers.count("ensure") == 2


def test_deleted_service_is_removed_after_its_load_balancer(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.settle()
    cluster.client.delete(Service, "web", "default")
    cluster.settle()
    with pytest.raises(NotFound):
        read(cluster)
    assert cloud.load_balancers.balancers == {}
    assert reasons(cluster)[2:] == ["DeletingLoadBalancer", "DeletedLoadBalancer"]


def test_deleted_service_is_kept_while_the_cloud_fails(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.settle()
    cloud.load_balancers.fail("delete", CloudError("busy"))
    cluster.client.delete(Service, "web", "default")
    cluster.settle()
    assert read(cluster).metadata.deletion_timestamp is not None
    told = cluster.events("default", reason="SyncLoadBalancerFailed")[0]
    assert told.message == "Error syncing load balancer: failed to delete load balancer: busy"
    cluster.advance(6)
    with pytest.raises(NotFound):
        read(cluster)


def test_changed_type_removes_load_balancer_finalizer_and_address(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.settle()
    change(cluster, {"spec": {"type": "ClusterIP", "allocateLoadBalancerNodePorts": None}})
    assert cloud.load_balancers.balancers == {}
    assert FINALIZER not in read(cluster).metadata.finalizers
    assert addresses(cluster) == []


def test_load_balancer_is_deleted_even_without_finalizer(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.settle()
    cluster.client.patch(Service, "web", {"metadata": {"finalizers": None}}, "default")
    cluster.client.delete(Service, "web", "default")
    cluster.settle()
    assert cloud.load_balancers.balancers == {}


def test_another_finalizer_is_kept(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    change(cluster, {"metadata": {"finalizers": ["test/kept", FINALIZER]}})
    cluster.client.delete(Service, "web", "default")
    cluster.advance(minutes=5)
    assert read(cluster).metadata.finalizers == ("test/kept",)
    assert cloud.load_balancers.balancers == {}
    assert cloud.load_balancers.count("ensure") == 1


def test_failures_record_events_and_back_off(cluster: Cluster, cloud: MemoryCloud) -> None:
    cloud.load_balancers.fail("ensure", *[CloudError("no quota")] * 3)
    cluster.add(balanced())
    cluster.settle()
    told = cluster.events("default", reason="SyncLoadBalancerFailed")[0]
    assert told.message == "Error syncing load balancer: failed to ensure load balancer: no quota"
    for seconds, tries in ((4, 1), (2, 2), (8, 2), (2, 3), (17, 3), (3, 4)):
        cluster.advance(seconds)
        assert cloud.load_balancers.count("ensure") == tries
    assert addresses(cluster) == [only(cloud).address]


def test_delays_never_exceed_five_minutes(cluster: Cluster, cloud: MemoryCloud) -> None:
    cloud.load_balancers.fail("ensure", *[CloudError("no quota")] * 100)
    cluster.add(balanced())
    cluster.advance(hours=2)
    before = cloud.load_balancers.count("ensure")
    cluster.advance(minutes=10)
    assert cloud.load_balancers.count("ensure") == before + 2


def test_cloud_can_set_the_retry_delay(cluster: Cluster, cloud: MemoryCloud) -> None:
    cloud.load_balancers.fail("ensure", *[RetryAfter("being made", 60)] * 2)
    cluster.add(balanced())
    cluster.advance(59)
    assert cloud.load_balancers.count("ensure") == 1
    cluster.advance(62)
    assert cloud.load_balancers.count("ensure") == 3
    assert addresses(cluster) == [only(cloud).address]


def test_load_balancer_of_another_owner_is_kept(cluster: Cluster, cloud: MemoryCloud) -> None:
    cloud.load_balancers.fail("ensure", ImplementedElsewhere())
    cluster.add(balanced())
    cluster.advance(minutes=10)
    assert cloud.load_balancers.calls == ["ensure"]
    assert reasons(cluster) == ["EnsuringLoadBalancer"]
    assert addresses(cluster) == []


def test_lost_status_write_is_retried(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.faults.fail("patch", "services", times=2)
    cluster.add(balanced())
    cluster.advance(minutes=1)
    assert addresses(cluster) == [only(cloud).address]


def test_hosts_follow_added_and_deleted_nodes(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.settle()
    cluster.add(node("n3"))
    cluster.settle()
    assert only(cloud).hosts == ("n1", "n2", "n3")
    cluster.client.delete(Node, "n1")
    cluster.settle()
    assert only(cloud).hosts == ("n2", "n3")
    assert cloud.load_balancers.calls == ["ensure", "update_hosts", "update_hosts"]
    assert reasons(cluster).count("UpdatedLoadBalancer") >= 1


def test_excluded_node_is_not_a_host(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.settle()
    for said, hosts in (("", ("n2",)), ("false", ("n1", "n2")), ("true", ("n2",)), (None, ("n1", "n2"))):
        cluster.client.patch(Node, "n1", {"metadata": {"labels": {EXCLUDED: said}}})
        cluster.settle()
        assert only(cloud).hosts == hosts


def test_not_ready_node_stays_a_host_and_deleted_one_does_not(cluster: Cluster) -> None:
    going = Taint(key=TO_BE_DELETED, effect="NoSchedule")
    cluster.add(node("n1", ready=False), node("n2", taints=(going,)), balanced())
    cloud = MemoryCloud()
    start(cluster, wire, cloud)
    assert only(cloud).hosts == ("n1",)


def test_node_heartbeats_make_no_cloud_calls(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.settle()
    condition = {"type": "Ready", "status": "False"}
    cluster.client.patch(Node, "n1", {"status": {"conditions": [condition]}}, subresource="status")
    cluster.settle()
    assert cloud.load_balancers.calls == ["ensure"]


def test_cluster_without_nodes_records_a_warning(cluster: Cluster) -> None:
    cluster.add(balanced())
    start(cluster, wire, MemoryCloud())
    told = cluster.events("default", reason="UnAvailableLoadBalancer")[0]
    assert (told.type, told.message) == ("Warning", "There are no available nodes for LoadBalancer")


def test_failed_host_update_records_an_event_and_is_retried(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.settle()
    cloud.load_balancers.fail("update_hosts", CloudError("busy"))
    cluster.add(node("n3"))
    cluster.settle()
    told = cluster.events("default", reason="UpdateLoadBalancerFailed")[0]
    assert told.message == (
        "Error updating load balancer with new hosts [n1 n2 n3] [node names limited, total number of nodes: 3], "
        "error: busy"
    )
    assert only(cloud).hosts == ("n1", "n2", "n3")


def test_node_changes_do_not_shorten_the_backoff(cluster: Cluster, cloud: MemoryCloud) -> None:
    cloud.load_balancers.fail("ensure", CloudError("no quota"))
    cluster.add(balanced())
    cluster.settle()
    cluster.add(node("n3"))
    cluster.settle()
    assert cloud.load_balancers.calls == ["ensure"]
    cluster.advance(6)
    assert only(cloud).hosts == ("n1", "n2", "n3")


def test_node_added_during_ensure_becomes_a_host(cluster: Cluster, cloud: MemoryCloud) -> None:
    async def meanwhile() -> None:
        await cluster.async_client.create(node("n3"))
        await _until_seen(cluster, "n3")

    cloud.load_balancers.during_ensure = meanwhile
    cluster.add(balanced())
    cluster.settle()
    assert only(cloud).hosts == ("n1", "n2", "n3")


async def _until_seen(cluster: Cluster, name: str) -> None:
    made = await cluster.async_client.get(Node, name)
    await cluster.context.informers.for_resource(resource_of_class(Node)).wait_for_version(
        made.metadata.resource_version
    )


def test_recreated_service_gets_a_new_load_balancer(cluster: Cluster, cloud: MemoryCloud) -> None:
    cluster.add(balanced())
    cluster.settle()
    before = only(cloud).service.metadata.uid
    cluster.client.delete(Service, "web", "default")
    cluster.settle()
    cluster.add(balanced())
    cluster.settle()
    assert list(cloud.load_balancers.balancers) != [before]
    assert addresses(cluster) == [only(cloud).address]


def test_restarted_controller_keeps_the_load_balancer(cluster: Cluster) -> None:
    cluster.add(node("n1"), balanced())
    cloud = MemoryCloud()
    loop = start(cluster, wire, cloud)
    before = addresses(cluster)
    cluster.stop(loop)
    start(cluster, wire, cloud)
    assert addresses(cluster) == before == [only(cloud).address]


def test_service_deleted_while_the_controller_was_down_is_cleaned_up(cluster: Cluster) -> None:
    cluster.add(node("n1"), balanced())
    cloud = MemoryCloud()
    loop = start(cluster, wire, cloud)
    cluster.stop(loop)
    cluster.client.delete(Service, "web", "default")
    start(cluster, wire, cloud)
    assert cloud.load_balancers.balancers == {}
    with pytest.raises(NotFound):
        read(cluster)
