# SPDX-License-Identifier: Apache-2.0
"""Environment variables with the addresses of services, for containers of real nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.api.generated.core_v1 import Pod, Service

_ALWAYS = ("default", "kubernetes")  # namespace and name of the API server's service


def service_environment(pod: Pod, services: Iterable[Service]) -> dict[str, str]:
    """Return the variables of the API server's service, and with service links those of the pod's namespace."""
    chosen: dict[str, Service] = {}
    for service in services:
        where, name = service.metadata.namespace, service.metadata.name
        if service.spec.cluster_ip in ("", "None") or not service.spec.ports:
            continue
        if (where, name) == _ALWAYS:
            chosen.setdefault(name, service)
        elif where == pod.metadata.namespace and pod.spec.enable_service_links is not False:
            chosen[name] = service
    values: dict[str, str] = {}
    for service in chosen.values():
        values |= _variables_of(service)
    return values


def _variables_of(service: Service) -> dict[str, str]:
    prefix, address, ports = _variable(service.metadata.name), service.spec.cluster_ip, service.spec.ports or ()
    values = {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(ports[0].port)}
    values |= {f"{prefix}_SERVICE_PORT_{_variable(one.name)}": str(one.port) for one in ports if one.name}
    host = f"[{address}]" if ":" in address else address
    for number, one in enumerate(ports):
        protocol = (one.protocol or "TCP").lower()
        url = f"{protocol}://{host}:{one.port}"
        if number == 0:
            values[f"{prefix}_PORT"] = url
        link = f"{prefix}_PORT_{one.port}_{protocol.upper()}"
        values |= {link: url, f"{link}_PROTO": protocol, f"{link}_PORT": str(one.port), f"{link}_ADDR": address}
    return values


def _variable(name: str) -> str:
    return name.replace("-", "_").upper()
