# SPDX-License-Identifier: Apache-2.0
"""Node ports of services, and the port that load balancers ask for health."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.registry.allocation.cluster import SERVICES, assert_exact, node_ports

DNS = [{"name": "udp", "port": 53, "protocol": "UDP"}, {"name": "tcp", "port": 53}]
BALANCED = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}


def ports_of(spec):
    return [port.get("nodePort") for port in spec["ports"]]


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_a_node_port_comes_from_the_upper_band(cluster, kind):
    (port,) = ports_of(cluster.create("web", type=kind).spec)
    assert 30086 <= port <= 32767


def test_load_balancer_can_omit_node_ports_except_requested_ones(cluster):
    asked = [{"name": "a", "port": 1}, {"name": "b", "port": 2, "nodePort": 30005}]
    spec = cluster.create("web", type="LoadBalancer", allocateLoadBalancerNodePorts=False, ports=asked).spec
    assert ports_of(spec) == [None, 30005]
    assert cluster.create("late", type="NodePort", ports=[{"port": 1, "nodePort": 30005}]).status == 422


def test_protocols_with_the_same_port_share_their_node_port(cluster):
    first, second = ports_of(cluster.create("dns", type="NodePort", ports=DNS).spec)
    assert first == second
    asked = [DNS[0], {**DNS[1], "nodePort": 30053}]
    assert ports_of(cluster.create("asked", type="NodePort", ports=asked).spec) == [30053, 30053]
    assert_exact(cluster)


def test_protocols_may_request_different_node_ports(cluster):
    asked = [{**DNS[0], "nodePort": 30001}, {**DNS[1], "nodePort": 30002}]
    assert ports_of(cluster.create("dns", type="NodePort", ports=asked).spec) == [30001, 30002]


def test_services_never_share_a_node_port(cluster):
    cluster.create("web", type="NodePort", ports=[{"port": 1, "nodePort": 30001}])
    refused = cluster.create("late", type="NodePort", ports=[{"port": 1, "protocol": "UDP", "nodePort": 30001}])
    assert refused.refusal == (
        422,
        'Service "late" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated',
    )


def test_duplicate_node_port_of_one_service_is_rejected(cluster):
    asked = [{"name": "a", "port": 1, "nodePort": 30001}, {"name": "b", "port": 2, "nodePort": 30001}]
    refused = cluster.create("web", type="NodePort", ports=asked)
    assert refused.refusal[1].endswith(
        "spec.ports[1].nodePort: Invalid value: 30001: provided port is already allocated"
    )
    assert cluster.create("next", type="NodePort", ports=asked[:1]).status == 201


@pytest.mark.parametrize("port", [80, 29999, 32768])
def test_a_node_port_outside_the_range_is_refused(cluster, port):
    refused = cluster.create("web", type="NodePort", ports=[{"port": 1, "nodePort": port}])
    assert refused.refusal == (
        422,
        f'Service "web" is invalid: spec.ports[0].nodePort: Invalid value: {port}: provided port is not in the valid '
        "range. The range of valid ports is 30000-32767",
    )


def test_exhausted_ports_are_an_internal_error_and_allocate_no_address(make_cluster):
    cluster = make_cluster(node_ports=range(30000, 30002))
    assert node_ports(cluster.create("a", type="NodePort", ports=[{"port": 1}]).spec) < {30000, 30001}
    cluster.create("b", type="NodePort")
    assert cluster.create("c", type="NodePort").refusal == (
        500,
        "Internal error occurred: failed to allocate a nodePort: range is full",
    )
    assert_exact(cluster)


def test_local_load_balancer_gets_a_health_check_port(cluster):
    spec = cluster.create("web", **BALANCED).spec
    assert spec["healthCheckNodePort"] not in ports_of(spec)
    assert cluster.create("asked", **BALANCED, healthCheckNodePort=30007).spec["healthCheckNodePort"] == 30007
    assert cluster.create("late", **BALANCED, healthCheckNodePort=30007).refusal == (
        500,
        "Internal error occurred: failed to allocate requested HealthCheck NodePort 30007: "
        "provided port is already allocated",
    )
    assert_exact(cluster)


def test_health_check_port_follows_the_traffic_policy(cluster):
    cluster.create("web", type="LoadBalancer")
    port = cluster.patch("web", externalTrafficPolicy="Local").spec["healthCheckNodePort"]
    assert cluster.patch("web", selector={"a": "b"}).spec["healthCheckNodePort"] == port
    assert "healthCheckNodePort" not in cluster.patch("web", externalTrafficPolicy="Cluster").spec
    assert cluster.create("next", type="NodePort", ports=[{"port": 1, "nodePort": port}]).status == 201
    assert_exact(cluster)


def test_service_without_node_ports_releases_them(cluster):
    cluster.create("web", type="NodePort", ports=[{"port": 1, "nodePort": 30001}])
    assert ports_of(cluster.patch("web", type="ClusterIP").spec) == [None]
    assert cluster.create("next", type="NodePort", ports=[{"port": 1, "nodePort": 30001}]).status == 201
    assert_exact(cluster)


def test_deleted_service_releases_its_ports(cluster):
    cluster.create("web", **BALANCED, healthCheckNodePort=30002, ports=[{"port": 1, "nodePort": 30001}])
    cluster.delete("web")
    asked = [{"name": "a", "port": 1, "nodePort": 30001}, {"name": "b", "port": 2, "nodePort": 30002}]
    assert cluster.create("next", type="NodePort", ports=asked).status == 201


def test_changed_service_keeps_old_ports_and_allocates_new_ones(cluster):
    (first,) = ports_of(cluster.create("web", type="NodePort", ports=[{"name": "a", "port": 1}]).spec)
    changed = cluster.patch("web", ports=[{"name": "b", "port": 2}, {"name": "a", "port": 1}]).spec
    other, same = ports_of(changed)
    assert same == first
    assert other not in (None, first)
    moved = cluster.patch("web", ports=[{"name": "a", "port": 1, "nodePort": 30001}]).spec
    assert ports_of(moved) == [30001]
    assert_exact(cluster)


def test_changed_service_cannot_use_one_port_twice_per_protocol(cluster):
    cluster.create("web", type="NodePort")
    twice = [{"name": "a", "port": 1, "protocol": "TCP", "nodePort": 30001}]
    twice.append({"name": "b", "port": 2, "protocol": "TCP", "nodePort": 30001})
    assert cluster.patch("web", ports=twice).refusal == (500, "duplicate nodePort: {TCP 30001}")
    cluster.create("next", type="NodePort", ports=twice[:1])
    assert_exact(cluster)


def test_cluster_ip_service_can_become_node_port(cluster):
    cluster.create("web", ports=DNS)
    ports = ports_of(cluster.patch("web", type="NodePort").spec)
    assert len(set(ports)) == 2  # only new services share: a change draws for each port
    assert_exact(cluster)


def test_port_number_of_an_external_service_is_not_allocated(cluster):
    asked = [{"port": 1, "nodePort": 30001}]
    cluster.create("outside", type="ExternalName", externalName="a.example", ports=asked)
    assert cluster.create("web", type="NodePort", ports=asked).status == 201
    assert "already allocated" in cluster.patch("outside", type="NodePort", externalName=None).refusal[1]
    cluster.delete("outside")
    assert_exact(cluster)


def test_dry_run_shows_ports_and_allocates_none(cluster):
    asked = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    assert ports_of(cluster.create("web", "?dryRun=All", type="NodePort", ports=asked).spec) == [32769, 32770]
    cluster.create("web", type="NodePort", ports=[{"port": 1, "nodePort": 30001}])
    late = cluster.create("late", "?dryRun=All", type="NodePort", ports=[{"port": 1, "nodePort": 30001}])
    assert "already allocated" in late.refusal[1]
    cluster.patch("web", "?dryRun=All", type="ClusterIP")
    assert ports_of(cluster.ask("GET", f"{SERVICES}/web").spec) == [30001]
    assert_exact(cluster)
