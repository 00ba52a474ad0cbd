# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop network`."""

from __future__ import annotations

from argparse import Namespace
from ipaddress import ip_network
from pathlib import Path

import pytest

from kubeloop.cli.main import build_parser
from kubeloop.cli.network.bgp import bgp_backend
from kubeloop.cli.network.run import config_of
from kubeloop.metrics import MetricRegistry


def parse(*arguments: str) -> Namespace:
    return build_parser("network").parse_args(["--kubeconfig", "k", "--node-name", "n1", *arguments])


def test_defaults() -> None:
    config = config_of(parse())
    network = config.pod_network
    assert (network.node_name, network.cni_folder, network.masquerades) == ("n1", Path("/etc/cni/net.d"), True)
    assert network.cni.report_socket == "/run/kubeloop-network/cni.sock"
    assert (config.has_policies, config.plugin_folder) == (True, Path("/opt/cni/bin"))
    assert config.list_sandboxes is None


def test_without_policies_no_addresses_are_reported() -> None:
    config = config_of(parse("--network-policy=false", "--cni-chain", "", "--cluster-cidr", "10.0.0.0/8,fd00::/8"))
    assert (config.pod_network.cni.report_socket, config.plugin_folder) == ("", None)
    assert config.pod_network.cni.chain == ()
    assert config.pod_network.internal_networks == (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


def test_no_folder_means_no_configuration() -> None:
    config = config_of(parse("--cni-conf-dir", "", "--node-ip", "10.0.0.1, fd00::1"))
    assert config.pod_network.cni_folder is None
    assert config.pod_network.node_ips == ("10.0.0.1", "fd00::1")


@pytest.mark.parametrize(
    "flags",
    [
        ("--backend", "ipip"),
        ("--node-ip", "10.0.0.1,10.0.0.2"),
        ("--node-ip", "somewhere"),
        ("--cluster-cidr", "10.0.0.1/8"),
        ("--cni-chain", "unknown"),
        ("--vxlan-vni", "16777216"),
        ("--bgp-as", "0"),
        ("--mtu", "-1"),
    ],
)
def test_bad_values_are_refused(flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(*flags)
    assert flags[0] in capsys.readouterr().err


def test_bad_peers_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "peers.yaml"
    path.write_text("peers: [{name: a, address: x, asn: 1}]")
    with pytest.raises(ValueError, match=r"peers\.yaml.*peer a"):
        bgp_backend(parse("--bgp-config", str(path)), MetricRegistry())
    path.write_text("peers: [{name: a, address: 10.0.0.1, asn: 1}]")
    backend = bgp_backend(parse("--bgp-config", str(path)), MetricRegistry())
    assert backend.name == "bgp"
