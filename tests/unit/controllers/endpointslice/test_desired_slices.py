# SPDX-License-Identifier: Apache-2.0
"""Tests of desired address types, endpoints and ports of a service."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerPort,
    Node,
    Pod,
    PodCondition,
    PodIP,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.controllers.endpointslice.desired_slices import (
    address_types_of,
    desired_endpoints_of,
    endpoint_of,
    ports_of,
)
from kubeloop.controllers.endpointslice.slice_labels import are_current, labels_of
from kubeloop.controllers.endpointslice.traffic import distribution_of, wants_topology
from kubeloop.controllers.shared.endpoints.slices import name_prefix

NODE = Node(metadata=ObjectMeta(name="n", labels={"topology.kubernetes.io/zone": "z"}))


def a_service(**spec: Any) -> Service:
    return Service(metadata=ObjectMeta(name="s", namespace="d"), spec=ServiceSpec(**spec))


def a_pod(*ips: str, ready: bool = True, phase: str = "Running", **spec: Any) -> Pod:
    condition = PodCondition(type="Ready", status="True" if ready else "False")
    return Pod(
        metadata=ObjectMeta(name="p", namespace="d", uid="u"),
        spec=PodSpec(node_name="n", **spec),
        status=PodStatus(phase=phase, pod_ips=tuple(PodIP(ip=one) for one in ips), conditions=(condition,)),
    )


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({"ip_families": ("IPv6", "IPv4")}, ("IPv6", "IPv4")),
        ({"ip_families": (), "cluster_ip": "10.0.0.1"}, ("IPv4",)),
        ({"ip_families": (), "cluster_ip": "fd00::1"}, ("IPv6",)),
        ({"ip_families": (), "cluster_ip": "None"}, ("IPv4", "IPv6")),
        ({}, ("IPv4", "IPv6")),
    ],
)
def test_address_types_are_the_services_families(spec: dict[str, Any], types: tuple[str, ...]) -> None:
    assert address_types_of(a_service(**spec)) == types


def test_addresses_are_canonical() -> None:
    found = endpoint_of(a_pod("010.001.000.002", "FD00:0::0A"), NODE, a_service(), "IPv4")
    assert found is not None
    assert found.addresses == ("10.1.0.2",)
    found = endpoint_of(a_pod("010.001.000.002", "FD00:0::0A"), NODE, a_service(), "IPv6")
    assert found is not None
    assert found.addresses == ("fd00::a",)


def test_invalid_addresses_are_skipped() -> None:
    assert endpoint_of(a_pod("nonsense"), NODE, a_service(), "IPv4") is None


def test_pods_on_unknown_nodes_are_separated() -> None:
    found = desired_endpoints_of(a_service(), [a_pod("10.0.0.1")], "IPv4", lambda _: None)
    assert [len(group) for group in found.groups.values()] == [0]
    assert [one.metadata.name for one in found.skipped] == ["p"]
    found = desired_endpoints_of(
        a_service(publish_not_ready_addresses=True), [a_pod("10.0.0.1")], "IPv4", lambda _: None
    )
    assert ([len(group) for group in found.groups.values()], found.skipped) == ([1], [])


@pytest.mark.parametrize("pod", [a_pod(), a_pod("10.0.0.1", phase="Failed"), a_pod("10.0.0.1", phase="Succeeded")])
def test_pods_without_address_and_terminated_pods_are_skipped(pod: Pod) -> None:
    assert desired_endpoints_of(a_service(), [pod], "IPv4", lambda _: NODE).groups == {}


def test_port_is_found_by_number_or_by_name_and_protocol() -> None:
    ports = (ContainerPort(name="web", container_port=8080, protocol="TCP"),)
    pod = a_pod("10.0.0.1", containers=(Container(name="c", ports=ports),))
    wanted = (
        ServicePort(name="a", port=80, target_port="web", protocol="TCP"),
        ServicePort(name="b", port=80, target_port="web", protocol="UDP"),
        ServicePort(name="c", port=80, target_port=90, protocol="UDP", app_protocol="x"),
        ServicePort(name="d", port=80, target_port="other", protocol="TCP"),
    )
    found = {
        port.name: (port.port, port.protocol, port.app_protocol) for port in ports_of(a_service(ports=wanted), pod)
    }
    assert found == {"a": (8080, "TCP", None), "c": (90, "UDP", "x")}


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({}, False),
        ({"service.kubernetes.io/topology-mode": "Auto"}, True),
        ({"service.kubernetes.io/topology-mode": "auto"}, True),
        ({"service.kubernetes.io/topology-mode": "Disabled"}, False),
        ({"service.kubernetes.io/topology-aware-hints": "Auto"}, True),
        (
            {"service.kubernetes.io/topology-mode": "Auto", "service.kubernetes.io/topology-aware-hints": "Disabled"},
            False,
        ),
    ],
)
def test_older_annotation_takes_precedence(annotations: dict[str, str], wanted: bool) -> None:
    assert wants_topology(annotations) is wanted


def test_unknown_distribution_is_none() -> None:
    assert distribution_of(a_service(traffic_distribution="PreferClose")) == "PreferClose"
    assert distribution_of(a_service(traffic_distribution="Nonsense")) == ""
    assert distribution_of(a_service()) == ""


def test_reserved_labels_cannot_be_set_by_the_service() -> None:
    headless = "service.kubernetes.io/headless"
    own = {
        "kubernetes.io/service-name": "s",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert labels_of(a_service(cluster_ip="None")) == {headless: "", **own}
    assert labels_of(a_service(cluster_ip="10.0.0.1")) == own
    assert are_current({headless: ""}, own)
    assert not are_current({"l": "v"}, own)


def test_long_name_has_no_dash() -> None:
    assert name_prefix("s") == "s-"
    assert name_prefix("s" * 254) == "s" * 254
