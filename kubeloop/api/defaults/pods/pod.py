# SPDX-License-Identifier: Apache-2.0
"""Defaults of pods and of the pod templates inside every workload."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.pods.containers import default_container
from kubeloop.api.defaults.pods.resource_amounts import round_amounts, round_requirements
from kubeloop.api.defaults.pods.volumes import default_volume
from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerStatus,
    Pod,
    PodIP,
    PodSecurityContext,
    PodSpec,
    PodStatus,
    PodTemplate,
)

_GRACE_PERIOD_SECONDS = 30
_NO_SECURITY_CONTEXT = PodSecurityContext()


def default_pod(pod: Pod) -> None:
    """Apply the defaults of a pod that templates don't get, beyond those of the spec."""
    spec = pod.spec
    if spec.termination_grace_period_seconds is not None and spec.termination_grace_period_seconds < 0:
        force_setattr(spec, "termination_grace_period_seconds", 1)
    if spec.enable_service_links is None:
        force_setattr(spec, "enable_service_links", True)
    for container in spec.containers or ():
        _default_requests_and_ports(container, spec.host_network)
    for container in spec.init_containers:
        _default_requests_and_ports(container, spec.host_network)
    default_pod_spec(spec)
    _default_status(pod.status)


def default_pod_template(obj: PodTemplate) -> None:
    """Apply the defaults of a PodTemplate."""
    default_pod_spec(obj.template.spec)


def default_pod_spec(spec: PodSpec) -> None:
    # Two names of one field; the newer one wins.
    """Apply the defaults of a pod spec."""
    account = spec.service_account_name or spec.service_account
    if account:
        force_setattr(spec, "service_account_name", account)
        force_setattr(spec, "service_account", account)
    if not spec.dns_policy:
        force_setattr(spec, "dns_policy", "ClusterFirst")
    if not spec.restart_policy:
        force_setattr(spec, "restart_policy", "Always")
    if spec.security_context is None:
        force_setattr(spec, "security_context", _NO_SECURITY_CONTEXT)
    if spec.termination_grace_period_seconds is None:
        force_setattr(spec, "termination_grace_period_seconds", _GRACE_PERIOD_SECONDS)
    if not spec.scheduler_name:
        force_setattr(spec, "scheduler_name", "default-scheduler")
    for volume in spec.volumes:
        default_volume(volume)
    for container in spec.init_containers:
        default_container(container)
    for container in spec.containers or ():
        default_container(container)
    for ephemeral in spec.ephemeral_containers:
        default_container(ephemeral)
    if spec.overhead:
        round_amounts(spec, "overhead")
    if spec.resources is not None:
        round_requirements(spec.resources)


def _default_requests_and_ports(container: Container, host_network: bool) -> None:
    resources = container.resources
    limits = resources.limits
    if limits and not limits.keys() <= resources.requests.keys():
        force_setattr(resources, "requests", {**limits, **resources.requests})
    if host_network:
        for port in container.ports:
            if not port.host_port:
                force_setattr(port, "host_port", port.container_port)


def _default_status(status: PodStatus) -> None:
    # The single address is the first of the list; old clients know only the single one, so it wins.
    if status.pod_ip:
        if not status.pod_ips or status.pod_ips[0].ip != status.pod_ip:
            force_setattr(status, "pod_ips", (PodIP(ip=status.pod_ip),))
    elif status.pod_ips:
        force_setattr(status, "pod_ip", status.pod_ips[0].ip)
    if status.container_statuses or status.init_container_statuses or status.ephemeral_container_statuses:
        _round_statuses(status.init_container_statuses)
        _round_statuses(status.container_statuses)
        _round_statuses(status.ephemeral_container_statuses)
    if status.allocated_resources:
        round_amounts(status, "allocated_resources")
    if status.resources is not None:
        round_requirements(status.resources)


def _round_statuses(statuses: tuple[ContainerStatus, ...]) -> None:
    for status in statuses:
        round_amounts(status, "allocated_resources")
        if status.resources is not None:
            round_requirements(status.resources)
