# SPDX-License-Identifier: Apache-2.0
"""Flags of the controller manager that have an effect; the others are accepted and ignored."""

from __future__ import annotations

from kubeloop.controllers.app.config import ManagerConfig, defaults

_IN_USE = """
concurrent_horizontal_pod_autoscaler_syncs horizontal_pod_autoscaler_cpu_initialization_period
horizontal_pod_autoscaler_downscale_stabilization horizontal_pod_autoscaler_initial_readiness_delay
horizontal_pod_autoscaler_sync_period horizontal_pod_autoscaler_tolerance
authentication_kubeconfig authentication_skip_lookup authentication_token_webhook_cache_ttl
authorization_always_allow_paths authorization_kubeconfig authorization_webhook_cache_authorized_ttl
authorization_webhook_cache_unauthorized_ttl bind_address cert_dir client_ca_file
concurrent_job_syncs concurrent_cron_job_syncs
concurrent_gc_syncs concurrent_namespace_syncs namespace_sync_period
enable_garbage_collector concurrent_deployment_syncs concurrent_rc_syncs concurrent_replicaset_syncs
concurrent_daemonset_syncs concurrent_disruption_syncs concurrent_statefulset_syncs
concurrent_ttl_after_finished_syncs controller_shutdown_timeout controllers feature_gates kube_api_burst
kube_api_qps kubeconfig leader_elect leader_elect_lease_duration
leader_elect_renew_deadline leader_elect_resource_lock leader_elect_resource_name leader_elect_resource_namespace
leader_elect_retry_period load logging_format master min_resync_period root_ca_file secure_port tls_cert_file
terminated_pod_gc_threshold concurrent_resource_quota_syncs resource_quota_sync_period
cluster_signing_cert_file cluster_signing_duration cluster_signing_key_file
cluster_signing_kube_apiserver_client_cert_file cluster_signing_kube_apiserver_client_key_file
cluster_signing_kubelet_client_cert_file cluster_signing_kubelet_client_key_file
cluster_signing_kubelet_serving_cert_file cluster_signing_kubelet_serving_key_file
cluster_signing_legacy_unknown_cert_file cluster_signing_legacy_unknown_key_file
concurrent_validating_admission_policy_status_syncs
concurrent_serviceaccount_token_syncs service_account_private_key_file legacy_service_account_token_clean_up_period
attach_detach_reconcile_sync_period disable_attach_detach_reconcile_sync disable_force_detach_on_timeout
concurrent_ephemeralvolume_syncs enable_dynamic_provisioning enable_hostpath_provisioner pvclaimbinder_sync_period
pv_recycler_increment_timeout_nfs pv_recycler_minimum_timeout_hostpath pv_recycler_minimum_timeout_nfs
pv_recycler_timeout_increment_hostpath
concurrent_endpoint_syncs concurrent_service_endpoint_syncs endpoint_updates_batch_period
endpointslice_updates_batch_period max_endpoints_per_slice mirroring_concurrent_service_endpoint_syncs
mirroring_endpointslice_updates_batch_period mirroring_max_endpoints_per_subset
allocate_node_cidrs cidr_allocator_type cluster_cidr node_cidr_mask_size node_cidr_mask_size_ipv4
node_cidr_mask_size_ipv6 service_cluster_ip_range
large_cluster_size_threshold node_eviction_rate node_monitor_grace_period node_monitor_period
concurrent_device_taint_eviction_syncs concurrent_resourceclaim_syncs
node_startup_grace_period secondary_node_eviction_rate unhealthy_zone_threshold
permit_port_sharing tls_cipher_suites tls_curve_preferences tls_sni_cert_key
tls_min_version tls_private_key_file use_service_account_credentials v
"""
IN_USE = frozenset(_IN_USE.split())
_GO_PROFILES = "there are no Go profiles; use py-spy"
_HTTP_1 = "the port speaks HTTP/1.1"
_CLOUD = "only for in-tree cloud providers, which Kubernetes has removed"
_IMMEDIATE = "log lines are written at once"
_FRONT_PROXY = "the port takes no users from front proxies"
_ONE_VERSION = "the components are those of Kubernetes 1.37"
# Flags that are accepted and change nothing, with the reason.
NO_EFFECT: dict[str, str] = {
    "allow_metric_labels": "label values are not restricted",
    "allow_metric_labels_manifest": "label values are not restricted",
    "authentication_tolerate_lookup_failure": "the port opens in any case, and asks again",
    "cloud_config": _CLOUD,
    "cloud_provider": _CLOUD,
    "cluster_name": "only names the resources of cloud providers",
    "configure_cloud_routes": _CLOUD,
    "contention_profiling": _GO_PROFILES,
    "controller_start_interval": "controllers start at once: their caches are shared",
    "disable_http2_serving": _HTTP_1,
    "disabled_metrics": "all metrics are served",
    "emulated_version": _ONE_VERSION,
    "external_cloud_volume_plugin": _CLOUD,
    "flex_volume_plugin_dir": "FlexVolume plugins are attached by kubelets",
    "http2_max_streams_per_connection": _HTTP_1,
    "kube_api_content_type": "the client speaks JSON",
    "leader_migration_config": "see enable-leader-migration",
    "log_flush_frequency": _IMMEDIATE,
    "log_json_info_buffer_size": _IMMEDIATE,
    "log_json_split_stream": "logs go to standard error",
    "log_text_info_buffer_size": _IMMEDIATE,
    "log_text_split_stream": "logs go to standard error",
    "min_compatibility_version": _ONE_VERSION,
    "permit_address_sharing": "the port can be bound again at once after a restart anyway",
    "profiling": _GO_PROFILES,
    "pv_recycler_pod_template_filepath_hostpath": "recycler pods have the default template",
    "pv_recycler_pod_template_filepath_nfs": "recycler pods have the default template",
    "requestheader_allowed_names": _FRONT_PROXY,
    "requestheader_client_ca_file": _FRONT_PROXY,
    "requestheader_extra_headers_prefix": _FRONT_PROXY,
    "requestheader_group_headers": _FRONT_PROXY,
    "requestheader_uid_headers": _FRONT_PROXY,
    "requestheader_username_headers": _FRONT_PROXY,
    "route_reconciliation_period": _CLOUD,
    "show_hidden_metrics_for_version": "no metric is hidden",
    "vmodule": "it names Go files; use --v",
}
# To go on without these would be wrong.
REFUSED = {"enable_leader_migration": "controllers cannot move between managers one by one"}


def unused_flags(config: ManagerConfig) -> list[str]:
    """Return the flags that differ from their default but have no effect."""
    return [name for name, value in defaults().items() if name not in IN_USE and getattr(config, name) != value]


def refused_flags(config: ManagerConfig) -> list[str]:
    """Return the flags that are set and must not be ignored."""
    return [name for name in unused_flags(config) if name in REFUSED]
