# SPDX-License-Identifier: Apache-2.0
"""Tracks the ports of all Services in one IP family, and which Services changed since the last sync."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubeloop.api.generated.core_v1 import Service
from kubeloop.proxy.ip_family import IPFamily
from kubeloop.proxy.service_port import (
    NamespacedName,
    ServicePortInfo,
    ServicePortName,
    service_name_of,
    service_ports_of,
)

ServicePorts = Mapping[ServicePortName, ServicePortInfo]


class ServiceChangeTracker:
    """Ports of Services by Service; a Service that has changed back since the last sync does not count as changed."""

    def __init__(self, family: IPFamily, *, allow_external_ips: bool = True) -> None:
        self._family = family
        self._allow_external_ips = allow_external_ips
        self._ports: dict[NamespacedName, ServicePorts] = {}
        self._before: dict[NamespacedName, ServicePorts] = {}  # of changed Services, as of the last sync

    @property
    def pending(self) -> int:
        """Number of Services that changed since the last sync."""
        return len(self._before)

    def __iter__(self) -> Iterator[NamespacedName]:
        return iter(self._ports)

    def ports_of(self, service: NamespacedName) -> ServicePorts:
        """Return the ports of a Service."""
        return self._ports.get(service, {})

    def update(self, service: Service, *, deleted: bool = False) -> bool:
        """Take the latest state of a Service; returns True if any Service has changed since the last sync."""
        name = service_name_of(service)
        allow = self._allow_external_ips
        new = {} if deleted else service_ports_of(service, self._family, allow_external_ips=allow)
        before = self._before.setdefault(name, self._ports.get(name, {}))
        if new:
            self._ports[name] = new
        else:
            self._ports.pop(name, None)
        if new == before:
            del self._before[name]
        return bool(self._before)

    def checkout(self) -> dict[NamespacedName, ServicePorts]:
        """Return the ports that changed Services had at the last sync, and count them as synced."""
        changed, self._before = self._before, {}
        return changed
