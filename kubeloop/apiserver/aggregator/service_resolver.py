# SPDX-License-Identifier: Apache-2.0
"""Service resolver: looks up Services and EndpointSlices of APIServices in the store."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.apiserver.registry.storage import StorageRegistry

SERVICE_NAME = "kubernetes.io/service-name"


class ServiceResolver:
    """Access to committed Services and EndpointSlices."""

    def __init__(self, registry: StorageRegistry) -> None:
        self._registry = registry
        self._slices = registry.storage_named("discovery.k8s.io", "v1", "endpointslices")
        self._services = registry.storage_named("", "v1", "services")

    def service(self, namespace: str, name: str) -> Service | None:
        """Return a Service, or None."""
        record = self._services.get(namespace, name)
        return None if record is None else self._services.shared_struct(record)

    def slices(self, namespace: str, service: str) -> Sequence[EndpointSlice]:
        """Return the EndpointSlices of a Service, by a scan: namespaces of extension API servers are small."""
        records = self._slices.store.range(self._slices.prefix(namespace)).records
        wanted = f'"{SERVICE_NAME}":"{service}"'.encode()
        found = [self._slices.shared_struct(record) for record in records if wanted in record.value]
        return [one for one in found if one.metadata.labels.get(SERVICE_NAME) == service]

    @property
    def prefixes(self) -> tuple[str, str]:
        """Store prefixes of Services and EndpointSlices, for subscriptions."""
        return self._services.prefix(""), self._slices.prefix("")
