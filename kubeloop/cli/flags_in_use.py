"""Which of the controller manager's flags have an effect by now; the others wait for their loops."""

from __future__ import annotations

from kubeloop.controllers.config import ManagerConfig, defaults

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
concurrent_serviceaccount_token_syncs service_account_private_key_file legacy_service_account_token_clean_up_period
attach_detach_reconcile_sync_period disable_attach_detach_reconcile_sync disable_force_detach_on_timeout
concurrent_ephemeralvolume_syncs enable_dynamic_provisioning enable_hostpath_provisioner pvclaimbinder_sync_period
pv_recycler_increment_timeout_nfs pv_recycler_minimum_timeout_hostpath pv_recycler_minimum_timeout_nfs
pv_recycler_timeout_increment_hostpath
concurrent_endpoint_syncs concurrent_service_endpoint_syncs endpoint_updates_batch_period
endpointslice_updates_batch_period max_endpoints_per_slice mirroring_concurrent_service_endpoint_syncs
mirroring_endpointslice_updates_batch_period mirroring_max_endpoints_per_subset
tls_min_version tls_private_key_file use_service_account_credentials v
"""
IN_USE = frozenset(_IN_USE.split())
# These ask for more safety, or for another way to lead: to go on without them would be wrong.
_REFUSED = ("enable_leader_migration", "tls_cipher_suites", "tls_curve_preferences", "tls_sni_cert_key")


def unused_flags(config: ManagerConfig) -> list[str]:
    """What is set to other than its default, and makes no difference yet."""
    return [name for name, value in defaults().items() if name not in IN_USE and getattr(config, name) != value]


def refused_flags(config: ManagerConfig) -> list[str]:
    """What is asked for and must not be ignored."""
    return [name for name in unused_flags(config) if name in _REFUSED]
