# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop scheduler`: kube-scheduler's names and defaults."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.api.features.gates import InvalidFeatureGate, parse_feature_gates
from kubeloop.api.scalars.duration import format_duration
from kubeloop.cli.controller_manager.effective_flags import IN_USE
from kubeloop.cli.controller_manager.flags import add_flag, flag_of
from kubeloop.cli.flags.types import duration
from kubeloop.cli.local_clusters.registry import state_dir
from kubeloop.controllers.app.config import Duration, ManagerConfig, defaults
from kubeloop.scheduler.config.configuration import ProfileConfig, SchedulerConfig
from kubeloop.scheduler.config.file import (
    KubeSchedulerConfiguration,
    SchedulerConfigError,
    parse_config,
    to_scheduler_config,
)

_ABOUT = """Run the scheduler, with kube-scheduler's flags and defaults."""
_EXAMPLES = """Examples:
  # With the default profile
  kubeloop scheduler --kubeconfig admin.conf

  # With a KubeSchedulerConfiguration
  kubeloop scheduler --config scheduler.yaml
"""
_UNSCHEDULABLE_SECONDS = 300.0
# Flags shared with the controller manager, with the scheduler's defaults where they differ.
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


# Flags of the controller manager without effect on a scheduler, and on ours.
WITHOUT_EFFECT = frozenset(SHARED) - IN_USE
# Fields of the file that configure the process, by flag name.
_LEADERSHIP = {
    "leader_elect": "leader_elect",
    "lease_duration": "leader_elect_lease_duration",
    "renew_deadline": "leader_elect_renew_deadline",
    "retry_period": "leader_elect_retry_period",
    "resource_lock": "leader_elect_resource_lock",
    "resource_name": "leader_elect_resource_name",
    "resource_namespace": "leader_elect_resource_namespace",
}
_CONNECTION = {
    "kubeconfig": "kubeconfig",
    "content_type": "kube_api_content_type",
    "qps": "kube_api_qps",
    "burst": "kube_api_burst",
}


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Configuration of a scheduler process."""

    process: ManagerConfig  # connections, leadership, port
    scheduler: SchedulerConfig
    file: KubeSchedulerConfiguration
    write_config_to: Path | None = None

    @property
    def unused(self) -> list[str]:
        """Flags and fields that differ from their defaults but have no effect."""
        known = {**defaults(), **OWN_DEFAULTS}
        flags = [name for name in SHARED if name in WITHOUT_EFFECT and getattr(self.process, name) != known[name]]
        return [flag_of(name) for name in flags] + _unused_fields(self.file)


def _unused_fields(file: KubeSchedulerConfiguration) -> list[str]:
    """Return configuration fields without effect: all nodes are scored, by one thread."""
    told = {
        "parallelism": file.parallelism,
        "percentageOfNodesToScore": file.percentage_of_nodes_to_score,
        "profiles.percentageOfNodesToScore": next(
            (one.percentage_of_nodes_to_score for one in file.profiles if one.percentage_of_nodes_to_score), None
        ),
        "enableContentionProfiling": file.enable_contention_profiling,
        "clientConnection.acceptContentTypes": file.client_connection.accept_content_types,
        "delayCacheUntilActive": file.delay_cache_until_active,
    }
    return [f"field {name} of the configuration" for name, value in told.items() if value and value != 16]


def certificate_folder() -> Path:
    """Return the default folder of the port's self-signed certificate."""
    return state_dir() / "scheduler"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    hints = get_type_hints(ManagerConfig)
    known = defaults()
    for name in SHARED:
        add_flag(parser, name, hints[name], OWN_DEFAULTS.get(name, known[name]))
    parser.add_argument("--config", type=Path, metavar="FILE", help="file with a KubeSchedulerConfiguration")
    parser.add_argument(
        "--write-config-to",
        type=Path,
        metavar="FILE",
        help="file to write the configuration to; the program then exits",
    )
    parser.add_argument(
        "--pod-max-in-unschedulable-pods-duration",
        type=duration,
        default=_UNSCHEDULABLE_SECONDS,
        metavar="DURATION",
        help="maximum time of a pod in the unschedulable queue before it is retried (default: 5m0s)",
    )
    version = f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})"
    parser.add_argument("--version", action="version", version=version, help="print the version")


