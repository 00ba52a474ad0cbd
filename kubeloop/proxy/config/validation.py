# SPDX-License-Identifier: Apache-2.0
"""Validates KubeProxyConfiguration with upstream's rules and messages. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from kubeloop.api.features.gates import InvalidFeatureGate, parse_feature_gates
from kubeloop.proxy.config.configuration import NFTABLES, KubeProxyConfiguration
from kubeloop.proxy.ip_family import parse_ip, parse_network
from kubeloop.runtime.component_config import ConfigDuration

LOCAL_MODES: Final = ("ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix")
NODEPORT_KEYWORDS: Final = ("primary", "localhost", "all")
_ROOT: Final = "KubeProxyConfiguration"
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_POSITIVE: Final = "must be greater than 0"
_PAIR: Final = "must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]"


def validate_proxy_configuration(config: KubeProxyConfiguration) -> list[str]:
    """Return the errors of a configuration."""
    return [
        *_gates(config),
        *_mode(config),
        *_bits(config),
        *_linux(config),
        *_periods(config),
        *_addresses(config),
        *_node_port_addresses(config),
        *_local_detection(config),
    ]


def _gates(config: KubeProxyConfiguration) -> Iterator[str]:
    try:
        parse_feature_gates(f"{name}={str(value).lower()}" for name, value in config.feature_gates.items())
    except InvalidFeatureGate as error:
        yield f"{_ROOT}.featureGates: Invalid value: {error}"


def _mode(config: KubeProxyConfiguration) -> Iterator[str]:
    if config.mode in ("iptables", "ipvs"):
        yield _invalid("Mode.ProxyMode", config.mode, "only the mode nftables is implemented; blank means nftables")
    elif config.mode != NFTABLES:
        yield _invalid("Mode.ProxyMode", config.mode, "must be nftables or blank (blank means nftables)")


def _bits(config: KubeProxyConfiguration) -> Iterator[str]:
    parts = (
        ("KubeProxyIPTablesConfiguration", config.iptables.masquerade_bit),
        ("KubeProxyNFTablesConfiguration", config.nftables.masquerade_bit),
    )
    for part, bit in parts:
        if not 0 <= bit <= 31:
            yield _invalid(f"{part}.MasqueradeBit", bit, "must be within the range [0, 31]")


def _linux(config: KubeProxyConfiguration) -> Iterator[str]:
    part, conntrack = "KubeProxyLinuxConfiguration", config.conntrack
    fields = {
        "MaxPerCore": conntrack.max_per_core,
        "Min": conntrack.min,
        "TCPEstablishedTimeout": conntrack.tcp_established_timeout,
        "TCPCloseWaitTimeout": conntrack.tcp_close_wait_timeout,
        "UDPTimeout": conntrack.udp_timeout,
        "UDPStreamTimeout": conntrack.udp_stream_timeout,
    }
    for name, value in fields.items():
        if value < 0:
            yield _invalid(f"{part}.KubeProxyConntrackConfiguration.{name}", value, _NOT_NEGATIVE)
    if not -1000 <= config.oom_score_adj <= 1000:
        yield _invalid(f"{part}.OOMScoreAdj", config.oom_score_adj, "must be within the range [-1000, 1000]")
    if config.client_connection.burst < 0:
        yield _invalid("ClientConnection.Burst", config.client_connection.burst, _NOT_NEGATIVE)


def _periods(config: KubeProxyConfiguration) -> Iterator[str]:
    sync, least = config.nftables.sync_period, config.nftables.min_sync_period
    if config.config_sync_period <= 0:
        yield _invalid("ConfigSyncPeriod", config.config_sync_period, _POSITIVE)
    if sync <= 0:
        yield _invalid("SyncPeriod", sync, _POSITIVE)
    if least < 0:
        yield _invalid("MinSyncPeriod", least, _NOT_NEGATIVE)
    if least > sync:
        yield _invalid("SyncPeriod", least, f"must be greater than or equal to {_ROOT}.MinSyncPeriod")


def _addresses(config: KubeProxyConfiguration) -> Iterator[str]:
    if parse_ip(config.bind_address) is None:
        yield _invalid("BindAddress", config.bind_address, "not a valid textual representation of an IP address")
    if config.healthz_bind_address:
        yield from _host_port("HealthzBindAddress", config.healthz_bind_address)
    if config.metrics_bind_address:
        yield from _host_port("MetricsBindAddress", config.metrics_bind_address)


def _host_port(field: str, text: str) -> Iterator[str]:
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        yield _invalid(field, text, "must be IP:port")
        return
    if parse_ip(host.strip("[]")) is None:
        yield _invalid(field, host, "must be a valid IP")
    if not (port.isascii() and port.isdecimal()) or not 1 <= int(port) <= 65535:
        yield _invalid(field, port, "must be a valid port")


def _node_port_addresses(config: KubeProxyConfiguration) -> Iterator[str]:
    seen: set[str] = set()
    for number, entry in enumerate(config.node_port_addresses):
        field = f"NodePortAddresses[{number}]"
        if entry in NODEPORT_KEYWORDS:
            if entry in seen:
                yield f"{_ROOT}.{field}: Duplicate value: {json.dumps(entry)}"
            seen.add(entry)
        elif parse_network(entry) is None:
            yield _invalid(field, entry, "must be a valid CIDR or one of the keywords 'primary', 'localhost', 'all'")


def _local_detection(config: KubeProxyConfiguration) -> Iterator[str]:
    mode, part = config.detect_local_mode, config.detect_local
    if mode not in LOCAL_MODES:
        known = ", ".join(json.dumps(one) for one in (*LOCAL_MODES, ""))
        yield f"{_ROOT}.DetectLocalMode: Unsupported value: {json.dumps(mode)}: supported values: {known}"
    if mode == "BridgeInterface" and not part.bridge_interface:
        yield _invalid("DetectLocalConfiguration.InterfaceName", "", "must not be empty")
    if mode == "InterfaceNamePrefix" and not part.interface_name_prefix:
        yield _invalid("DetectLocalConfiguration.InterfacePrefix", "", "must not be empty")
    if mode == "ClusterCIDR":
        yield from _cluster_cidrs(config.cluster_cidrs)


def _cluster_cidrs(texts: tuple[str, ...]) -> Iterator[str]:
    field = "DetectLocalConfiguration.ClusterCIDRs"
    if len(texts) > 2:
        yield _invalid(field, list(texts), _PAIR)
        return
    found = [parse_network(text) for text in texts]
    for number, network in enumerate(found):
        if network is None:
            detail = "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)"
            yield _invalid(f"{field}[{number}]", texts[number], detail)
    if len({one.version for one in found if one is not None}) == 1 and len(found) == 2 and None not in found:
        yield _invalid(field, list(texts), _PAIR)


def _invalid(field: str, value: Any, detail: str) -> str:
    shown = json.dumps(str(value)) if isinstance(value, str | ConfigDuration) else json.dumps(value)
    return f"{_ROOT}.{field}: Invalid value: {shown}: {detail}"
