# SPDX-License-Identifier: Apache-2.0
"""Fields of KubeProxyConfiguration v1alpha1, with upstream's defaults. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubeloop.api.scalars.duration import SECOND, format_duration, parse_duration

API_VERSION: Final = "kubeproxy.config.k8s.io/v1alpha1"
KIND: Final = "KubeProxyConfiguration"
HEALTHZ_PORT: Final = 10256
METRICS_PORT: Final = 10249
NFTABLES: Final = "nftables"
# Field names that are not plain camel case.
_WIRE_NAMES: Final = {
    "cluster_cidr": "clusterCIDR",
    "enable_dsr": "enableDSR",
    "exclude_cidrs": "excludeCIDRs",
    "strict_arp": "strictARP",
    "vmodule": "vmodule",
}


class ProxyDuration(float):
    """Duration in seconds, which files write as Go does: `1m30s`."""

    def __str__(self) -> str:
        return format_duration(round(self * SECOND))


def decode_proxy_duration(kind: type, value: object) -> object:
    """Decode hook of msgspec for durations. Raises ValueError for another type or a malformed duration."""
    if kind is not ProxyDuration or not isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration such as 1m30s")
    return ProxyDuration(parse_duration(value) / SECOND)


def _wire_name(field: str) -> str:
    first, *rest = field.split("_")
    return _WIRE_NAMES.get(field, first + "".join(word.capitalize() for word in rest))


class ProxyConfigPart(msgspec.Struct, frozen=True, kw_only=True, rename=_wire_name, forbid_unknown_fields=True):
    """Base of the configuration's parts: unknown fields are refused."""


class ProxyClientConnection(ProxyConfigPart, frozen=True, kw_only=True):
    """ClientConnectionConfiguration of component-base."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 5.0
    burst: int = 10


class ProxyOutputRouting(ProxyConfigPart, frozen=True, kw_only=True):
    """OutputRoutingOptions of component-base."""

    split_stream: bool = False
    info_buffer_size: str | int = "0"


class ProxyLogFormatOptions(ProxyConfigPart, frozen=True, kw_only=True):
    """FormatOptions of component-base."""

    text: ProxyOutputRouting = ProxyOutputRouting()
    json: ProxyOutputRouting = ProxyOutputRouting()


class ProxyLogging(ProxyConfigPart, frozen=True, kw_only=True):
    """LoggingConfiguration of component-base."""

    format: str = "text"
    flush_frequency: str | int = "5s"
    verbosity: int = 0
    vmodule: tuple[Mapping[str, Any], ...] = ()
    options: ProxyLogFormatOptions = ProxyLogFormatOptions()


class IPTablesConfiguration(ProxyConfigPart, frozen=True, kw_only=True):
    """KubeProxyIPTablesConfiguration: without effect."""

    masquerade_bit: int = 14
    masquerade_all: bool = False
    localhost_node_ports: bool = True
    sync_period: ProxyDuration = ProxyDuration(30)
    min_sync_period: ProxyDuration = ProxyDuration(1)


class IPVSConfiguration(ProxyConfigPart, frozen=True, kw_only=True):
    """KubeProxyIPVSConfiguration: without effect."""

    sync_period: ProxyDuration = ProxyDuration(30)
    min_sync_period: ProxyDuration = ProxyDuration(0)
    scheduler: str = ""
    exclude_cidrs: tuple[str, ...] = ()
    strict_arp: bool = False
    tcp_timeout: ProxyDuration = ProxyDuration(0)
    tcp_fin_timeout: ProxyDuration = ProxyDuration(0)
    udp_timeout: ProxyDuration = ProxyDuration(0)


class NFTablesConfiguration(ProxyConfigPart, frozen=True, kw_only=True):
    """KubeProxyNFTablesConfiguration."""

    masquerade_bit: int = 14
    masquerade_all: bool = False
    sync_period: ProxyDuration = ProxyDuration(30)
    min_sync_period: ProxyDuration = ProxyDuration(1)


class WinkernelConfiguration(ProxyConfigPart, frozen=True, kw_only=True):
    """KubeProxyWinkernelConfiguration: without effect."""

    network_name: str = ""
    source_vip: str = ""
    enable_dsr: bool = False
    root_hns_endpoint_name: str = ""
    forward_health_check_vip: bool = False


class DetectLocalConfiguration(ProxyConfigPart, frozen=True, kw_only=True):
    """DetectLocalConfiguration."""

    bridge_interface: str = ""
    interface_name_prefix: str = ""


class ConntrackConfiguration(ProxyConfigPart, frozen=True, kw_only=True):
    """KubeProxyConntrackConfiguration; a duration of 0 leaves the kernel's setting as it is."""

    max_per_core: int = 32 * 1024
    min: int = 128 * 1024
    tcp_established_timeout: ProxyDuration = ProxyDuration(24 * 3600)
    tcp_close_wait_timeout: ProxyDuration = ProxyDuration(3600)
    tcp_be_liberal: bool = False
    udp_timeout: ProxyDuration = ProxyDuration(0)
    udp_stream_timeout: ProxyDuration = ProxyDuration(0)


class KubeProxyConfiguration(ProxyConfigPart, frozen=True, kw_only=True):
    """KubeProxyConfiguration v1alpha1."""

    api_version: str = API_VERSION
    kind: str = KIND
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=dict)
    client_connection: ProxyClientConnection = ProxyClientConnection()
    logging: ProxyLogging = ProxyLogging()
    hostname_override: str = ""
    bind_address: str = "0.0.0.0"
    healthz_bind_address: str = f"0.0.0.0:{HEALTHZ_PORT}"
    metrics_bind_address: str = f"127.0.0.1:{METRICS_PORT}"
    bind_address_hard_fail: bool = False
    enable_profiling: bool = False
    show_hidden_metrics_for_version: str = ""
    mode: str = NFTABLES
    iptables: IPTablesConfiguration = IPTablesConfiguration()
    ipvs: IPVSConfiguration = IPVSConfiguration()
    nftables: NFTablesConfiguration = NFTablesConfiguration()
    winkernel: WinkernelConfiguration = WinkernelConfiguration()
    detect_local_mode: str = "ClusterCIDR"
    detect_local: DetectLocalConfiguration = DetectLocalConfiguration()
    cluster_cidr: str = ""
    node_port_addresses: tuple[str, ...] = ("primary",)
    oom_score_adj: int = -999
    conntrack: ConntrackConfiguration = ConntrackConfiguration()
    config_sync_period: ProxyDuration = ProxyDuration(15 * 60)
    port_range: str = ""
    windows_run_as_service: bool = False

    @property
    def cluster_cidrs(self) -> tuple[str, ...]:
        """Networks of the cluster's pods."""
        return tuple(self.cluster_cidr.split(",")) if self.cluster_cidr else ()


def to_plain(config: KubeProxyConfiguration) -> dict[str, Any]:
    """Return a configuration as a document."""
    plain: dict[str, Any] = msgspec.to_builtins(config, enc_hook=str)
    return _with_durations(plain, config)


def _with_durations(plain: dict[str, Any], part: msgspec.Struct) -> dict[str, Any]:
    """Return a document with durations as text: msgspec takes them for numbers."""
    found = dict(plain)
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, ProxyDuration):
            found[field.encode_name] = str(value)
        elif isinstance(value, msgspec.Struct):
            found[field.encode_name] = _with_durations(plain[field.encode_name], value)
    return found
