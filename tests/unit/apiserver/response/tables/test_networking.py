# SPDX-License-Identifier: Apache-2.0
"""Rows of services, endpoints, ingresses and addresses."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("spec", "balancer", "shown"),
    [
        ({"type": "ClusterIP"}, [], "<none>"),
        ({"type": "NodePort", "externalIPs": ["1.1.1.1", "2.2.2.2"]}, [], "1.1.1.1,2.2.2.2"),
        ({"type": "LoadBalancer"}, [], "<pending>"),
        ({"type": "LoadBalancer"}, [{"ip": "9.9.9.9"}, {"hostname": "a.example.org"}], "9.9.9.9,a.example.org"),
        ({"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]}, [{"ip": "9.9.9.9"}], "9.9.9.9,1.1.1.1"),
        ({"type": "ExternalName", "externalName": "db.example.org"}, [], "db.example.org"),
        ({"type": "Carrier"}, [], "<unknown>"),
    ],
)
def test_external_ip_depends_on_the_service_type(show: Any, spec: Any, balancer: Any, shown: str) -> None:
    row = show("services.v1", spec=spec, status={"loadBalancer": {"ingress": balancer}})
    assert row["External-IP"] == shown


def test_a_service_shows_ports_and_selector(show: Any) -> None:
    ports = [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]
    spec = {"type": "NodePort", "clusterIPs": ["10.0.0.1", "fd00::1"], "ports": ports, "selector": {"a": "b"}}
    row = show("services.v1", spec=spec)
    assert list(row.values()) == ["x", "NodePort", "10.0.0.1", "<none>", "80/TCP,53:30053/UDP", "5m", "a=b"]


def test_service_without_address_or_ports_shows_none(show: Any) -> None:
    row = show("services.v1", spec={"type": "ExternalName"})
    assert (row["Cluster-IP"], row["Port(s)"], row["Selector"]) == ("<none>", "<none>", "<none>")


def subset(addresses: list[str], ports: list[int]) -> dict[str, Any]:
    return {"addresses": [{"ip": ip} for ip in addresses], "ports": [{"port": port} for port in ports]}


@pytest.mark.parametrize(
    ("subsets", "shown"),
    [
        ([], "<none>"),
        ([{"notReadyAddresses": [{"ip": "10.0.0.1"}]}], ""),
        ([subset(["10.0.0.1", "10.0.0.2"], [])], "10.0.0.1,10.0.0.2"),
        ([subset(["10.0.0.1", "fd00::1"], [80])], "10.0.0.1:80,[fd00::1]:80"),
        ([subset(["10.0.0.1", "10.0.0.2"], [80, 81])], "10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 1 more..."),
    ],
)
def test_endpoints_show_the_first_three_addresses(show: Any, subsets: Any, shown: str) -> None:
    assert list(show("endpoints.v1", subsets=subsets).values()) == ["x", shown, "5m"]


@pytest.mark.parametrize(
    ("fields", "ports", "endpoints"),
    [
        ({"ports": None, "endpoints": None}, "<unset>", "<unset>"),
        ({"ports": [{"port": 80}, {"name": "any"}, {}], "endpoints": [{"addresses": ["a"]}]}, "80,any,*", "a"),
        (
            {"ports": [{"port": n} for n in range(1, 6)], "endpoints": [{"addresses": [ip]} for ip in "abcd"]},
            "1,2,3 + 2 more...",
            "a,b,c + 1 more...",
        ),
    ],
)
def test_endpoint_slices_show_the_first_three_of_each(show: Any, fields: Any, ports: str, endpoints: str) -> None:
    row = show("endpointslices.discovery.k8s.io/v1", addressType="IPv4", **fields)
    assert list(row.values()) == ["x", "IPv4", ports, endpoints, "5m"]


@pytest.mark.parametrize(
    ("hosts", "shown"),
    [
        ([], "*"),
        ([""], "*"),
        (["a", "", "b"], "a,b"),
        (["a", "b", "c"], "a,b,c"),
        (["a", "b", "c", "d", ""], "a,b,c + 2 more..."),
    ],
)
def test_an_ingress_shows_three_hosts(show: Any, hosts: list[str], shown: str) -> None:
    assert show("ingresses.networking.k8s.io/v1", spec={"rules": [{"host": h} for h in hosts]})["Hosts"] == shown


def test_an_ingress_shows_class_addresses_and_ports(show: Any) -> None:
    status = {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "h"}, {"ip": "2.2.2.2"}, {}]}}
    row = show("ingresses.networking.k8s.io/v1", spec={"ingressClassName": "fast", "tls": [{}]}, status=status)
    assert list(row.values()) == ["x", "fast", "*", "2.2.2.2,h", "80, 443", "5m"]
    bare = show("ingresses.networking.k8s.io/v1")
    assert (bare["Class"], bare["Address"], bare["Ports"]) == ("<none>", "", "80")


@pytest.mark.parametrize(
    ("annotations", "parameters", "shown"),
    [
        ({}, None, ["x", "c", "<none>", "5m"]),
        ({}, {"kind": "K", "name": "n"}, ["x", "c", "K/n", "5m"]),
        (
            {"ingressclass.kubernetes.io/is-default-class": "true"},
            {"kind": "K", "name": "n", "apiGroup": "g.org"},
            ["x (default)", "c", "K.g.org/n", "5m"],
        ),
    ],
)
def test_ingress_class_shows_parameters_and_default(
    show: Any, annotations: Any, parameters: Any, shown: list[str]
) -> None:
    spec = {"controller": "c", "parameters": parameters}
    row = show("ingressclasses.networking.k8s.io/v1", {"annotations": annotations}, spec=spec)
    assert list(row.values()) == shown


def test_network_policy_shows_its_pod_selector(show: Any) -> None:
    kind = "networkpolicies.networking.k8s.io/v1"
    assert show(kind, spec={"podSelector": {}})["Pod-Selector"] == "<none>"
    assert show(kind, spec={"podSelector": {"matchLabels": {"a": "b"}}})["Pod-Selector"] == "a=b"


def test_a_service_cidr_lists_its_ranges(show: Any) -> None:
    row = show("servicecidrs.networking.k8s.io/v1", spec={"cidrs": ["10.0.0.0/16", "fd00::/108"]})
    assert list(row.values()) == ["x", "10.0.0.0/16,fd00::/108", "5m"]


@pytest.mark.parametrize(
    ("parent", "shown"),
    [
        (None, "<none>"),
        ({"resource": "services", "namespace": "ns", "name": "s"}, "services/ns/s"),
        ({"group": "Example.org", "resource": "things", "name": "t"}, "things.example.org/t"),
    ],
)
def test_an_address_names_its_parent(show: Any, parent: Any, shown: str) -> None:
    assert show("ipaddresses.networking.k8s.io/v1", spec={"parentRef": parent})["ParentRef"] == shown
