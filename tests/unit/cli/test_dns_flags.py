# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop dns`: kubeadm's defaults, and clear errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeloop.cli.dns.flags import settings_of
from kubeloop.cli.main import parse_command
from kubeloop.dns.cluster_dns import ClusterDnsSettings
from kubeloop.dns.forward.addresses import UpstreamError
from kubeloop.dns.wire.names import encode_name


def settings(*flags: str) -> ClusterDnsSettings:
    return settings_of(parse_command(["dns", *flags]))


def test_defaults_are_those_of_kubeadm() -> None:
    options = parse_command(["dns", "--resolv-conf", ""])
    assert settings_of(options) == ClusterDnsSettings()
    assert (options.port, options.health_port, options.ready_port, options.metrics_port) == (53, 8080, 8181, 9153)
    assert (options.ttl, options.cache_ttl, options.pods, options.lameduck) == (30, 30, "insecure", 5.0)
    assert options.max_concurrent == 1000


def test_upstreams_replace_those_of_resolv_conf(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("nameserver 192.0.2.1\n")
    assert settings("--resolv-conf", str(file)).upstreams == (("192.0.2.1", 53),)
    flags = ("--resolv-conf", str(file), "--upstream", "192.0.2.2", "--upstream", "[2001:db8::1]:54")
    assert settings(*flags).upstreams == (("192.0.2.2", 53), ("2001:db8::1", 54))
    with pytest.raises(UpstreamError, match="resolv-conf"):
        settings("--resolv-conf", str(tmp_path / "missing"))


def test_domain_is_compared_in_lower_case() -> None:
    found = settings("--resolv-conf", "", "--cluster-domain", "Cluster.Example.")
    assert found.zone.domain == encode_name("cluster.example")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--upstream", "dns.example"), "is no IP address"),
        (("--ttl", "3601"), "between 0 and 3600"),
        (("--cluster-domain", "a..b"), "a label has 0 bytes"),
        (("--cluster-domain", "."), "the root"),
        (("--pods", "all"), "invalid choice"),
        (("--bind-address", "localhost"), "localhost"),
        (("--port", "65536"), "not a port"),
    ],
)
def test_invalid_flags(flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        settings(*flags)
    assert message in capsys.readouterr().err
