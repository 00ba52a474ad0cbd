# SPDX-License-Identifier: Apache-2.0
"""Addresses of the node, kernel settings, and messages of the kernel."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from kubeloop.api.generated.core_v1 import Node, NodeAddress, NodeStatus
from kubeloop.proxy.app import detectors_of
from kubeloop.proxy.config.configuration import ConntrackConfiguration
from kubeloop.proxy.config.decode import configuration_of
from kubeloop.proxy.ip_family import IPV4, IPV6, parse_ip, parse_network
from kubeloop.proxy.kernel.conntrack import parse_udp_flow
from kubeloop.proxy.kernel.netlink import attribute, attributes
from kubeloop.proxy.kernel.settings import (
    KernelSettingsError,
    apply_conntrack_settings,
    check_kernel_version,
    conntrack_settings,
    online_cpus,
    supported_families,
)
from kubeloop.proxy.node_addresses import (
    LocalTrafficDetector,
    detect_node_ips,
    expand_nodeport_keywords,
    node_host_ips,
    nodeport_addresses,
)
from kubeloop.runtime.component_config import ConfigDuration


def test_addresses_with_leading_zeros_and_host_bits() -> None:
    assert str(parse_ip("010.001.0.5")) == "10.1.0.5"
    assert parse_ip("10.1.0") is None
    assert parse_ip("10.1.0.x") is None
    assert parse_ip("10.1.0.999") is None
    assert str(parse_network("010.1.2.3/16")) == "10.1.0.0/16"
    assert parse_network("10.1.2.3") is None
    assert parse_network("10.1.2.3/33") is None


def test_internal_addresses_come_before_external_ones() -> None:
    rows = [("ExternalIP", "203.0.113.1"), ("InternalIP", "fd00::1"), ("InternalIP", "fd00::2"), ("Hostname", "n1")]
    node = Node(status=NodeStatus(addresses=tuple(NodeAddress(type=kind, address=text) for kind, text in rows)))
    assert node_host_ips(node) == ("fd00::1", "203.0.113.1")


@pytest.mark.parametrize(
    ("host_ips", "bind", "primary", "four", "six"),
    [
        ((), "0.0.0.0", IPV4, "127.0.0.1", "::1"),
        (("192.0.2.1",), "0.0.0.0", IPV4, "192.0.2.1", "::1"),
        (("fd00::1", "192.0.2.1"), "0.0.0.0", IPV6, "192.0.2.1", "fd00::1"),
        (("192.0.2.1",), "fd00::9", IPV6, "192.0.2.1", "fd00::9"),
        (("192.0.2.1",), "::", IPV4, "192.0.2.1", "::1"),
    ],
)
def test_node_ips(host_ips: tuple[str, ...], bind: str, primary: object, four: str, six: str) -> None:
    found = detect_node_ips(host_ips, bind)
    assert (found.primary, found.by_family[IPV4], found.by_family[IPV6]) == (primary, four, six)


def test_keywords_of_node_port_addresses() -> None:
    ips = detect_node_ips(("192.0.2.1",), "0.0.0.0")
    assert expand_nodeport_keywords(["primary", "198.51.100.0/24"], ips) == ("192.0.2.1/32", "198.51.100.0/24")
    assert expand_nodeport_keywords(["localhost", "all"], ips) == ("127.0.0.0/8", "::1/128", "0.0.0.0/0", "::/0")
    four = nodeport_addresses(("192.0.2.0/24", "127.0.0.0/8", "fd00::/64"), IPV4)
    assert four.node_ips(("192.0.2.9", "192.0.2.1", "127.0.0.1", "10.0.0.1")) == ("192.0.2.1", "192.0.2.9")
    assert four.contains_explicit_loopback
    assert not four.match_all
    assert nodeport_addresses(("192.0.2.0/24",), IPV6).match_all  # none of this family


def test_detection_of_pod_traffic() -> None:
    config = configuration_of({"clusterCIDR": "10.244.0.0/16"})
    assert detectors_of(config, ()) == {IPV4: LocalTrafficDetector("network", "10.244.0.0/16")}
    config = configuration_of({"detectLocalMode": "NodeCIDR"})
    assert detectors_of(config, ("10.244.7.0/24", "fd44:7::/64"))[IPV6].value == "fd44:7::/64"
    config = configuration_of(
        {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": "veth"}}
    )
    assert detectors_of(config, ())[IPV4] == LocalTrafficDetector("interface", "veth*")
    config = configuration_of({"detectLocalMode": "BridgeInterface", "detectLocal": {"bridgeInterface": "cni0"}})
    assert detectors_of(config, ())[IPV6] == LocalTrafficDetector("interface", "cni0")


@pytest.mark.parametrize(("per_core", "least", "expected"), [(100, 0, 400), (100, 900, 900), (1 << 20, 0, 1 << 20)])
def test_largest_number_of_tracked_connections(per_core: int, least: int, expected: int) -> None:
    found = conntrack_settings(ConntrackConfiguration(max_per_core=per_core, min=least), 4)
    assert found["nf_conntrack_max"] == expected


def test_conntrack_settings_that_stay_as_they_are() -> None:
    zero = ConfigDuration(0)
    config = ConntrackConfiguration(max_per_core=0, tcp_established_timeout=zero, tcp_close_wait_timeout=zero)
    assert conntrack_settings(config, 4) == {}


def test_kernel_settings_are_written_only_if_they_differ(tmp_path: Path) -> None:
    folder, module = tmp_path / "proc/sys/net/netfilter", tmp_path / "sys/module/nf_conntrack/parameters"
    folder.mkdir(parents=True)
    module.mkdir(parents=True)
    (folder / "nf_conntrack_max").write_text("7\n")
    (module / "hashsize").write_text("10\n")
    apply_conntrack_settings({"nf_conntrack_max": 400}, tmp_path)
    assert (folder / "nf_conntrack_max").read_text() == "400"
    assert (module / "hashsize").read_text() == "100"
    with pytest.raises(KernelSettingsError, match="nf_conntrack_udp_timeout cannot be set to 5"):
        apply_conntrack_settings({"nf_conntrack_udp_timeout": 5}, tmp_path)


def test_machine(tmp_path: Path) -> None:
    assert supported_families(tmp_path) == (IPV4,)
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/if_inet6").write_text("")
    assert supported_families(tmp_path) == (IPV4, IPV6)
    (tmp_path / "proc/sys/net/ipv6/conf/all").mkdir(parents=True)
    (tmp_path / "proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1\n")
    assert supported_families(tmp_path) == (IPV4,)
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-3,8\n")
    assert online_cpus(tmp_path) == 5
    check_kernel_version("6.1.0-13-amd64")
    with pytest.raises(KernelSettingsError, match=r"requires kernel 5\.13 or later"):
        check_kernel_version("5.4.0")


def tuple_of(source: str, destination: str, ports: tuple[int, int], protocol: int) -> bytes:
    addresses = attribute(1, socket.inet_aton(source)) + attribute(2, socket.inet_aton(destination))
    numbers = attribute(1, bytes([protocol])) + attribute(2, struct.pack(">H", ports[0]))
    numbers += attribute(3, struct.pack(">H", ports[1]))
    return attribute(0x8001, addresses) + attribute(0x8002, numbers)


def message(protocol: int) -> bytes:
    original = tuple_of("192.0.2.9", "10.96.0.1", (5000, 53), protocol)
    reply = tuple_of("10.244.0.1", "192.0.2.9", (5353, 5000), protocol)
    return b"\x02\0\0\0" + attribute(0x8001, original) + attribute(0x8002, reply) + attribute(12, b"\0\0\0\x07")


def test_flow_of_a_conntrack_message() -> None:
    found = parse_udp_flow(message(socket.IPPROTO_UDP), socket.AF_INET)
    assert found is not None
    assert found[:4] == ("10.96.0.1", 53, "10.244.0.1", 5353)
    assert [kind for kind, _ in attributes(found.identity)] == [1, 12]
    assert parse_udp_flow(message(socket.IPPROTO_TCP), socket.AF_INET) is None


@pytest.mark.parametrize("end", range(0, 120, 7))
def test_truncated_messages_are_no_error(end: int) -> None:
    parse_udp_flow(message(socket.IPPROTO_UDP)[:end], socket.AF_INET)
