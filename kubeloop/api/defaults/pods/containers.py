# SPDX-License-Identifier: Apache-2.0
"""Defaults of regular, init and ephemeral containers: image pulls, probes, ports, environment, resources."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.pods.images import pull_policy_of
from kubeloop.api.defaults.pods.resource_amounts import round_requirements
from kubeloop.api.generated.core_v1 import (
    Container,
    EnvVar,
    EphemeralContainer,
    HTTPGetAction,
    Lifecycle,
    ObjectFieldSelector,
    Probe,
)


def default_container(container: Container | EphemeralContainer) -> None:
    """Apply the defaults of a container."""
    if not container.image_pull_policy:
        force_setattr(container, "image_pull_policy", pull_policy_of(container.image))
    if not container.termination_message_path:
        force_setattr(container, "termination_message_path", "/dev/termination-log")
    if not container.termination_message_policy:
        force_setattr(container, "termination_message_policy", "File")
    for port in container.ports:
        if not port.protocol:
            force_setattr(port, "protocol", "TCP")
    for variable in container.env:
        if variable.value_from is not None:
            _default_variable(variable)
    round_requirements(container.resources)
    if container.liveness_probe is not None:
        _default_probe(container.liveness_probe)
    if container.readiness_probe is not None:
        _default_probe(container.readiness_probe)
    if container.startup_probe is not None:
        _default_probe(container.startup_probe)
    if container.lifecycle is not None:
        _default_lifecycle(container.lifecycle)


def default_field_ref(selector: ObjectFieldSelector) -> None:
    """Apply the defaults of a fieldRef."""
    if not selector.api_version:
        force_setattr(selector, "api_version", "v1")


def _default_variable(variable: EnvVar) -> None:
    source = variable.value_from
    if source is None:
        return
    if source.field_ref is not None:
        default_field_ref(source.field_ref)
    if source.file_key_ref is not None and source.file_key_ref.optional is None:
        force_setattr(source.file_key_ref, "optional", False)


def _default_probe(probe: Probe) -> None:
    if not probe.timeout_seconds:
        force_setattr(probe, "timeout_seconds", 1)
    if not probe.period_seconds:
        force_setattr(probe, "period_seconds", 10)
    if not probe.success_threshold:
        force_setattr(probe, "success_threshold", 1)
    if not probe.failure_threshold:
        force_setattr(probe, "failure_threshold", 3)
    if probe.http_get is not None:
        _default_http_get(probe.http_get)
    if probe.grpc is not None and probe.grpc.service is None:
        force_setattr(probe.grpc, "service", "")


def _default_lifecycle(lifecycle: Lifecycle) -> None:
    for handler in (lifecycle.post_start, lifecycle.pre_stop):
        if handler is not None and handler.http_get is not None:
            _default_http_get(handler.http_get)


def _default_http_get(action: HTTPGetAction) -> None:
    if not action.path:
        force_setattr(action, "path", "/")
    if not action.scheme:
        force_setattr(action, "scheme", "HTTP")