def options_of(options: argparse.Namespace) -> SchedulerOptions:
    """Build the options: flags before file before defaults. Raises `UnusableConfig`."""
    file = _read(options.config)
    said = vars(options)
    given = {name: _value(said[name]) for name in SHARED if name in said}
    process = ManagerConfig(
        **{**OWN_DEFAULTS, "cert_dir": str(certificate_folder()), **_process_settings(file), **given}
    )
    try:
        features = parse_feature_gates(process.feature_gates)
    except InvalidFeatureGate as error:
        raise SchedulerConfigError(str(error)) from None
    config = to_scheduler_config(file, options.pod_max_in_unschedulable_pods_duration, features)
    return SchedulerOptions(process, config, file, options.write_config_to)


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _read(path: Path | None) -> KubeSchedulerConfiguration:
    if path is None:
        return KubeSchedulerConfiguration()
    import yaml

    try:
        return parse_config(yaml.safe_load(path.read_text()) or {})
    except (OSError, yaml.YAMLError, SchedulerConfigError) as error:
        raise SchedulerConfigError(f"--config {path}: {error}") from None


def _process_settings(file: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Return the file's connection and leader election settings under the names of flags."""
    hints = get_type_hints(ManagerConfig)
    said = [(flag, getattr(file.leader_election, name)) for name, flag in _LEADERSHIP.items()]
    said += [(flag, getattr(file.client_connection, name)) for name, flag in _CONNECTION.items()]
    found: dict[str, Any] = {flag: value for flag, value in said if value or value is False}
    if file.enable_profiling is not None:
        found["profiling"] = file.enable_profiling
    try:
        return {flag: Duration(duration(value)) if hints[flag] == Duration else value for flag, value in found.items()}
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise SchedulerConfigError(f"leaderElection: {error}") from None


def encode_config(options: SchedulerOptions) -> bytes:
    """Return the effective configuration as JSON, which is YAML, too."""
    process, patience, file = options.process, options.scheduler.queue_timeouts, options.file
    document = {
        "apiVersion": file.api_version,
        "kind": file.kind,
        "parallelism": 16 if file.parallelism is None else file.parallelism,
        "leaderElection": {_camel(name): _shown(getattr(process, flag)) for name, flag in _LEADERSHIP.items()},
        "clientConnection": {
            **{_camel(name): getattr(process, flag) for name, flag in _CONNECTION.items()},
            "acceptContentTypes": file.client_connection.accept_content_types or "",
        },
        "enableProfiling": process.profiling,
        "enableContentionProfiling": process.contention_profiling,
        "percentageOfNodesToScore": file.percentage_of_nodes_to_score or 0,
        "podInitialBackoffSeconds": int(patience.pod_initial_backoff),
        "podMaxBackoffSeconds": int(patience.pod_max_backoff),
        "profiles": [_profile(one) for one in options.scheduler.profiles],
        "extenders": [msgspec.to_builtins(one) for one in options.scheduler.extenders],
        "delayCacheUntilActive": file.delay_cache_until_active,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(map(str.capitalize, more))


def _shown(value: Any) -> Any:
    return format_duration(round(value * 1e9)) if isinstance(value, float) else value


def _profile(profile: ProfileConfig) -> dict[str, Any]:
    """Return a profile with every plugin by name, so that it is independent of the defaults."""
    rows = [{"name": name, "weight": profile.weights.get(name, 0)} for name in profile.plugin_names]
    plugins = {"multiPoint": {"enabled": rows, "disabled": [{"name": "*"}]}}
    for point, names in profile.points.items():
        plugins[point] = {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1"}
    args = [{"name": name, "args": {**head, "kind": f"{name}Args", **said}} for name, said in profile.args.items()]
    return {"schedulerName": profile.scheduler_name, "plugins": plugins, "pluginConfig": args}
