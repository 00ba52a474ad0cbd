# SPDX-License-Identifier: Apache-2.0
"""KubeletConfiguration v1beta1: all fields of upstream's type, with their defaults.

Durations are seconds. Four defaults differ from upstream's: see `docs/real-nodes.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubeloop.kubelet.config.configuration_parts import (
    CrashLoopBackOffConfig,
    KubeletAuthentication,
    KubeletAuthorization,
    MemoryReservation,
    MemorySwapConfiguration,
    ShutdownGracePeriodByPodPriority,
    TaintConfig,
    TracingConfiguration,
    UserNamespaces,
)
from kubeloop.runtime.component_config import ConfigDuration, ConfigPart, LoggingConfiguration, plain_of

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"
DEFAULT_EVICTION_HARD: Final[Mapping[str, str]] = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


class KubeletConfiguration(ConfigPart, frozen=True, kw_only=True):
    """Effective configuration of a kubelet."""

    kind: str = KIND
    api_version: str = API_VERSION

    # Static pods.
    static_pod_path: str = ""
    static_pod_url: str = ""
    static_pod_url_header: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    sync_frequency: ConfigDuration = ConfigDuration(60)
    file_check_frequency: ConfigDuration = ConfigDuration(20)
    http_check_frequency: ConfigDuration = ConfigDuration(20)

    # Ports, TLS and access.
    enable_server: bool = True
    address: str = "0.0.0.0"
    port: int = 10250
    read_only_port: int = 0
    healthz_port: int = 10248
    healthz_bind_address: str = "127.0.0.1"
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    tls_curve_preferences: tuple[int, ...] = ()
    tls_min_version: str = ""
    rotate_certificates: bool = True
    server_tls_bootstrap: bool = False
    authentication: KubeletAuthentication = KubeletAuthentication()
    authorization: KubeletAuthorization = KubeletAuthorization()
    enable_debugging_handlers: bool = True
    enable_contention_profiling: bool = False
    enable_profiling_handler: bool = True
    enable_debug_flags_handler: bool = True
    enable_system_log_handler: bool = True
    enable_system_log_query: bool | None = None
    streaming_connection_idle_timeout: ConfigDuration = ConfigDuration(4 * 3600)

    # Connection to the API server, events, node status.
    content_type: str = "application/vnd.kubernetes.protobuf"
    kube_api_qps: int = 50
    kube_api_burst: int = 100
    event_record_qps: int = 50
    event_burst: int = 100
    node_status_update_frequency: ConfigDuration = ConfigDuration(10)
    node_status_report_frequency: ConfigDuration = ConfigDuration(300)
    node_lease_duration_seconds: int = 40
    node_status_max_images: int = 50
    register_node: bool = True
    register_with_taints: tuple[TaintConfig, ...] = ()
    provider_id: str = ""

    # Container runtime, images, logs.
    container_runtime_endpoint: str = ""
    image_service_endpoint: str = ""
    runtime_request_timeout: ConfigDuration = ConfigDuration(120)
    serialize_image_pulls: bool = True
    max_parallel_image_pulls: int | None = None
    registry_pull_qps: int = 5
    registry_burst: int = 10
    image_pull_credentials_verification_policy: str = "NeverVerifyPreloadedImages"
    preloaded_images_verification_allowlist: tuple[str, ...] = ()
    image_minimum_gc_age: ConfigDuration = ConfigDuration(120)
    image_maximum_gc_age: ConfigDuration = ConfigDuration(0)
    image_gc_high_threshold_percent: int = 85
    image_gc_low_threshold_percent: int = 80
    pod_logs_dir: str = "/var/log/pods"
    container_log_max_size: str = "10Mi"
    container_log_max_files: int = 5
    container_log_max_workers: int = 1
    container_log_monitor_interval: ConfigDuration = ConfigDuration(10)
    crash_loop_back_off: CrashLoopBackOffConfig = CrashLoopBackOffConfig()

    # Control groups, resources and reservations.
    cgroup_root: str = ""
    cgroups_per_qos: bool = True
    cgroup_driver: str = "cgroupfs"
    fail_cgroup_v1: bool = msgspec.field(default=False, name="failCgroupV1")
    kubelet_cgroups: str = ""
    system_cgroups: str = ""
    cpu_manager_policy: str = "none"
    cpu_manager_policy_options: Mapping[str, str] = msgspec.field(default_factory=dict)
    cpu_manager_reconcile_period: ConfigDuration = ConfigDuration(10)
    memory_manager_policy: str = "None"
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: Mapping[str, str] = msgspec.field(default_factory=dict)
    qos_reserved: Mapping[str, str] = msgspec.field(default_factory=dict)
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period: ConfigDuration = ConfigDuration(0.1)
    pod_pids_limit: int = -1
    max_pods: int = 110
    pods_per_core: int = 0
    system_reserved: Mapping[str, str] = msgspec.field(default_factory=dict)
    kube_reserved: Mapping[str, str] = msgspec.field(default_factory=dict)
    reserved_system_cpus: str = ""
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    reserved_memory: tuple[MemoryReservation, ...] = ()
    memory_throttling_factor: float | None = None
    memory_reservation_policy: str = "None"
    single_process_oom_kill: bool | None = None
    oom_score_adj: int = -999
    max_open_files: int = 1_000_000
    fail_swap_on: bool = True
    memory_swap: MemorySwapConfiguration = MemorySwapConfiguration()
    local_storage_capacity_isolation: bool = True
    kernel_memcg_notification: bool = False

    # Eviction.
    eviction_hard: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(DEFAULT_EVICTION_HARD))
    eviction_soft: Mapping[str, str] = msgspec.field(default_factory=dict)
    eviction_soft_grace_period: Mapping[str, str] = msgspec.field(default_factory=dict)
    eviction_pressure_transition_period: ConfigDuration = ConfigDuration(300)
    eviction_max_pod_grace_period: int = 0
    eviction_minimum_reclaim: Mapping[str, str] = msgspec.field(default_factory=dict)
    merge_default_eviction_settings: bool = False

    # Pods: name service, kernel settings, isolation, shutdown.
    cluster_domain: str = "cluster.local"
    cluster_dns: tuple[str, ...] = ()
    resolv_conf: str = "/etc/resolv.conf"
    pod_cidr: str = ""
    hairpin_mode: str = "promiscuous-bridge"
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    default_pod_sysctls: Mapping[str, str] = msgspec.field(default_factory=dict)
    seccomp_default: bool = False
    user_namespaces: UserNamespaces | None = None
    protect_kernel_defaults: bool = False
    make_iptables_util_chains: bool = True
    iptables_masquerade_bit: int = 14
    iptables_drop_bit: int = 15
    shutdown_grace_period: ConfigDuration = ConfigDuration(0)
    shutdown_grace_period_critical_pods: ConfigDuration = ConfigDuration(0)
    shutdown_grace_period_by_pod_priority: tuple[ShutdownGracePeriodByPodPriority, ...] = ()

    # Volumes.
    volume_stats_agg_period: ConfigDuration = ConfigDuration(60)
    volume_plugin_dir: str = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"
    enable_controller_attach_detach: bool = True
    config_map_and_secret_change_detection_strategy: str = "Watch"

    # The program.
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=dict)
    show_hidden_metrics_for_version: str = ""
    logging: LoggingConfiguration = LoggingConfiguration()
    tracing: TracingConfiguration | None = None
    run_once: bool = False

    @property
    def max_restart_seconds(self) -> float:
        """Longest back-off of a container in seconds."""
        limit = self.crash_loop_back_off.max_container_restart_period
        return 300.0 if limit is None else float(limit)

    @property
    def user_namespace_ids(self) -> int:
        """IDs of each pod with a user namespace of its own."""
        found = self.user_namespaces.ids_per_pod if self.user_namespaces is not None else None
        return found or 65536


def static_resources(config: KubeletConfiguration) -> frozenset[str]:
    """Return the resources whose managers have a static policy."""
    found = {"cpu": config.cpu_manager_policy == "static", "memory": config.memory_manager_policy == "Static"}
    return frozenset(name for name, is_static in found.items() if is_static)


def to_plain(config: KubeletConfiguration) -> dict[str, Any]:
    """Return a configuration as a file would have it, for `/configz`; fields without a value are left out."""
    return {name: value for name, value in plain_of(config).items() if value not in (None, "", (), [], {})}
