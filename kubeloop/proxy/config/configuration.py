# SPDX-License-Identifier: Apache-2.0
"""Fields of KubeProxyConfiguration v1alpha1, with upstream's defaults. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubeloop.runtime.component_config import ConfigDuration, ConfigPart, LoggingConfiguration

API_VERSION: Final = "kubeproxy.config.k8s.io/v1alpha1"
KIND: Final = "KubeProxyConfiguration"
HEALTHZ_PORT: Final = 10256
METRICS_PORT: Final = 10249
NFTABLES: Final = "nftables"


class ProxyClientConnection(ConfigPart, frozen=True, kw_only=True):
    """ClientConnectionConfiguration of component-base."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 5.0
    burst: int = 10


class IPTablesConfiguration(ConfigPart, frozen=True, kw_only=True):
    """KubeProxyIPTablesConfiguration: without effect."""

    masquerade_bit: int = 14
    masquerade_all: bool = False
    localhost_node_ports: bool = True
    sync_period: ConfigDuration = ConfigDuration(30)
    min_sync_period: ConfigDuration = ConfigDuration(1)


class IPVSConfiguration(ConfigPart, frozen=True, kw_only=True):
    """KubeProxyIPVSConfiguration: without effect."""

    sync_period: ConfigDuration = ConfigDuration(30)
    min_sync_period: ConfigDuration = ConfigDuration(0)
    scheduler: str = ""
    exclude_cidrs: tuple[str, ...] = ()
    strict_arp: bool = False
    tcp_timeout: ConfigDuration = ConfigDuration(0)
    tcp_fin_timeout: ConfigDuration = ConfigDuration(0)
    udp_timeout: ConfigDuration = ConfigDuration(0)


class NFTablesConfiguration(ConfigPart, frozen=True, kw_only=True):
    """KubeProxyNFTablesConfiguration."""

    masquerade_bit: int = 14
    masquerade_all: bool = False
    sync_period: ConfigDuration = ConfigDuration(30)
    min_sync_period: ConfigDuration = ConfigDuration(1)


class WinkernelConfiguration(ConfigPart, frozen=True, kw_only=True):
    """KubeProxyWinkernelConfiguration: without effect."""

    network_name: str = ""
    source_vip: str = ""
    enable_dsr: bool = False
    root_hns_endpoint_name: str = ""
    forward_health_check_vip: bool = False


class DetectLocalConfiguration(ConfigPart, frozen=True, kw_only=True):
    """DetectLocalConfiguration."""

    bridge_interface: str = ""
    interface_name_prefix: str = ""


class ConntrackConfiguration(ConfigPart, frozen=True, kw_only=True):
    """KubeProxyConntrackConfiguration; a duration of 0 leaves the kernel's setting as it is."""

    max_per_core: int = 32 * 1024
    min: int = 128 * 1024
    tcp_established_timeout: ConfigDuration = ConfigDuration(24 * 3600)
    tcp_close_wait_timeout: ConfigDuration = ConfigDuration(3600)
    tcp_be_liberal: bool = False
    udp_timeout: ConfigDuration = ConfigDuration(0)
    udp_stream_timeout: ConfigDuration = ConfigDuration(0)


class KubeProxyConfiguration(ConfigPart, frozen=True, kw_only=True):
    """KubeProxyConfiguration v1alpha1."""

    api_version: str = API_VERSION
    kind: str = KIND
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=dict)
    client_connection: ProxyClientConnection = ProxyClientConnection()
    logging: LoggingConfiguration = LoggingConfiguration()
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
    config_sync_period: ConfigDuration = ConfigDuration(15 * 60)
    port_range: str = ""
    windows_run_as_service: bool = False

    @property
    def cluster_cidrs(self) -> tuple[str, ...]:
        """Networks of the cluster's pods."""
        return tuple(self.cluster_cidr.split(",")) if self.cluster_cidr else ()
