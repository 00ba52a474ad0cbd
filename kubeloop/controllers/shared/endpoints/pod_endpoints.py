# SPDX-License-Identifier: Apache-2.0
"""Derives the addresses and ports by which a pod serves a Service. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal

from kubeloop.api.addresses import parse_ip
from kubeloop.api.generated.core_v1 import Container, Pod, Service, ServicePort
from kubeloop.api.pods.pod import is_ready, is_terminal

Family = Literal["IPv4", "IPv6"]
HEADLESS: Final = "None"  # the cluster IP of a headless Service


def should_be_in_endpoints(pod: Pod, terminating_too: bool = True) -> bool:
    """Return True if the pod can be an endpoint: it has an IP and is not terminal."""
    if is_terminal(pod) or not (pod.status.pod_ip or pod.status.pod_ips):
        return False
    return terminating_too or pod.metadata.deletion_timestamp is None


def endpoint_state(pod: Pod) -> tuple[object, ...] | None:
    """Return everything of a pod that affects its endpoints; None if it is no endpoint."""
    if not should_be_in_endpoints(pod):
        return None
    spec, status = pod.spec, pod.status
    terminating = pod.metadata.deletion_timestamp is not None
    return is_ready(pod), terminating, status.pod_ips, spec.node_name, spec.hostname, spec.subdomain


def port_of(pod: Pod, wanted: ServicePort) -> int | None:
    """Resolve a Service port to a number; a named port is looked up in the pod's containers that keep running."""
    target = wanted.target_port
    if not isinstance(target, str):
        return target
    for container in _serving_containers(pod):
        for port in container.ports:
            if port.name == target and port.protocol == wanted.protocol:
                return port.container_port
    return None


def _serving_containers(pod: Pod) -> Iterable[Container]:
    yield from pod.spec.containers or ()
    yield from (one for one in pod.spec.init_containers if one.restart_policy == "Always")


def hostname_of(pod: Pod, service: Service) -> str:
    """Return the pod's hostname within the Service's domain, or an empty string."""
    return pod.spec.hostname if pod.spec.subdomain == service.metadata.name else ""


def addresses_of(pod: Pod, family: str) -> tuple[str, ...]:
    """Return the pod's addresses of one IP family in canonical form."""
    read = (_read(one.ip) for one in pod.status.pod_ips)
    return tuple(found[1] for found in read if found is not None and found[0] == family)


def family_of(address: str) -> Family | None:
    """Return the IP family, or None for an invalid address."""
    found = _read(address)
    return None if found is None else found[0]


def canonical_ip(address: str) -> str:
    """Return the address in canonical form, or unchanged if it is invalid."""
    found = _read(address)
    return address if found is None else found[1]


@lru_cache(maxsize=1 << 16)  # the same addresses are parsed in every sync of a Service
def _read(address: str) -> tuple[Family, str] | None:
    parsed = parse_ip(address)
    if parsed is None:
        return None
    return ("IPv4" if parsed.version == 4 else "IPv6"), str(parsed)


def has_cluster_ip(service: Service) -> bool:
    """Return True if the Service has a cluster IP."""
    return service.spec.cluster_ip not in ("", HEADLESS)


def has_selected_endpoints(service: Service) -> bool:
    """Return True if the Service has a selector and is not of type ExternalName, so that its endpoints are pods."""
    return service.spec.type != "ExternalName" and bool(service.spec.selector)
