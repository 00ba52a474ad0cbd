# SPDX-License-Identifier: Apache-2.0
"""Audit flags of `kubeloop apiserver`, and the configuration of the audit backends."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kubeloop.cli.flags.types import boolean, duration, non_negative_count

if TYPE_CHECKING:
    from kubeloop.apiserver.audit.backends import AuditWebhookConfig, BatchConfig, TruncateConfig
    from kubeloop.apiserver.server import AuditConfig

_MODES = "batch,blocking,blocking-strict"


def add_audit_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of policy, log and webhook."""
    parser.add_argument("--audit-policy-file", type=Path, help="policy: which requests are recorded, and how much")
    parser.add_argument("--audit-log-path", default="", help="log file, or - for standard output")
    for name, default, about in (
        ("maxsize", 100, "megabytes of a file; 0: 100"),
        ("maxbackup", 100, "number of rotated audit logs to keep; 0 for all"),
        ("maxage", 366, "days to keep rotated audit logs; 0 for no limit"),
    ):
        parser.add_argument(
            f"--audit-log-{name}", type=non_negative_count, default=default, help=f"{about} (default: {default})"
        )
    parser.add_argument("--audit-log-format", default="json", help="format of the log: json or legacy (default: json)")
    _add_backend_flags(parser, "log", "blocking", ("1", "0", "false", "0", "0"))
    parser.add_argument(
        "--audit-webhook-config-file", type=Path, metavar="FILE", help="kubeconfig file of the webhook for events"
    )
    parser.add_argument(
        "--audit-webhook-initial-backoff",
        type=duration,
        default=10.0,
        metavar="DURATION",
        help="time to wait after the first failed request (default: 10s)",
    )
    _add_backend_flags(parser, "webhook", "batch", ("400", "30s", "true", "10", "15"))


def _add_backend_flags(
    parser: argparse.ArgumentParser, backend: str, mode: str, defaults: tuple[str, str, str, str, str]
) -> None:
    size, wait, throttle, qps, burst = defaults
    prefix = f"--audit-{backend}"
    parser.add_argument(f"{prefix}-mode", default=mode, help=f"way to store events: {_MODES} (default: {mode})")
    for name, type_, default, about in (
        ("version", str, "audit.k8s.io/v1", "group and version of events"),
        ("batch-buffer-size", int, "10000", "events to buffer, in batch mode"),
        ("batch-max-size", int, size, "events of a batch"),
        ("batch-max-wait", duration, wait, "time after which a batch is written that is not full"),
        ("batch-throttle-enable", boolean, throttle, "limit the rate of batches"),
        ("batch-throttle-qps", float, qps, "batches per second on average"),
        ("batch-throttle-burst", int, burst, "batches at the same moment"),
        ("truncate-enabled", boolean, "false", "remove bodies of large events, and split large batches"),
        ("truncate-max-batch-size", int, str(10 * 1024 * 1024), "bytes of a batch"),
        ("truncate-max-event-size", int, str(100 * 1024), "bytes of an event"),
    ):
        parser.add_argument(f"{prefix}-{name}", type=type_, default=default, help=f"{about} (default: {default})")


def audit_config(options: argparse.Namespace) -> AuditConfig | None:
    """Build the audit configuration; raises StartupError.

    Upstream silently records nothing without a policy, or without log and webhook.
    """
    from kubeloop.apiserver.audit.backends import FORMATS
    from kubeloop.apiserver.server import AuditConfig, StartupError

    policy, path, webhook = options.audit_policy_file, options.audit_log_path, options.audit_webhook_config_file
    if bool(policy) != bool(path or webhook):
        raise StartupError(
            "--audit-policy-file and --audit-log-path or --audit-webhook-config-file must be given together"
        )
    if not policy:
        return None
    if path and options.audit_log_format not in FORMATS:
        allowed = ",".join(FORMATS)
        raise StartupError(f'invalid audit log format {options.audit_log_format}, allowed formats are "{allowed}"')
    if path:
        _check(options, "log")
    return AuditConfig(
        policy,
        path,
        options.audit_log_maxsize,
        options.audit_log_maxbackup,
        options.audit_log_maxage,
        options.audit_log_format,
        options.audit_log_mode,
        _batch(options, "log"),
        _truncate(options, "log"),
        _webhook(options) if webhook else None,
    )


def _webhook(options: argparse.Namespace) -> AuditWebhookConfig:
    from kubeloop.apiserver.audit.backends import AuditWebhookConfig

    _check(options, "webhook")
    return AuditWebhookConfig(
        options.audit_webhook_config_file,
        options.audit_webhook_initial_backoff,
        options.audit_webhook_mode,
        _batch(options, "webhook"),
        _truncate(options, "webhook"),
    )


def _batch(options: argparse.Namespace, backend: str) -> BatchConfig:
    from kubeloop.apiserver.audit.backends import BatchConfig

    names = ("buffer_size", "max_size", "max_wait", "throttle_enable", "throttle_qps", "throttle_burst")
    return BatchConfig(*(getattr(options, f"audit_{backend}_batch_{name}") for name in names))


def _truncate(options: argparse.Namespace, backend: str) -> TruncateConfig | None:
    from kubeloop.apiserver.audit.backends import TruncateConfig

    prefix = f"audit_{backend}_truncate"
    if not getattr(options, f"{prefix}_enabled"):
        return None
    return TruncateConfig(getattr(options, f"{prefix}_max_event_size"), getattr(options, f"{prefix}_max_batch_size"))


def _check(options: argparse.Namespace, backend: str) -> None:
    """Reject senseless options of one backend, with upstream's messages."""
    from kubeloop.apiserver.audit.backends import MODES
    from kubeloop.apiserver.server import StartupError

    mode, batch = getattr(options, f"audit_{backend}_mode"), _batch(options, backend)
    if mode not in MODES:
        raise StartupError(f'invalid audit {backend} mode {mode}, allowed modes are "{",".join(MODES)}"')
    positive = "must be a positive number"
    checks = [("buffer size", batch.buffer_size), ("max batch size", batch.max_size)]
    if batch.throttle:
        checks += [("throttle QPS", int(batch.throttle_qps > 0)), ("throttle burst", batch.throttle_burst)]
    for name, value in checks if mode == "batch" else ():
        if value <= 0:
            raise StartupError(f"invalid audit batch {backend} {name} {value}, {positive}")
    event = getattr(options, f"audit_{backend}_truncate_max_event_size")
    total = getattr(options, f"audit_{backend}_truncate_max_batch_size")
    if event <= 0:
        raise StartupError(f"invalid audit truncate {backend} max event size {event}, {positive}")
    if total < event:
        told = f"must be greater than max event size ({event})"
        raise StartupError(f"invalid audit truncate {backend} max batch size {total}, {told}")
    if getattr(options, f"audit_{backend}_version") != "audit.k8s.io/v1":
        raise StartupError('invalid group version, allowed versions are [{"audit.k8s.io" "v1"}]')
