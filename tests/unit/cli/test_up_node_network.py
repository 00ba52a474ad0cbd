# SPDX-License-Identifier: Apache-2.0
"""Tests of the network of the real node of `kubeloop up`: folders of the runtime, flags of its programs, refusals."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from kubeloop.apiserver.server import StartupError
from kubeloop.cli.main import build_parser
from kubeloop.cli.network.removal import (
    NodeNetworkRecord,
    load_network_record,
    remove_node_network,
    save_network_record,
)
from kubeloop.cli.up.node_network import plan as plans
from kubeloop.cli.up.node_network import requirements
from kubeloop.cli.up.node_network.plan import (
    NodeIdentity,
    free_port,
    new_network_plan,
    program_options,
    run_folder,
    upstreams_of,
)
from kubeloop.cli.up.node_network.requirements import CniFolders, check_cni, check_machine, cni_folders_of
from kubeloop.cli.up.run import cluster_networks, options_of
from kubeloop.nftables import NftablesUnavailable

CNI = CniFolders(Path("/net.d"), Path("/bin"))
STANDARD = ("ptp", "portmap", "host-local")


@pytest.fixture
def identity(tmp_path: Path) -> NodeIdentity:
    return NodeIdentity("host", "127.0.0.1", "unix:///run/s", tmp_path / "kubeconfig", tmp_path)


def test_runtime_tells_its_folders() -> None:
    info = {"config": json.dumps({"cni": {"confDir": "/a", "binDir": "/b", "maxConfNum": 1}})}
    assert cni_folders_of(info) == CniFolders(Path("/a"), Path("/b"))
    newer = {"config": json.dumps({"cni": {"confDir": "/a", "binDir": "", "binDirs": ["/c", "/d"]}})}
    assert cni_folders_of(newer) == CniFolders(Path("/a"), Path("/c"))


@pytest.mark.parametrize("info", [{}, {"config": "{"}, {"config": "[]"}, {"config": '{"cni": null}'}])
def test_runtime_that_does_not_tell_has_the_usual_folders(info: dict[str, str]) -> None:
    found = cni_folders_of(info)
    assert found.configurations == Path("/etc/cni/net.d")
    assert str(found.plugins) in ("/opt/cni/bin", "/usr/lib/cni")


def test_configurations_of_other_programs_are_refused(tmp_path: Path) -> None:
    for name in STANDARD:
        (tmp_path / name).touch()
    own = tmp_path / "net.d"
    check_cni(own, tmp_path, STANDARD[:2])  # the folder need not exist
    own.mkdir()
    for name in ("10-kubeloop.conflist", "README", "87-podman.conflist.bak"):
        (own / name).touch()
    check_cni(own, tmp_path, STANDARD[:2])
    (own / "05-other.conf").touch()
    with pytest.raises(StartupError, match=r"another program \(05-other.conf\).*--node-network=none leaves"):
        check_cni(own, tmp_path, STANDARD[:2])


def test_missing_plugins_are_named(tmp_path: Path) -> None:
    (tmp_path / "ptp").touch()
    with pytest.raises(
        StartupError, match=r"has no CNI plugin portmap and no host-local: install .*--node-network=none"
    ):
        check_cni(tmp_path / "net.d", tmp_path, STANDARD[:2])


def test_missing_root_and_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(StartupError, match=r"it must run as root; --node-network=none leaves"):
        asyncio.run(check_machine())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    with pytest.raises(StartupError, match=r"needs pyroute2: pip install .*--node-network=none leaves"):
        asyncio.run(check_machine())
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    async def unavailable() -> None:
        raise NftablesUnavailable("there is no program nft")

    monkeypatch.setattr(requirements, "open_nftables", unavailable)
    with pytest.raises(StartupError, match=r"there is no program nft; --node-network=none leaves"):
        asyncio.run(check_machine())


def test_upstream_resolvers_do_not_lead_back() -> None:
    text = "nameserver 10.96.0.10\nnameserver 192.0.2.1\nnameserver 192.0.2.53\nsearch example.com\n"
    assert upstreams_of(text, ("192.0.2.1", "10.96.0.10")) == ["192.0.2.53"]


def test_flags_of_the_user_replace_the_usual_ones(identity: NodeIdentity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_RESOLV_CONF", identity.folder / "missing")
    plan = new_network_plan("10.244.0.0/16", "10.96.0.0/12", ("backend=host-gw",), ("masquerade-all",), ("port=5353",))
    found = program_options(plan, identity, CNI)
    network = found.network
    assert (network.backend, network.node_name, network.cni_conf_dir, network.cni_bin_dir) == (
        *("host-gw", "host"),
        *("/net.d", "/bin"),
    )
    assert found.proxy_options.config.nftables.masquerade_all
    assert found.proxy_options.config.cluster_cidr == "10.244.0.0/16"
    assert (found.dns.port, found.dns.bind_addresses, found.dns.resolv_conf) == (5353, ["127.0.0.1"], "")


def test_upstream_resolvers_of_the_user_are_the_only_ones(identity: NodeIdentity) -> None:
    plan = new_network_plan("10.244.0.0/16", "10.96.0.0/12", (), (), ("upstream=192.0.2.9",))
    assert program_options(plan, identity, CNI).dns.upstreams == [("192.0.2.9", 53)]


def test_service_range_without_an_address_for_dns_is_refused() -> None:
    assert new_network_plan("10.244.0.0/16", "10.96.0.0/12,fd96::/112").dns_ip == "10.96.0.10"
    with pytest.raises(StartupError, match=r"--service-cluster-ip-range: .* has no tenth address"):
        new_network_plan("10.244.0.0/16", "10.96.0.0/29")


def test_networks_of_a_cluster_without_a_real_node_are_those_of_kube_apiserver() -> None:
    options = build_parser("up").parse_args([])
    assert (
        cluster_networks(options, has_network=False).pods,
        cluster_networks(options, has_network=False).services,
    ) == (
        "",
        "10.0.0.0/24",
    )
    full = cluster_networks(options, has_network=True)
    assert (full.pods, full.services) == ("10.244.0.0/16", "10.96.0.0/12")
    given = build_parser("up").parse_args(["--cluster-cidr", "10.9.0.0/16,fd44::/48"])
    assert cluster_networks(given, has_network=True).pods == "10.9.0.0/16,fd44::/48"


@pytest.mark.parametrize("flag", ["--kubelet-arg", "--network-arg", "--proxy-arg", "--dns-arg"])
def test_flags_of_the_node_require_a_runtime(flag: str, tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=f"{flag} requires --runtime"):
        options_of(build_parser("up").parse_args([flag, "v=1"]), tmp_path)


def test_loopback_is_the_default_address_of_a_cluster_without_real_pods(tmp_path: Path) -> None:
    assert options_of(build_parser("up").parse_args(["--port", "0"]), tmp_path).host == "127.0.0.1"


def test_port_of_another_program_is_not_used() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert free_port("127.0.0.1", other.getsockname()[1]) == 0


def test_folder_of_sockets_has_a_short_path(tmp_path: Path) -> None:
    assert len(str(run_folder(tmp_path / ("a" * 200)))) < 50
    assert run_folder(tmp_path / "a") != run_folder(tmp_path / "b")


def test_network_of_a_later_cluster_is_not_removed(tmp_path: Path) -> None:
    configuration, own = tmp_path / "10-kubeloop.conflist", tmp_path / "own"
    configuration.write_text('{"plugins": [{"ipam": {"dataDir": "/later/addresses"}}]}')
    own.mkdir()
    asyncio.run(remove_node_network(NodeNetworkRecord(str(configuration), str(own), str(tmp_path / "run"))))
    assert configuration.exists()
    assert not own.exists()


def test_record_of_a_network_is_read_again(tmp_path: Path) -> None:
    assert load_network_record(tmp_path) is None
    record = NodeNetworkRecord("/net.d/10-kubeloop.conflist", "/addresses", "/run/x")
    save_network_record(tmp_path, record)
    assert load_network_record(tmp_path) == record
