# SPDX-License-Identifier: Apache-2.0
"""KubeProxyConfiguration: upstream's defaults, strict decoding, upstream's validation."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.proxy.config.configuration import API_VERSION, KIND, KubeProxyConfiguration
from kubeloop.proxy.config.decode import decode_proxy_configuration
from kubeloop.proxy.config.validation import validate_proxy_configuration
from kubeloop.runtime.component_config import ComponentConfigError, plain_of

HEAD = {"apiVersion": API_VERSION, "kind": KIND}


def decode(**fields: Any) -> KubeProxyConfiguration:
    return decode_proxy_configuration({**HEAD, **fields})


def test_empty_document_has_upstreams_defaults() -> None:
    found = plain_of(decode())
    assert found["bindAddress"] == "0.0.0.0"
    assert found["healthzBindAddress"] == "0.0.0.0:10256"
    assert found["metricsBindAddress"] == "127.0.0.1:10249"
    assert found["clientConnection"] == {
        "kubeconfig": "",
        "acceptContentTypes": "",
        "contentType": "application/vnd.kubernetes.protobuf",
        "qps": 5.0,
        "burst": 10,
    }
    assert found["nftables"] == {
        "masqueradeBit": 14,
        "masqueradeAll": False,
        "syncPeriod": "30s",
        "minSyncPeriod": "1s",
    }
    assert found["conntrack"] == {
        "maxPerCore": 32768,
        "min": 131072,
        "tcpEstablishedTimeout": "24h0m0s",
        "tcpCloseWaitTimeout": "1h0m0s",
        "tcpBeLiberal": False,
        "udpTimeout": "0s",
        "udpStreamTimeout": "0s",
    }
    assert (found["oomScoreAdj"], found["configSyncPeriod"]) == (-999, "15m0s")
    assert list(found["nodePortAddresses"]) == ["primary"]
    assert found["detectLocalMode"] == "ClusterCIDR"
    assert validate_proxy_configuration(decode()) == []


def test_configuration_is_decoded_from_its_own_document() -> None:
    config = decode(clusterCIDR="10.244.0.0/16,fd44::/16", nftables={"syncPeriod": "10s", "masqueradeAll": True})
    assert decode_proxy_configuration(plain_of(config)) == config
    assert config.cluster_cidrs == ("10.244.0.0/16", "fd44::/16")


def test_zero_means_the_default_except_where_it_is_a_value() -> None:
    config = decode(
        nftables={"syncPeriod": "0s", "masqueradeBit": 0},
        conntrack={"maxPerCore": 0, "tcpEstablishedTimeout": "0s"},
        clientConnection={"qps": 0, "kubeconfig": ""},
        configSyncPeriod="0s",
        mode="",
        nodePortAddresses=[],
        ipvs=None,
    )
    assert (config.nftables.sync_period, config.nftables.masquerade_bit) == (30, 0)
    assert (config.conntrack.max_per_core, config.conntrack.tcp_established_timeout) == (0, 0)
    assert (config.client_connection.qps, config.config_sync_period, config.mode) == (5.0, 900, "nftables")
    assert config.node_port_addresses == ("primary",)


def test_ports_are_appended_to_addresses_and_follow_the_family() -> None:
    config = decode(bindAddress="fd00::1")
    assert (config.healthz_bind_address, config.metrics_bind_address) == ("[::]:10256", "[::1]:10249")
    config = decode(healthzBindAddress="192.0.2.1", metricsBindAddress="192.0.2.1:9")
    assert (config.healthz_bind_address, config.metrics_bind_address) == ("192.0.2.1:10256", "192.0.2.1:9")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the document is not an object"),
        ({}, "no apiVersion/kind"),
        ({**HEAD, "apiVersion": "kubeproxy.config.k8s.io/v1"}, "unknown apiVersion/kind"),
        ({**HEAD, "unknownField": 1}, "unknown field `unknownField`"),
        ({**HEAD, "nftables": {"bit": 1}}, "unknown field `bit`"),
        ({**HEAD, "oomScoreAdj": "many"}, "Expected `int`"),
        ({**HEAD, "configSyncPeriod": 5}, "is not a duration"),
        ({**HEAD, "configSyncPeriod": "soon"}, "duration"),
    ],
)
def test_bad_documents_are_refused(document: Any, message: str) -> None:
    with pytest.raises(ComponentConfigError, match=message):
        decode_proxy_configuration(document)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "iptables"}, 'Mode.ProxyMode: Invalid value: "iptables": only the mode nftables is implemented'),
        ({"mode": "magic"}, 'Mode.ProxyMode: Invalid value: "magic"'),
        ({"nftables": {"masqueradeBit": 32}}, "MasqueradeBit: Invalid value: 32: must be within the range [0, 31]"),
        ({"oomScoreAdj": 1001}, "OOMScoreAdj: Invalid value: 1001: must be within the range [-1000, 1000]"),
        ({"conntrack": {"min": -1}}, "Min: Invalid value: -1: must be greater than or equal to 0"),
        ({"clientConnection": {"burst": -1}}, "ClientConnection.Burst: Invalid value: -1"),
        ({"configSyncPeriod": "-1s"}, 'ConfigSyncPeriod: Invalid value: "-1s": must be greater than 0'),
        ({"nftables": {"syncPeriod": "1s", "minSyncPeriod": "2s"}}, "SyncPeriod: Invalid value"),
        ({"bindAddress": "here"}, 'BindAddress: Invalid value: "here": not a valid textual representation'),
        ({"healthzBindAddress": "here:1"}, 'HealthzBindAddress: Invalid value: "here": must be a valid IP'),
        ({"healthzBindAddress": "[fd00::1"}, 'HealthzBindAddress: Invalid value: "[fd00::1": must be IP:port'),
        ({"metricsBindAddress": "192.0.2.1:0"}, 'MetricsBindAddress: Invalid value: "0": must be a valid port'),
        ({"nodePortAddresses": ["primary", "primary"]}, 'NodePortAddresses[1]: Duplicate value: "primary"'),
        (
            {"nodePortAddresses": ["192.0.2.1"]},
            'NodePortAddresses[0]: Invalid value: "192.0.2.1": must be a valid CIDR',
        ),
        ({"detectLocalMode": "Guess"}, 'DetectLocalMode: Unsupported value: "Guess"'),
        ({"detectLocalMode": "BridgeInterface"}, "InterfaceName: Invalid value"),
        ({"detectLocalMode": "InterfaceNamePrefix"}, "InterfacePrefix: Invalid value"),
        ({"clusterCIDR": "10.0.0.0/8,11.0.0.0/8"}, "dual-stack pair"),
        ({"clusterCIDR": "10.0.0.0"}, "ClusterCIDRs[0]: Invalid value"),
        ({"clusterCIDR": "10.0.0.0/8,fd00::/8,fd01::/8"}, "dual-stack pair"),
        ({"featureGates": {"Unheard": True}}, "featureGates: Invalid value"),
    ],
)
def test_validation(fields: dict[str, Any], message: str) -> None:
    (problem,) = validate_proxy_configuration(decode(**fields))
    assert problem.startswith("KubeProxyConfiguration.")
    assert message in problem
