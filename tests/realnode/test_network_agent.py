# SPDX-License-Identifier: Apache-2.0
"""Agents of the pod network by the real kernel: repair, CNI configuration, route reflectors, routers outside."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.realnode.network_lab import NetworkLab, bgp_sessions, node_routes
from tests.realnode.network_probe import Probe

pytestmark = pytest.mark.realnode


def test_changes_of_others_are_restored_and_other_routes_stay(lab: NetworkLab) -> None:
    lab.run(lab.node(1), "ip", "route", "add", "10.250.0.0/16", "via", "172.30.0.2")
    lab.start_agent(1, "host-gw")
    lab.start_agent(2, "host-gw")
    lab.wait_ready(1, 2)
    lab.run(lab.node(1), "ip", "route", "delete", "10.244.2.0/24", "via", "172.30.0.2")
    lab.kubectl("annotate", "node", "n1", f"test/at={time.time()}")  # any change of the own node starts a round
    lab.eventually(lambda: any("10.244.2.0/24 via 172.30.0.2" in one for one in node_routes(lab, 1)))
    assert "10.250.0.0/16 via 172.30.0.2" in lab.run(lab.node(1), "ip", "route")
    assert "kubeloop-vxlan" not in lab.run(lab.node(1), "ip", "link")
    for number in (1, 2):
        lab.stop_agent(number)
    lab.run(lab.node(1), "ip", "route", "delete", "10.250.0.0/16")


def test_cni_configuration_appears_with_the_pod_cidr(lab: NetworkLab) -> None:
    lab.cable(4, "172.30.0.4")
    lab.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n4"}})
    lab.set_node_addresses(4, "172.30.0.4")
    lab.start_agent(4, "vxlan", "--cni-plugin", "bridge", "--cni-chain", "portmap")
    folder: Path = lab.agent_folder(4)
    lab.eventually(lambda: "has no pod CIDR" in (lab.folder / "agent4.log").read_text())
    assert not list((folder / "net.d").glob("*"))
    patch = {"spec": {"podCIDR": "10.244.4.0/24", "podCIDRs": ["10.244.4.0/24"]}}
    lab.kubectl("patch", "node", "n4", "-p", json.dumps(patch))
    [path] = lab.eventually(lambda: list((folder / "net.d").glob("*.conflist")))
    plugins = json.loads(path.read_text())["plugins"]
    assert [one["type"] for one in plugins] == ["bridge", "portmap", "kubeloop-policy"]
    assert plugins[0]["mtu"] == 1450
    assert plugins[0]["ipam"]["ranges"] == [[{"subnet": "10.244.4.0/24"}]]
    lab.stop_agent(4)
    lab.kubectl("delete", "node", "n4")


ROUTER = """
router id 172.30.0.254;
protocol device { scan time 10; }
protocol direct { ipv4; }
protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }
"""


def test_route_reflector_and_router_outside_the_cluster(lab: NetworkLab) -> None:
    peers = lab.folder / "peers.yaml"
    peers.write_text("peers: [{name: router, address: 172.30.0.254, asn: 65000, password: secret}]")
    config = lab.folder / "router.conf"
    peer = (
        'protocol bgp n{n} {{ local 172.30.0.254 as 65000; neighbor 172.30.0.{n} as 64512; direct; password "secret"; '
    )
    peer += (
        "connect retry time 5; connect delay time 1; error wait time 2, 5; ipv4 {{ import all; export none; }}; }}\n"
    )
    config.write_text(ROUTER + "".join(peer.format(n=number) for number in (1, 2, 3)))
    lab.run(lab.fabric, "bird", "-c", str(config), "-s", str(lab.folder / "router.ctl"), "-P", str(lab.folder / "pid"))
    lab.kubectl("label", "node", "n2", "network.kubeloop.io/route-reflector=")
    try:
        for number in (1, 2, 3):
            lab.start_agent(number, "bgp", "--bgp-config", str(peers), "--bgp-advertise", "10.96.0.0/12")
        lab.wait_ready(1, 2, 3)
        for number in (1, 2, 3):
            lab.add_pod(f"default/p{number}", number)
        lab.wait_mesh()
        names = {name.split("_")[1] for name in bgp_sessions(lab, 1)}
        assert names == {"n2", "router"}  # n3 is reached by routes that n2 passes on
        assert any("10.244.3.0/24 via 172.30.0.3" in one for one in node_routes(lab, 1))
        lab.eventually(lambda: "10.96.0.0/12" in lab.run(lab.fabric, "ip", "route"))
        for pod in lab.pods.values():
            probe = Probe(lab.fabric, pod.address(4), 80)
            lab.eventually(lambda probe=probe: lab.servers.probe([probe], 2.0)[probe])  # type: ignore[misc]
        for number in (1, 2, 3):
            lab.remove_pod(f"default/p{number}")
    finally:
        lab.kubectl("label", "node", "n2", "network.kubeloop.io/route-reflector-")
        lab.run(lab.fabric, "birdc", "-s", str(lab.folder / "router.ctl"), "down", check=False)
        lab.stop()


def test_tunnels_over_ipv6_by_published_addresses(lab: NetworkLab) -> None:
    try:
        for number in (1, 2):
            lab.start_agent(number, "vxlan", "--node-ip", f"fd30::{number}")
        lab.wait_ready(1, 2)
        annotations = json.loads(lab.kubectl("get", "node", "n1", "-o", "json"))["metadata"]["annotations"]
        assert annotations["network.kubeloop.io/node-ips"] == "fd30::1"
        for number in (1, 2):
            lab.add_pod(f"default/p{number}", number)
        lab.wait_mesh()
        link = json.loads(lab.run(lab.node(1), "ip", "-j", "-d", "link", "show", "kubeloop-vxlan"))[0]
        assert (link["linkinfo"]["info_data"]["local6"], link["mtu"]) == ("fd30::1", 1430)
        for number in (1, 2):
            lab.remove_pod(f"default/p{number}")
    finally:
        lab.stop()


def test_bridge_with_policies_and_another_backend_removes_the_tunnel(lab: NetworkLab) -> None:
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "deny"}}
    policy |= {"spec": {"podSelector": {"matchLabels": {"pod": "p1"}}, "policyTypes": ["Ingress"]}}
    try:
        for number in (1, 2):
            lab.start_agent(number, "host-gw", "--cni-plugin", "bridge")
        lab.wait_ready(1, 2)
        assert "kubeloop-vxlan" not in lab.run(lab.node(1), "ip", "link")
        annotations = json.loads(lab.kubectl("get", "node", "n1", "-o", "json"))["metadata"]["annotations"]
        assert "network.kubeloop.io/node-ips" not in annotations
        for name, number in (("p1", 1), ("p2", 1), ("p3", 2)):
            lab.add_pod(f"default/{name}", number)
        lab.wait_mesh()
        lab.apply(policy)
        for version in (4, 6):
            # p2 is on the same bridge: its packets pass the rules by br_netfilter.
            for source in ("default/p2", "default/p3"):
                lab.eventually(lambda s=source, v=version: not lab.reaches(s, "default/p1", v))  # type: ignore[misc]
            assert lab.reaches("default/p1", "default/p2", version)
        lab.kubectl("delete", "networkpolicy", "deny")
        lab.wait_mesh()
        for name in ("p1", "p2", "p3"):
            lab.remove_pod(f"default/{name}")
    finally:
        lab.stop()
