# SPDX-License-Identifier: Apache-2.0
"""Tests of kubelets as separate programs: each serves its own nodes, with a node's permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeloop.api.errors import Forbidden
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import ConfigMap, Node, Pod, Secret, Taint
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.client import Client
from kubeloop.controllers import attach_detach
from kubeloop.kubelet.agent import NodeAgent
from kubeloop.kubelet.agent_config import NodeAgentConfig, StandaloneConfig
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
from kubeloop.kubelet.node_status.registration import (
    LEASE_NAMESPACE,
    KubeletEndpoint,
    NodeShape,
    correction_patches,
    new_node,
)
from kubeloop.kubelet.node_status.served_nodes import STATE_ANNOTATION, STOPPED
from kubeloop.runtime.component_config import ConfigDuration
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.testing import Cluster, builders
from tests.controllers.storage import claim, user_of, volume
from tests.kubelet.pods import condition_tuple, container, get, is_gone, put, state

ADMIN = User("admin", ("system:masters", AUTHENTICATED))
W1 = User("system:node:w1", ("system:nodes", AUTHENTICATED))
MakeFleet = Callable[..., NodeAgent]


@pytest.fixture
def make_fleet(cluster: Cluster) -> Iterator[MakeFleet]:
    """Starts a program's nodes, named by the tests, as a user."""
    started: list[SharedInformerFactory] = []

    def make(*names: str, user: User = ADMIN, port: int = 10250, shape: Any = None, **chosen: Any) -> NodeAgent:
        client = Client(InProcessTransport(cluster.server, user))
        informers = SharedInformerFactory(client, cluster.clock)
        endpoints = {name: KubeletEndpoint("10.9.9.9", port + number) for number, name in enumerate(names)}
        static, settings = chosen.pop("static_pods", None), chosen.pop("settings", KubeletConfiguration())
        alone = StandaloneConfig(endpoints, **chosen)
        config = NodeAgentConfig(
            standalone=alone, event_level="all", shape=shape or NodeShape(), static_pods=static, settings=settings
        )
        fleet = NodeAgent(client, informers, cluster.clock, config)

        async def begin() -> None:
            informers.start()

        cluster.run(begin())
        started.append(informers)
        for loop in fleet.loops:
            loop.name = f"{loop.name} of {names[0]}"
            cluster.start(loop)
        return fleet

    yield make
    for one in started:
        cluster.run(one.stop())


def node(cluster: Cluster, name: str) -> Node:
    return cluster.client.get(Node, name)


def test_parallel_programs_serve_their_own_nodes(cluster: Cluster, make_fleet: MakeFleet) -> None:
    planes_own = cluster.add_nodes(1)
    first, second = make_fleet("a1", "a2"), make_fleet("b1")
    for name in ("n1", "a2", "b1"):
        put(cluster, f"on-{name}", node=name)
        assert state(get(cluster, f"on-{name}")) == "running"
    served = [[one.metadata.name for one in fleet.served_nodes] for fleet in (planes_own, first, second)]
    assert served == [["n1"], ["a1", "a2"], ["b1"]]
    addresses = {get(cluster, f"on-{name}").status.pod_ip for name in ("n1", "a2", "b1")}
    assert len(addresses) == 3


def test_node_has_the_address_of_its_program(cluster: Cluster, make_fleet: MakeFleet) -> None:
    taint = Taint(key="dedicated", value="x", effect="NoSchedule")
    shape = NodeShape(labels={"zone": "a"}, taints=(taint,), pods="7", annotations={"kubeloop.io/x": "y"})
    make_fleet("a1", "a2", port=4711, shape=shape)
    found = node(cluster, "a2")
    assert found.status.daemon_endpoints.kubelet_endpoint.port == 4712
    assert found.status.addresses[0].address == "10.9.9.9"
    assert (found.metadata.labels["zone"], found.status.capacity["pods"]) == ("a", "7")
    assert taint in found.spec.taints
    assert found.metadata.annotations["sim.kubeloop.io/node"] == "kubelet"


def test_program_restarted_elsewhere_updates_its_node(cluster: Cluster, make_fleet: MakeFleet) -> None:
    fleet = make_fleet("a1", port=4711)
    put(cluster, node="a1")
    cluster.client.patch(Node, "a1", {"metadata": {"labels": {"theirs": "stays"}}})
    for loop in fleet.loops:
        cluster.stop(loop)
    before = get(cluster)
    make_fleet("a1", port=4811, shape=NodeShape(labels={"zone": "b"}))
    found = node(cluster, "a1")
    assert found.status.daemon_endpoints.kubelet_endpoint.port == 4811
    assert {"theirs": "stays", "zone": "b"}.items() <= found.metadata.labels.items()
    assert get(cluster) == before


def test_unregistered_node_is_waited_for(cluster: Cluster, make_fleet: MakeFleet) -> None:
    make_fleet("a1", register_nodes=False, port=4711)
    assert [one.metadata.name for one in cluster.client.list(Node).items] == []
    cluster.add(new_node("a1", KubeletEndpoint("10.0.0.1"), NodeShape(), cluster.clock.now()))
    cluster.settle()
    assert node(cluster, "a1").status.daemon_endpoints.kubelet_endpoint.port == 4711
    put(cluster, node="a1")
    assert state(get(cluster)) == "running"


def test_correct_node_is_not_updated() -> None:
    from kubeloop.clock import SystemClock

    made = new_node("a1", KubeletEndpoint("10.0.0.1"), NodeShape(labels={"a": "b"}), SystemClock().now())
    assert correction_patches(made, made) == ({}, {})


