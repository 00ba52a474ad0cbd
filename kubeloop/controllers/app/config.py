# SPDX-License-Identifier: Apache-2.0
"""Configuration of the manager: kube-controller-manager's flags with their types and defaults, and kubeloop's own.

Each field is one flag: `concurrent_gc_syncs` is `--concurrent-gc-syncs`. The command line and /configz are generated
from this table, so that each flag is defined exactly once.
"""

from __future__ import annotations

from typing import Any, NewType

import msgspec

Duration = NewType("Duration", float)  # in seconds
Strings = tuple[str, ...]


class ManagerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Values of all flags; durations are in seconds, an empty string means that the flag is not set."""

    # -- debugging
    contention_profiling: bool = False
    profiling: bool = True
    # -- leader migration
    enable_leader_migration: bool = False
    leader_migration_config: str = ""
    # -- all controllers
    allocate_node_cidrs: bool = False
    cidr_allocator_type: str = "RangeAllocator"
    cloud_config: str = ""
    cloud_provider: str = ""
    cluster_cidr: str = ""
    cluster_name: str = "kubernetes"
    configure_cloud_routes: bool = True
    controller_shutdown_timeout: Duration = Duration(10.0)
    controller_start_interval: Duration = Duration(0.0)
    controllers: Strings = ("*",)
    emulated_version: Strings = ()
    external_cloud_volume_plugin: str = ""
    feature_gates: Strings = ()
    kube_api_burst: int = 30
    kube_api_content_type: str = "application/vnd.kubernetes.protobuf"
    kube_api_qps: float = 20.0
    leader_elect: bool = True
    leader_elect_lease_duration: Duration = Duration(15.0)
    leader_elect_renew_deadline: Duration = Duration(10.0)
    leader_elect_resource_lock: str = "leases"
    leader_elect_resource_name: str = "kube-controller-manager"
    leader_elect_resource_namespace: str = "kube-system"
    leader_elect_retry_period: Duration = Duration(2.0)
    min_compatibility_version: Strings = ()
    min_resync_period: Duration = Duration(43200.0)
    route_reconciliation_period: Duration = Duration(10.0)
    use_service_account_credentials: bool = False
    # -- secure port
    bind_address: str = "0.0.0.0"
    cert_dir: str = ""
    disable_http2_serving: bool = False
    http2_max_streams_per_connection: int = 0
    permit_address_sharing: bool = False
    permit_port_sharing: bool = False
    secure_port: int = 10257
    tls_cert_file: str = ""
    tls_cipher_suites: Strings = ()
    tls_curve_preferences: Strings = ()
    tls_min_version: str = ""
    tls_private_key_file: str = ""
    tls_sni_cert_key: Strings = ()
    # -- authentication and authorization
    authentication_kubeconfig: str = ""
    authentication_skip_lookup: bool = False
    authentication_token_webhook_cache_ttl: Duration = Duration(10.0)
    authentication_tolerate_lookup_failure: bool = False
    client_ca_file: str = ""
    requestheader_allowed_names: Strings = ()
    requestheader_client_ca_file: str = ""
    requestheader_extra_headers_prefix: Strings = ("x-remote-extra-",)
    requestheader_group_headers: Strings = ("x-remote-group",)
    requestheader_uid_headers: Strings = ()
    requestheader_username_headers: Strings = ("x-remote-user",)
    authorization_always_allow_paths: Strings = ("/healthz", "/readyz", "/livez")
    authorization_kubeconfig: str = ""
    authorization_webhook_cache_authorized_ttl: Duration = Duration(10.0)
    authorization_webhook_cache_unauthorized_ttl: Duration = Duration(10.0)
    # -- attach/detach
    attach_detach_reconcile_sync_period: Duration = Duration(60.0)
    disable_attach_detach_reconcile_sync: bool = False
    disable_force_detach_on_timeout: bool = False
    # -- certificate signing
    cluster_signing_cert_file: str = ""
    cluster_signing_duration: Duration = Duration(31536000.0)
    cluster_signing_key_file: str = ""
    cluster_signing_kube_apiserver_client_cert_file: str = ""
    cluster_signing_kube_apiserver_client_key_file: str = ""
    cluster_signing_kubelet_client_cert_file: str = ""
    cluster_signing_kubelet_client_key_file: str = ""
    cluster_signing_kubelet_serving_cert_file: str = ""
    cluster_signing_kubelet_serving_key_file: str = ""
    cluster_signing_legacy_unknown_cert_file: str = ""
    cluster_signing_legacy_unknown_key_file: str = ""
    # -- workloads, claims, endpoints
    concurrent_deployment_syncs: int = 5
    concurrent_disruption_syncs: int = 1
    concurrent_device_taint_eviction_syncs: int = 8
    concurrent_resourceclaim_syncs: int = 50
    concurrent_statefulset_syncs: int = 5
    concurrent_daemonset_syncs: int = 2
    concurrent_endpoint_syncs: int = 5
    endpoint_updates_batch_period: Duration = Duration(0.0)
    concurrent_service_endpoint_syncs: int = 5
    endpointslice_updates_batch_period: Duration = Duration(0.0)
    max_endpoints_per_slice: int = 100
    mirroring_concurrent_service_endpoint_syncs: int = 5
    mirroring_endpointslice_updates_batch_period: Duration = Duration(0.0)
    mirroring_max_endpoints_per_subset: int = 1000
    concurrent_ephemeralvolume_syncs: int = 5
    # -- garbage collection
    concurrent_gc_syncs: int = 20
    enable_garbage_collector: bool = True
    # -- autoscaling
    concurrent_horizontal_pod_autoscaler_syncs: int = 5
    horizontal_pod_autoscaler_cpu_initialization_period: Duration = Duration(300.0)
    horizontal_pod_autoscaler_downscale_stabilization: Duration = Duration(300.0)
    horizontal_pod_autoscaler_initial_readiness_delay: Duration = Duration(30.0)
    horizontal_pod_autoscaler_sync_period: Duration = Duration(15.0)
    horizontal_pod_autoscaler_tolerance: float = 0.1
    # -- jobs
    concurrent_job_syncs: int = 5
    concurrent_cron_job_syncs: int = 5
    # -- legacy tokens
    legacy_service_account_token_clean_up_period: Duration = Duration(31536000.0)
    # -- namespaces
    concurrent_namespace_syncs: int = 10
    namespace_sync_period: Duration = Duration(300.0)
    # -- nodes
    node_cidr_mask_size: int = 0
    node_cidr_mask_size_ipv4: int = 0
    node_cidr_mask_size_ipv6: int = 0
    service_cluster_ip_range: str = ""
    large_cluster_size_threshold: int = 50
    node_eviction_rate: float = 0.1
    node_monitor_grace_period: Duration = Duration(50.0)
    node_monitor_period: Duration = Duration(5.0)
    node_startup_grace_period: Duration = Duration(60.0)
    secondary_node_eviction_rate: float = 0.01
    unhealthy_zone_threshold: float = 0.55
    # -- volumes
    enable_dynamic_provisioning: bool = True
    enable_hostpath_provisioner: bool = False
    flex_volume_plugin_dir: str = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"
    pv_recycler_increment_timeout_nfs: int = 30
    pv_recycler_minimum_timeout_hostpath: int = 60
    pv_recycler_minimum_timeout_nfs: int = 300
    pv_recycler_pod_template_filepath_hostpath: str = ""
    pv_recycler_pod_template_filepath_nfs: str = ""
    pv_recycler_timeout_increment_hostpath: int = 30
    pvclaimbinder_sync_period: Duration = Duration(15.0)
    # -- pods
    terminated_pod_gc_threshold: int = 12500
    # -- replicas, quotas
    concurrent_replicaset_syncs: int = 5
    concurrent_rc_syncs: int = 5
    concurrent_resource_quota_syncs: int = 5
    resource_quota_sync_period: Duration = Duration(300.0)
    # -- service accounts
    concurrent_serviceaccount_token_syncs: int = 5
    root_ca_file: str = ""
    service_account_private_key_file: str = ""
    # -- others
    concurrent_ttl_after_finished_syncs: int = 5
    concurrent_validating_admission_policy_status_syncs: int = 5
    # -- metrics
    allow_metric_labels: Strings = ()
    allow_metric_labels_manifest: str = ""
    disabled_metrics: Strings = ()
    show_hidden_metrics_for_version: str = ""
    # -- logs
    log_flush_frequency: Duration = Duration(5.0)
    log_json_info_buffer_size: str = ""
    log_json_split_stream: bool = False
    log_text_info_buffer_size: str = ""
    log_text_split_stream: bool = False
    logging_format: str = "text"
    v: int = 0
    vmodule: str = ""
    # -- API server
    kubeconfig: str = ""
    master: str = ""
    # -- kubeloop's own
    load: Strings = ()  # user-defined controllers, as module:name


def defaults() -> dict[str, Any]:
    """Return the default of each field, in the order of the table."""
    untold = ManagerConfig()
    return {name: getattr(untold, name) for name in ManagerConfig.__struct_fields__}
