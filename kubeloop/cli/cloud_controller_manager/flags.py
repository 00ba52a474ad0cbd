# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop cloud-controller-manager`: upstream's names and defaults."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli.controller_manager.flags import ManagerConfigError, add_flag, flag_of
from kubeloop.cli.local_clusters.registry import state_dir
from kubeloop.cloud.config import CloudConfig
from kubeloop.controllers.app.config import Duration, ManagerConfig, Strings, defaults

_ABOUT = """Run the cloud controllers against an API server, with cloud-controller-manager's flags and defaults.
Providers that come with kubeloop are local and aws; others are found by the entry point kubeloop.cloud_providers."""
_EXAMPLES = """Examples:
  # With the provider that gives Services of type LoadBalancer local addresses
  kubeloop cloud-controller-manager --kubeconfig admin.conf --cloud-provider local
"""
# Flags shared with the controller manager, with this program's defaults where they differ.
_SHARED = """
allocate_node_cidrs allow_metric_labels allow_metric_labels_manifest authentication_kubeconfig
authentication_skip_lookup authentication_token_webhook_cache_ttl authentication_tolerate_lookup_failure
authorization_always_allow_paths authorization_kubeconfig authorization_webhook_cache_authorized_ttl
authorization_webhook_cache_unauthorized_ttl bind_address cert_dir cidr_allocator_type client_ca_file cloud_config
cloud_provider cluster_cidr cluster_name configure_cloud_routes contention_profiling controller_start_interval
controllers disable_http2_serving disabled_metrics emulated_version enable_leader_migration
external_cloud_volume_plugin feature_gates http2_max_streams_per_connection kube_api_burst kube_api_content_type
kube_api_qps kubeconfig leader_elect leader_elect_lease_duration leader_elect_renew_deadline
leader_elect_resource_lock leader_elect_resource_name leader_elect_resource_namespace leader_elect_retry_period
leader_migration_config log_flush_frequency log_json_info_buffer_size log_json_split_stream
log_text_info_buffer_size log_text_split_stream logging_format master min_compatibility_version min_resync_period
node_monitor_period permit_address_sharing permit_port_sharing profiling requestheader_allowed_names
requestheader_client_ca_file requestheader_extra_headers_prefix requestheader_group_headers
requestheader_uid_headers requestheader_username_headers route_reconciliation_period secure_port
show_hidden_metrics_for_version tls_cert_file tls_cipher_suites tls_curve_preferences tls_min_version
tls_private_key_file tls_sni_cert_key use_service_account_credentials v vmodule
"""
SHARED = tuple(_SHARED.split())
OWN_DEFAULTS: dict[str, Any] = {"leader_elect_resource_name": "cloud-controller-manager", "secure_port": 10258}
# Flags that must not be ignored, because running without them would be wrong or less safe.
_REFUSED = ("enable_leader_migration", "webhooks")


class CloudFlags(msgspec.Struct, frozen=True, kw_only=True):
    """Flags that only this manager has."""

    allow_untagged_cloud: bool = False
    concurrent_node_lifecycle_syncs: int = 1
    concurrent_node_status_updates: int = 0
    concurrent_node_syncs: int = 1
    concurrent_service_syncs: int = 1
    node_status_update_frequency: Duration = Duration(300.0)
    node_sync_period: Duration = Duration(0.0)
    webhook_bind_address: str = "0.0.0.0"
    webhook_cert_dir: str = ""
    webhook_disable_http2_serving: bool = False
    webhook_secure_port: int = 10260
    webhook_tls_cert_file: str = ""
    webhook_tls_cipher_suites: Strings = ()
    webhook_tls_curve_preferences: Strings = ()
    webhook_tls_min_version: str = ""
    webhook_tls_private_key_file: str = ""
    webhook_tls_sni_cert_key: Strings = ()
    webhooks: Strings = ()


@dataclass(frozen=True, slots=True)
class CloudControllerManagerOptions:
    """Configuration of a cloud controller manager process."""

    process: ManagerConfig  # connections, leadership, port
    cloud: CloudConfig


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    hints, known = get_type_hints(ManagerConfig), defaults()
    for name in SHARED:
        add_flag(parser, name, hints[name], OWN_DEFAULTS.get(name, known[name]))
    own, untold = get_type_hints(CloudFlags), CloudFlags()
    for name in CloudFlags.__struct_fields__:
        add_flag(parser, name, own[name], getattr(untold, name))
    version = f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})"
    parser.add_argument("--version", action="version", version=version, help="print the version")


def options_of(options: argparse.Namespace) -> CloudControllerManagerOptions:
    """Build the options from the command line and the defaults. Raises `UnusableConfig`."""
    said: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in vars(options).items()}
    folder = str(state_dir() / "cloud-controller-manager")
    given = {name: said[name] for name in SHARED if name in said}
    process = ManagerConfig(**{**OWN_DEFAULTS, "cert_dir": folder, **given})
    own = CloudFlags(**{name: said[name] for name in CloudFlags.__struct_fields__ if name in said})
    _check(process, own)
    both = {**msgspec.structs.asdict(process), **msgspec.structs.asdict(own)}
    return CloudControllerManagerOptions(
        process, CloudConfig(**{name: both[name] for name in CloudConfig.__struct_fields__})
    )


def _check(process: ManagerConfig, own: CloudFlags) -> None:
    known = {**defaults(), **msgspec.structs.asdict(CloudFlags())}
    said = {**msgspec.structs.asdict(process), **msgspec.structs.asdict(own)}
    for name in _REFUSED:
        if said[name] != known[name]:
            raise ManagerConfigError(f"{flag_of(name)} is not supported yet")
    if own.concurrent_node_syncs <= 0:
        raise ManagerConfigError("concurrent-node-syncs must be a positive number")
    if own.concurrent_node_status_updates < 0:
        raise ManagerConfigError("concurrent-node-status-updates cannot be a negative number")
    if own.concurrent_node_lifecycle_syncs < 1:
        raise ManagerConfigError(
            f"concurrent-node-lifecycle-syncs must be at least 1, but got {own.concurrent_node_lifecycle_syncs}"
        )
    if own.concurrent_service_syncs < 1:
        raise ManagerConfigError("concurrent-service-syncs must be a positive number")
    if process.cloud_config and not Path(process.cloud_config).is_file():
        raise ManagerConfigError(f"--cloud-config {process.cloud_config}: no such file")
