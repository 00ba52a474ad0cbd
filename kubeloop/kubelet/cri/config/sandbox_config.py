# SPDX-License-Identifier: Apache-2.0
"""Settings of a pod's sandbox, and the pod's host name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import ContainerPort, Pod
from kubeloop.kubelet.admission.sysctls import Namespace, namespace_of, normalize_name
from kubeloop.kubelet.cri.config.labels import sandbox_labels
from kubeloop.kubelet.cri.config.linux_resources import overhead_resources, sandbox_resources
from kubeloop.kubelet.cri.config.resource_policy import ResourcePolicy
from kubeloop.kubelet.cri.config.security_context import sandbox_security_context
from kubeloop.kubelet.cri.messages.sandbox import (
    DNSConfig,
    LinuxPodSandboxConfig,
    PodSandboxConfig,
    PodSandboxMetadata,
    PortMapping,
    Protocol,
)
from kubeloop.kubelet.cri.messages.security import UserNamespace

_LONGEST_HOSTNAME = 63
_LONGEST_KERNEL_NAME = 64


class HostnameError(ValueError):
    """Raised for a host name that the kernel does not take."""


class SandboxInputs(NamedTuple):
    """Inputs of a sandbox's settings besides the pod."""

    attempt: int
    log_folder: str
    cgroup_parent: str
    cluster_domain: str
    dns: DNSConfig | None = None
    user_namespace: UserNamespace | None = None
    policy: ResourcePolicy = ResourcePolicy()
    default_sysctls: Mapping[str, str] = MappingProxyType({})  # `defaultPodSysctls`


def make_sandbox_config(pod: Pod, inputs: SandboxInputs) -> PodSandboxConfig:
    """Return the settings of a sandbox. Raises `HostnameError`."""
    about = pod.metadata
    hostname = "" if pod.spec.host_network else kernel_hostname(pod, inputs.cluster_domain)
    context = pod.spec.security_context
    sysctls = {normalize_name(one.name): one.value for one in context.sysctls} if context is not None else {}
    return PodSandboxConfig(
        metadata=PodSandboxMetadata(name=about.name, uid=about.uid, namespace=about.namespace, attempt=inputs.attempt),
        hostname=hostname,
        log_directory=inputs.log_folder,
        dns_config=inputs.dns,
        port_mappings=_port_mappings(pod),
        labels=sandbox_labels(pod),
        annotations=about.annotations,
        linux=LinuxPodSandboxConfig(
            cgroup_parent=inputs.cgroup_parent,
            security_context=sandbox_security_context(pod, inputs.user_namespace),
            sysctls={**default_sysctls(pod, inputs.default_sysctls), **sysctls},
            overhead=overhead_resources(pod, inputs.policy),
            resources=sandbox_resources(pod, inputs.policy),
        ),
    )


def default_sysctls(pod: Pod, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the kernel settings of the node's configuration for a pod, but those of namespaces of the machine."""
    spec = pod.spec
    is_own: Mapping[Namespace, bool] = {
        "IPC": not spec.host_ipc,
        "Net": not spec.host_network,
        "UTS": not spec.host_network,
        "User": spec.host_users is False,
    }
    found = ((normalize_name(name), namespace_of(name), value) for name, value in defaults.items())
    return {name: value for name, space, value in found if space is not None and is_own[space]}


def hostname_and_domain(pod: Pod, cluster_domain: str) -> tuple[str, str]:
    """Return the host name of a pod, and its domain within the cluster if it has a subdomain."""
    if pod.spec.hostname_override is not None:
        return _short(pod.spec.hostname_override), ""
    hostname = _short(pod.spec.hostname or pod.metadata.name)
    if not pod.spec.subdomain:
        return hostname, ""
    return hostname, f"{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}"


def _short(hostname: str) -> str:
    return hostname if len(hostname) <= _LONGEST_HOSTNAME else hostname[:_LONGEST_HOSTNAME].rstrip("-.")


def kernel_hostname(pod: Pod, cluster_domain: str) -> str:
    """Return the host name that the kernel gets: the full name if the pod asks for it."""
    hostname, domain = hostname_and_domain(pod, cluster_domain)
    if not domain or not pod.spec.set_hostname_as_fqdn:
        return hostname
    name = f"{hostname}.{domain}"
    if len(name) > _LONGEST_KERNEL_NAME:
        raise HostnameError(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {name} is too long "
            f"({_LONGEST_KERNEL_NAME} characters is the max, {len(name)} characters requested)"
        )
    return name


def _port_mappings(pod: Pod) -> tuple[PortMapping, ...]:
    return tuple(
        PortMapping(
            protocol=Protocol[port.protocol or "TCP"],
            container_port=port.container_port,
            host_port=port.host_port,
            host_ip=port.host_ip,
        )
        for container in pod.spec.containers or ()
        for port in _distinct(container.ports)
    )


def _distinct(ports: tuple[ContainerPort, ...]) -> Iterable[ContainerPort]:
    """Return the ports without repetitions; of ports with one name, the first."""
    found: dict[object, ContainerPort] = {}
    for one in ports:
        found.setdefault(one.name or (one.protocol, one.host_ip, one.container_port, one.host_port), one)
    return found.values()
