# SPDX-License-Identifier: Apache-2.0
"""Configuration of BIRD: mesh, route reflectors, peers outside the cluster."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from kubeloop.network.bgp.bird_config import BgpSettings, bird_config, router_id, session_names, session_nodes
from kubeloop.network.bgp.peers import BgpConfigError, parse_bgp_config
from kubeloop.network.nodes import ROUTE_REFLECTOR_LABEL, ClusterNode
from tests.skips import NEEDS_TOOL

PEER = {"name": "tor", "address": "172.30.0.254", "asn": 65000}


def node(number: int, **labels: str) -> ClusterNode:
    return ClusterNode(
        f"n{number}.example",
        (ip_network(f"10.244.{number}.0/24"), ip_network(f"fd44:0:0:{number}::/64")),
        (ip_address(f"172.30.0.{number}"), ip_address(f"fd30::{number}")),
        {key.replace("_", "-"): value for key, value in labels.items()},
    )


def reflector(number: int, value: str = "") -> ClusterNode:
    return replace(node(number), labels={ROUTE_REFLECTOR_LABEL: value})


def names(nodes: list[ClusterNode]) -> list[str]:
    return [one.name[:2] for one in nodes]


def test_nodes_without_reflectors_are_a_mesh() -> None:
    nodes = [node(1), node(2), node(3)]
    assert names(session_nodes(nodes[0], nodes)) == ["n2", "n3"]
    assert len(session_names(nodes[0], nodes)) == 4


def test_others_peer_with_reflectors_only_and_reflectors_with_all() -> None:
    nodes = [node(1), node(2), reflector(3), reflector(4)]
    assert names(session_nodes(nodes[0], nodes)) == ["n3", "n4"]
    assert names(session_nodes(nodes[2], nodes)) == ["n1", "n2", "n4"]


def test_a_node_accepts_the_networks_of_the_other_node_only() -> None:
    text = bird_config(node(1), [node(1), node(2), node(3)], BgpSettings(), Path("/run"))
    assert "import where net ~ [ 10.244.2.0/24 ];" in text
    assert "rr client" not in text
    assert 'export where proto = "pods4";' in text


def test_reflector_passes_routes_on_to_its_clients() -> None:
    nodes = [node(1), node(2), reflector(3, "10.9.9.9")]
    text = bird_config(nodes[2], nodes, BgpSettings(), Path("/run"))
    assert text.count("rr client;") == 4
    assert "rr cluster id 10.9.9.9;" in text
    client = bird_config(nodes[0], nodes, BgpSettings(), Path("/run"))
    assert "[ 10.244.2.0/24, 10.244.3.0/24 ]" in client


def test_peers_outside_the_cluster_get_pods_and_services_of_selected_nodes() -> None:
    peers = parse_bgp_config({"peers": [{**PEER, "nodeSelector": {"rack": "a"}, "accept": ["10.0.0.0/8"]}]}).peers
    settings = BgpSettings(64512, peers, (ip_network("10.96.0.0/12"),))
    text = bird_config(node(1, rack="a"), [], settings, Path("/run"))
    assert "neighbor 172.30.0.254 as 65000;" in text
    assert "import where net ~ [ 10.0.0.0/8+ ];" in text
    assert "route 10.96.0.0/12 unreachable;" in text
    assert "65000" not in bird_config(node(1, rack="b"), [], settings, Path("/run"))


def test_router_id_of_a_node_with_ipv6_only() -> None:
    lonely = replace(node(1), addresses=(ip_address("fd30::1"),))
    assert router_id(lonely).startswith("10.")
    assert router_id(lonely) == router_id(lonely)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"asn": 0}, "AS number"),
        ({"address": "router"}, "router"),
        ({"password": 'a"b'}, "password"),
        ({"multihop": 300}, "multihop"),
        ({"accept": ["all"]}, "all"),
        ({"unknown": 1}, "unknown"),
        ({"name": ""}, "no name"),
    ],
)
def test_bad_peer_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BgpConfigError, match=message):
        parse_bgp_config({"peers": [{**PEER, **change}]})


def test_two_peers_of_one_name_are_refused() -> None:
    with pytest.raises(BgpConfigError, match="two peers"):
        parse_bgp_config({"peers": [PEER, PEER]})


@pytest.mark.skipif(shutil.which("bird") is None, reason=f"{NEEDS_TOOL}bird")
@pytest.mark.parametrize("number", [1, 3])
def test_bird_accepts_the_configuration(number: int, tmp_path: Path) -> None:
    peers = [{**PEER, "password": "secret"}, {"name": "six", "address": "fd30::fe", "asn": 64512, "multihop": 2}]
    settings = BgpSettings(64512, parse_bgp_config({"peers": peers}).peers, (ip_network("10.96.0.0/12"),))
    nodes = [node(1), node(2), reflector(3)]
    path = tmp_path / "bird.conf"
    path.write_text(bird_config(nodes[number - 1], nodes, settings, tmp_path))
    done = subprocess.run(["bird", "-p", "-c", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
