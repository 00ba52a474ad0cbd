# SPDX-License-Identifier: Apache-2.0
"""Masquerading: which destinations keep the pod's address."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from kubeloop.network.masquerade import internal_networks, masquerade_script
from kubeloop.network.nodes import ClusterNode

OWN = ClusterNode("n1", (ip_network("10.244.1.0/24"), ip_network("fd44:0:0:1::/64")), (ip_address("172.30.0.1"),))
OTHER = ClusterNode("n2", (ip_network("10.244.0.0/24"),), (ip_address("172.30.0.2"),))


def test_neighbouring_networks_are_joined() -> None:
    found = internal_networks([OWN, OTHER], (), nodes_too=False)
    assert found == ["10.244.0.0/23", "fd44:0:0:1::/64"]


def test_nodes_and_further_networks() -> None:
    found = internal_networks([OWN, OTHER], (ip_network("10.0.0.0/8"),), nodes_too=True)
    assert found == ["10.0.0.0/8", "172.30.0.1/32", "172.30.0.2/32", "fd44:0:0:1::/64"]


def test_only_own_pods_are_masqueraded_once_per_family() -> None:
    script = masquerade_script(OWN, ["10.244.0.0/16", "fd44::/32"])
    rules = [line for line in script.splitlines() if line.startswith("add rule")]
    assert len(rules) == 2
    assert "add element inet kubeloop-masquerade pods-4 { 10.244.1.0/24 }" in script
    assert "add element inet kubeloop-masquerade internal-6 { fd44::/32, ff00::/8 }" in script
    assert script.splitlines()[1] == "delete table inet kubeloop-masquerade"


def test_family_without_pods_has_no_rule() -> None:
    assert "ip6" not in masquerade_script(OTHER, ["10.244.0.0/16", "fd44::/32"])
