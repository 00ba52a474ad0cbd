# SPDX-License-Identifier: Apache-2.0
"""Validation of probes, lifecycle hooks and stop signals."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.core_v1 import (
    Container,
    GRPCAction,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    PodOS,
    Probe,
    SleepAction,
)
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.meta.name_rules import check_http_header_name
from kubeloop.api.validation.shared.scalars import NOT_NEGATIVE, validate_port_or_name

_SCHEMES: Final = ("HTTP", "HTTPS")
_PROTOCOLS: Final = ("HTTP1", "HTTP2")
_GRPC_MODES: Final = ("Plaintext", "TLS")
_MORE_THAN_ONE: Final = "may not specify more than 1 handler type"
_PLAIN_SIGNALS: Final = (
    "ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL", "PIPE", "POLL",
    "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP", "TTIN", "TTOU", "URG", "USR1",
    "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ", "RTMIN", "RTMAX",
)  # fmt: skip
_SIGNALS: Final = {
    "linux": frozenset(
        [f"SIG{name}" for name in _PLAIN_SIGNALS]
        + [f"SIGRTMIN+{offset}" for offset in range(1, 16)]
        + [f"SIGRTMAX-{offset}" for offset in range(1, 15)]
    ),
    "windows": frozenset(("SIGKILL", "SIGTERM")),
}


def validate_probes(container: Container, grace: int | None, path: FieldPath) -> FieldErrors:
    """Validate the probes of a container."""
    errors: FieldErrors = []
    if container.liveness_probe is not None:
        errors += _validate_single_success(container.liveness_probe, grace, path.child("livenessProbe"))
    if container.readiness_probe is not None:
        at, probe = path.child("readinessProbe"), container.readiness_probe
        errors += _validate_probe(probe, grace, at)
        if probe.termination_grace_period_seconds is not None:
            seconds = probe.termination_grace_period_seconds
            detail = "must not be set for readinessProbes"
            errors.append(invalid(at.child("terminationGracePeriodSeconds"), seconds, detail))
    if container.startup_probe is not None:
        errors += _validate_single_success(container.startup_probe, grace, path.child("startupProbe"))
    return errors


def _validate_single_success(probe: Probe, grace: int | None, path: FieldPath) -> FieldErrors:
    errors = _validate_probe(probe, grace, path)
    if probe.success_threshold != 1:
        errors.append(invalid(path.child("successThreshold"), probe.success_threshold, "must be 1"))
    return errors


def _validate_probe(probe: Probe, grace: int | None, path: FieldPath) -> FieldErrors:
    errors = _validate_handler(probe, None, probe.grpc, grace, path)
    for name, number in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        if number < 0:
            errors.append(invalid(path.child(name), number, NOT_NEGATIVE))
    seconds = probe.termination_grace_period_seconds
    if seconds is not None and seconds <= 0:
        errors.append(invalid(path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0"))
    return errors


def _validate_handler(
    handler: Probe | LifecycleHandler,
    sleep: SleepAction | None,
    grpc: GRPCAction | None,
    grace: int | None,
    path: FieldPath,
) -> FieldErrors:
    errors: FieldErrors = []
    present: list[str] = []
    if handler.exec is not None:
        present.append("exec")
        if not handler.exec.command:
            errors.append(required(path.child("exec", "command")))
    if handler.http_get is not None:
        present.append("httpGet")
        if len(present) == 1:
            errors += _validate_http(handler.http_get, path.child("httpGet"))
    if handler.tcp_socket is not None:
        present.append("tcpSocket")
        if len(present) == 1:
            errors += validate_port_or_name(handler.tcp_socket.port, path.child("tcpSocket", "port"))
    if grpc is not None:
        present.append("grpc")
        if len(present) == 1:
            errors += _validate_grpc(grpc, path.child("grpc"))
    if sleep is not None:
        present.append("sleep")
        if len(present) == 1 and grace is not None and not 0 <= sleep.seconds <= grace:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            errors.append(invalid(path.child("sleep"), sleep.seconds, detail))
    if not present:
        errors.append(required(path, "must specify a handler type"))
    return errors + [forbidden(path.child(name), _MORE_THAN_ONE) for name in present[1:]]


def _validate_http(http: HTTPGetAction, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = [] if http.path else [required(path.child("path"))]
    errors += validate_port_or_name(http.port, path.child("port"))
    if http.scheme not in _SCHEMES:
        errors.append(not_supported(path.child("scheme"), http.scheme, _SCHEMES))
    for header in http.http_headers:
        messages = check_http_header_name(header.name)
        errors += [invalid(path.child("httpHeaders"), header.name, message) for message in messages]
    if http.protocol is None:
        return errors
    if http.protocol not in _PROTOCOLS:
        errors.append(not_supported(path.child("protocol"), http.protocol, _PROTOCOLS))
    elif http.protocol == "HTTP2" and http.scheme != "HTTP":
        errors.append(invalid(path.child("protocol"), http.protocol, "is only supported with HTTP (H2C)"))
    elif http.protocol == "HTTP2" and http.host:
        errors.append(invalid(path.child("host"), http.host, 'must be empty when `protocol` is "HTTP2"'))
    return errors


def _validate_grpc(grpc: GRPCAction, path: FieldPath) -> FieldErrors:
    errors = validate_port_or_name(grpc.port, path.child("port"))
    if grpc.mode is not None and grpc.mode not in _GRPC_MODES:
        errors.append(not_supported(path.child("mode"), grpc.mode, _GRPC_MODES))
    return errors


def validate_lifecycle(lifecycle: Lifecycle, grace: int | None, path: FieldPath, os: PodOS | None) -> FieldErrors:
    """Validate the lifecycle hooks and the stop signal of a container."""
    errors: FieldErrors = []
    for name, handler in (("postStart", lifecycle.post_start), ("preStop", lifecycle.pre_stop)):
        if handler is not None:
            errors += _validate_handler(handler, handler.sleep, None, grace, path.child(name))
    if lifecycle.stop_signal is not None:
        errors += _validate_stop_signal(lifecycle.stop_signal, path.child("stopSignal"), os)
    return errors


def _validate_stop_signal(signal: str, path: FieldPath, os: PodOS | None) -> FieldErrors:
    if os is None:
        return [forbidden(path, "may not be set for containers with empty `spec.os.name`")]
    known = _SIGNALS.get(os.name)
    return [] if known is None or signal in known else [not_supported(path, signal, known)]
