# SPDX-License-Identifier: Apache-2.0
"""CNI configuration: its content and how it is written."""

from __future__ import annotations

import json
from ipaddress import ip_network
from pathlib import Path

import pytest

from kubeloop.network.cni.cni_config import CniSettings, build_config, encode_config
from kubeloop.network.cni.config_writer import ConfigWriter

CIDRS = (ip_network("10.244.1.0/24"), ip_network("fd44:0:0:1::/64"))


def test_point_to_point_with_both_families() -> None:
    config = build_config(CniSettings(report_socket="/run/a.sock"), CIDRS, 1450)
    main, *chained = config["plugins"]
    assert (config["cniVersion"], config["name"]) == ("1.0.0", "kubeloop")
    assert (main["type"], main["mtu"], main["ipMasq"]) == ("ptp", 1450, False)
    assert main["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}], [{"subnet": "fd44:0:0:1::/64"}]]
    assert main["ipam"]["routes"] == [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]
    assert [one["type"] for one in chained] == ["portmap", "bandwidth", "kubeloop-policy"]
    assert chained[0]["capabilities"] == {"portMappings": True}
    assert chained[2]["socket"] == "/run/a.sock"


def test_bridge_with_tuning() -> None:
    settings = CniSettings(main_plugin="bridge", chain=("tuning", "firewall"), sysctls={"net.core.somaxconn": "512"})
    main, tuning, firewall = build_config(settings, CIDRS[:1], 1500)["plugins"]
    assert (main["bridge"], main["isGateway"], main["hairpinMode"]) == ("kubeloop0", True, True)
    assert tuning == {"type": "tuning", "sysctl": {"net.core.somaxconn": "512"}}
    assert firewall == {"type": "firewall"}


def test_file_is_written_once_and_whole(tmp_path: Path) -> None:
    writer = ConfigWriter(tmp_path / "net.d")
    content = encode_config(build_config(CniSettings(), CIDRS, 1500))
    assert writer.write(content)
    first = writer.path.stat()
    assert not writer.write(content)
    assert writer.path.stat().st_mtime_ns == first.st_mtime_ns
    assert writer.write(encode_config(build_config(CniSettings(), CIDRS, 1400)))
    assert json.loads(writer.path.read_text())["plugins"][0]["mtu"] == 1400
    assert [path.name for path in writer.path.parent.iterdir()] == ["10-kubeloop.conflist"]


def test_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "net.d").write_text("")
    with pytest.raises(OSError, match=r"net\.d"):
        ConfigWriter(tmp_path / "net.d").write(b"{}")
