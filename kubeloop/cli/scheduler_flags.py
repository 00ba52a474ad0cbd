"""The flags of `kubeloop scheduler`: kube-scheduler's names and defaults, read as the manager's are."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli.controller_manager_flags import add_flag
from kubeloop.cli.flag_types import duration
from kubeloop.cli.up_flags import default_data_dir
from kubeloop.controllers.config import Duration, ManagerConfig, defaults
from kubeloop.scheduler.config import SchedulerConfig
from kubeloop.scheduler.config_file import ConfigFile, UnusableConfig, config_of, parse

_ABOUT = """Give pods their nodes, with kube-scheduler's flags and defaults."""
_UNSCHEDULABLE_SECONDS = 300.0
# What both programs know; where the scheduler's default is another, it is given.
_SHARED = """
allow_metric_labels allow_metric_labels_manifest authentication_kubeconfig authentication_skip_lookup
authentication_token_webhook_cache_ttl authentication_tolerate_lookup_failure authorization_always_allow_paths
authorization_kubeconfig authorization_webhook_cache_authorized_ttl authorization_webhook_cache_unauthorized_ttl
bind_address cert_dir client_ca_file contention_profiling disable_http2_serving disabled_metrics emulated_version
feature_gates http2_max_streams_per_connection kube_api_burst kube_api_content_type kube_api_qps kubeconfig
leader_elect leader_elect_lease_duration leader_elect_renew_deadline leader_elect_resource_lock
leader_elect_resource_name leader_elect_resource_namespace leader_elect_retry_period log_flush_frequency
log_json_info_buffer_size log_json_split_stream log_text_info_buffer_size log_text_split_stream logging_format
master min_compatibility_version permit_address_sharing permit_port_sharing profiling requestheader_allowed_names
requestheader_client_ca_file requestheader_extra_headers_prefix requestheader_group_headers
requestheader_uid_headers requestheader_username_headers secure_port show_hidden_metrics_for_version tls_cert_file
tls_cipher_suites tls_curve_preferences tls_min_version tls_private_key_file tls_sni_cert_key v vmodule
"""
SHARED = tuple(_SHARED.split())
OWN_DEFAULTS: dict[str, Any] = {
    "authentication_tolerate_lookup_failure": True,
    "contention_profiling": True,
    "kube_api_burst": 100,
    "kube_api_qps": 50.0,
    "leader_elect_resource_name": "kube-scheduler",
    "secure_port": 10259,
}


@dataclass(frozen=True, slots=True)
class Options:
    """What a scheduler's process is told."""

    process: ManagerConfig  # connections, leadership, port
    scheduler: SchedulerConfig
    write_config_to: Path | None = None


def certificate_folder() -> Path:
    return default_data_dir() / "scheduler"


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.description = _ABOUT
    hints = get_type_hints(ManagerConfig)
    known = defaults()
    for name in SHARED:
        add_flag(parser, name, hints[name], OWN_DEFAULTS.get(name, known[name]))
    parser.add_argument("--config", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration")
    parser.add_argument("--write-config-to", type=Path, metavar="FILE", help="write the configuration and exit")
    parser.add_argument(
        "--pod-max-in-unschedulable-pods-duration",
        type=duration,
        default=_UNSCHEDULABLE_SECONDS,
        metavar="DURATION",
        help="after so long a pod is tried again without a reason (default: 5m0s)",
    )
    version = f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})"
    parser.add_argument("--version", action="version", version=version, help="print the version")


def options_of(options: argparse.Namespace) -> Options:
    """The flags, then the file, then the defaults. Raises `UnusableConfig`."""
    file = _read(options.config)
    said = vars(options)
    given = {name: _value(said[name]) for name in SHARED if name in said}
    process = ManagerConfig(
        **{**OWN_DEFAULTS, "cert_dir": str(certificate_folder()), **_process_settings(file), **given}
    )
    patience = options.pod_max_in_unschedulable_pods_duration
    return Options(process, config_of(file, patience), options.write_config_to)


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _read(path: Path | None) -> ConfigFile:
    if path is None:
        return ConfigFile()
    import yaml

    try:
        return parse(yaml.safe_load(path.read_text()) or {})
    except (OSError, yaml.YAMLError, UnusableConfig) as error:
        raise UnusableConfig(f"--config {path}: {error}") from None


def _process_settings(file: ConfigFile) -> dict[str, Any]:
    """What the file says of connections and leadership, under the names of flags."""
    names = {
        "leaderElect": "leader_elect",
        "leaseDuration": "leader_elect_lease_duration",
        "renewDeadline": "leader_elect_renew_deadline",
        "retryPeriod": "leader_elect_retry_period",
        "resourceLock": "leader_elect_resource_lock",
        "resourceName": "leader_elect_resource_name",
        "resourceNamespace": "leader_elect_resource_namespace",
        "kubeconfig": "kubeconfig",
        "contentType": "kube_api_content_type",
        "qps": "kube_api_qps",
        "burst": "kube_api_burst",
    }
    hints = get_type_hints(ManagerConfig)
    said = {**file.leader_election, **file.client_connection}
    found = {names[key]: value for key, value in said.items() if key in names}
    return {name: Duration(duration(value)) if hints[name] == Duration else value for name, value in found.items()}


def written(options: Options) -> bytes:
    """The configuration as JSON, which is YAML too."""
    profiles = [{"schedulerName": one.scheduler_name, "plugins": _plugins(one)} for one in options.scheduler.profiles]
    patience = options.scheduler.patience
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podInitialBackoffSeconds": patience.first,
        "podMaxBackoffSeconds": patience.longest,
        "profiles": profiles,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _plugins(profile: Any) -> dict[str, Any]:
    rows = [{"name": name, "weight": profile.weights.get(name, 0)} for name in profile.names]
    return {"multiPoint": {"enabled": rows, "disabled": [{"name": "*"}]}}
