# SPDX-License-Identifier: Apache-2.0
"""resolv.conf of pods: policies, limits, options."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import Pod, PodDNSConfig, PodDNSConfigOption, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.cri.config.dns import DnsSettings, parse_resolv_conf, pod_dns
from kubeloop.kubelet.cri.messages.sandbox import DNSConfig

HOST = DNSConfig(servers=("8.8.8.8", "8.8.4.4"), searches=("example.com",), options=("attempts:3",))
CLUSTER = DnsSettings(("10.0.0.10",), "cluster.local", HOST)
CLUSTER_DNS = DNSConfig(
    servers=("10.0.0.10",),
    searches=("ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.com"),
    options=("ndots:5",),
)


def make_pod(policy: str, own: PodDNSConfig | None = None, *, host_network: bool = False) -> Pod:
    return Pod(
        metadata=ObjectMeta(namespace="ns"), spec=PodSpec(dns_policy=policy, dns_config=own, host_network=host_network)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", DNSConfig()),
        (" \n# nameserver 1.1.1.1\n", DNSConfig()),
        ("nameserver 1.2.3.4", DNSConfig(servers=("1.2.3.4",))),
        (" nameserver \t 1.2.3.4 ", DNSConfig(servers=("1.2.3.4",))),
        ("nameserver 1.2.3.4\nnameserver 5.6.7.8", DNSConfig(servers=("1.2.3.4", "5.6.7.8"))),
        ("nameserver 1.2.3.4 # comment", DNSConfig(servers=("1.2.3.4",))),
        ("search ", DNSConfig()),
        ("search .", DNSConfig()),
        ("search foo bar.com. bat", DNSConfig(searches=("foo", "bar.com", "bat"))),
        ("search foo\nsearch bar", DNSConfig(searches=("bar",))),
        ("options ndots:5 attempts:2", DNSConfig(options=("ndots:5", "attempts:2"))),
        ("options ndots:1\noptions ndots:5 attempts:3", DNSConfig(options=("ndots:5", "attempts:3"))),
        ("options ndots:1\noptions", DNSConfig(options=("ndots:1",))),
        ("domain x\nsortlist y", DNSConfig()),
    ],
)
def test_parse(text: str, expected: DNSConfig) -> None:
    assert parse_resolv_conf(text) == expected


@pytest.mark.parametrize(
    ("policy", "host_network", "expected"),
    [
        ("ClusterFirst", False, CLUSTER_DNS),
        ("ClusterFirst", True, HOST),
        ("ClusterFirstWithHostNet", True, CLUSTER_DNS),
        ("ClusterFirstWithHostNet", False, CLUSTER_DNS),
        ("Default", False, HOST),
        ("None", False, DNSConfig()),
        ("", False, CLUSTER_DNS),
    ],
)
def test_policies(policy: str, host_network: bool, expected: DNSConfig) -> None:
    assert pod_dns(make_pod(policy, host_network=host_network), CLUSTER) == expected


def test_without_name_servers_of_the_cluster_those_of_the_host_are_used() -> None:
    assert pod_dns(make_pod("ClusterFirst"), DnsSettings((), "cluster.local", HOST)) == HOST


def test_without_a_domain_of_the_cluster_only_the_searches_of_the_host_are_used() -> None:
    found = pod_dns(make_pod("ClusterFirst"), DnsSettings(("10.0.0.10",), "", HOST))
    assert found == DNSConfig(servers=("10.0.0.10",), searches=("example.com",), options=("ndots:5",))


OWN = PodDNSConfig(
    nameservers=("1.1.1.1", "10.0.0.10"),
    searches=("my.domain", "cluster.local"),
    options=(
        PodDNSConfigOption(name="ndots", value="2"),
        PodDNSConfigOption(name="edns0"),
        PodDNSConfigOption(name="x", value=""),
    ),
)


def test_settings_of_the_pod_are_added_and_override_options() -> None:
    assert pod_dns(make_pod("None", OWN), CLUSTER) == DNSConfig(
        servers=("1.1.1.1", "10.0.0.10"), searches=("my.domain", "cluster.local"), options=("ndots:2", "edns0", "x")
    )
    found = pod_dns(make_pod("ClusterFirst", OWN), CLUSTER)
    assert found.servers == ("10.0.0.10", "1.1.1.1")
    assert found.searches == (*CLUSTER_DNS.searches, "my.domain")
    assert found.options == ("ndots:2", "edns0", "x")


@pytest.mark.parametrize(
    ("searches", "kept"),
    [
        (tuple(f"d{one}" for one in range(33)), tuple(f"d{one}" for one in range(32))),
        (("a" * 253, "b" * 254, "c"), ("a" * 253, "c")),
        (("a" * 254, *(f"d{one}" for one in range(32))), tuple(f"d{one}" for one in range(31))),
        # Eight names of 250 with blanks are 2007 characters; a ninth of 40 fits the line of 2048, one of 41 does not.
        ((*tuple(c * 250 for c in "abcdefgh"), "i" * 40), (*tuple(c * 250 for c in "abcdefgh"), "i" * 40)),
        ((*tuple(c * 250 for c in "abcdefgh"), "i" * 41), tuple(c * 250 for c in "abcdefgh")),
        ((*tuple(c * 250 for c in "abcdefgh"), "i" * 41, "j"), tuple(c * 250 for c in "abcdefgh")),
    ],
)
def test_searches_fit_the_limits(searches: tuple[str, ...], kept: tuple[str, ...]) -> None:
    assert pod_dns(make_pod("None", PodDNSConfig(searches=searches)), CLUSTER).searches == kept


def test_three_name_servers_are_kept() -> None:
    own = PodDNSConfig(nameservers=("1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"))
    assert pod_dns(make_pod("None", own), CLUSTER).servers == ("1.1.1.1", "1.1.1.2", "1.1.1.3")