def test_node_role_is_sufficient_to_run_pods(cluster: Cluster, make_fleet: MakeFleet) -> None:
    make_fleet("w1", user=W1, has_node_rights_only=True)
    cluster.add(Secret(metadata=builders.metadata("s", "default"), data={"k": b"v"}))
    cluster.add(ConfigMap(metadata=builders.metadata("c", "default"), data={"a": "b"}))
    variables = [
        {"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a"}}},
    ]
    put(cluster, "other", node="elsewhere")
    put(cluster, node="w1", containers=(builders.container("app", env=variables),))
    assert state(get(cluster)) == "running"
    assert condition_tuple(get(cluster), "Ready")[0] == "True"
    cluster.client.delete(Pod, "pod", "default")
    cluster.settle()
    assert is_gone(cluster)
    assert not get(cluster, "other").status.container_statuses


def test_lease_is_renewed_and_state_annotation_is_honored(cluster: Cluster, make_fleet: MakeFleet) -> None:
    make_fleet("w1", user=W1, has_node_rights_only=True)
    put(cluster, node="w1")
    before = cluster.client.get("leases", "w1", "kube-node-lease").spec.renew_time
    cluster.advance(30)
    assert cluster.client.get("leases", "w1", "kube-node-lease").spec.renew_time > before
    cluster.client.patch(Node, "w1", {"metadata": {"annotations": {STATE_ANNOTATION: STOPPED}}})
    cluster.settle()
    cluster.client.patch(Node, "w1", {"metadata": {"annotations": {STATE_ANNOTATION: None}}})
    cluster.advance(30)
    assert container(get(cluster)).restart_count == 1


def test_claims_of_pods_are_read_individually(cluster: Cluster, make_fleet: MakeFleet) -> None:
    make_fleet("w1", user=W1, has_node_rights_only=True)
    cluster.start(attach_detach.wire)
    user = user_of("p", "c", node="w1")
    user["spec"]["containers"][0]["volumeMounts"] = [{"name": "v0", "mountPath": "/v"}]
    cluster.add(user)
    cluster.settle()
    assert get(cluster, "p").status.phase == "Pending"  # there is no such claim
    made = cluster.add(claim("c", volumeName="v"))
    reference = {"namespace": "default", "name": "c", "uid": made.metadata.uid}
    csi = {"driver": "d.example.com", "volumeHandle": "h-v"}
    cluster.add(volume("v", hostPath=None, csi=csi, claimRef=reference))
    cluster.client.patch("persistentvolumeclaims", "c", {"status": {"phase": "Bound"}}, "default", subresource="status")
    cluster.advance(15)
    assert node(cluster, "w1").status.volumes_in_use == ("kubernetes.io/csi/d.example.com^h-v",)
    assert get(cluster, "p").status.phase == "Pending"  # a node does not attach its volumes itself
    (attachment,) = cluster.client.list("volumeattachments").items
    attached = {"status": {"attached": True}}
    cluster.client.patch("volumeattachments", attachment.metadata.name, attached, subresource="status")
    cluster.advance(15)
    assert get(cluster, "p").status.phase == "Running"
    cluster.client.delete(Pod, "p", "default")
    cluster.advance(15)
    assert node(cluster, "w1").status.volumes_in_use == ()


def test_static_pods_are_mirrored(cluster: Cluster, make_fleet: MakeFleet, tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(
        "kind: Pod\nmetadata: {name: web, namespace: default}\nspec: {containers: [{name: app, image: nginx}]}\n"
    )
    make_fleet("w1", user=W1, has_node_rights_only=True, static_pods=tmp_path)
    assert state(get(cluster, "web-w1")) == "running"


def test_node_permissions_are_limited(cluster: Cluster, make_fleet: MakeFleet) -> None:
    make_fleet("w1", user=W1, has_node_rights_only=True)
    with pytest.raises(Forbidden):
        cluster.run(Client(InProcessTransport(cluster.server, W1)).list(Pod))


def test_duration_of_leases_and_interval_of_statuses_are_those_of_the_configuration(
    cluster: Cluster, make_fleet: MakeFleet
) -> None:
    frequency = ConfigDuration(60)
    settings = KubeletConfiguration(node_lease_duration_seconds=80, node_status_report_frequency=frequency)
    make_fleet("a1", settings=settings, max_heartbeat_seconds=20.0)
    cluster.settle()
    lease = cluster.client.get(Lease, "a1", LEASE_NAMESPACE)
    assert lease.spec.lease_duration_seconds == 80
    versions, renewals = set(), set()
    for _ in range(18):
        cluster.advance(seconds=10)
        versions.add(node(cluster, "a1").status.conditions[0].last_heartbeat_time)
        renewals.add(cluster.client.get(Lease, "a1", LEASE_NAMESPACE).spec.renew_time)
    assert len(versions) in (3, 4)
    assert len(renewals) in (9, 10)


def test_a_lease_that_exists_gets_the_duration_of_the_configuration(cluster: Cluster, make_fleet: MakeFleet) -> None:
    first = make_fleet("a1")
    cluster.settle()
    for loop in first.loops:
        cluster.stop(loop)
    make_fleet("a1", settings=KubeletConfiguration(node_lease_duration_seconds=80))
    cluster.settle()
    assert cluster.client.get(Lease, "a1", LEASE_NAMESPACE).spec.lease_duration_seconds == 80
