# SPDX-License-Identifier: Apache-2.0
"""Objects of the zone: Services, their EndpointSlices and Namespaces, and which Services have changed."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.dns.zone.reverse_index import ServiceKey
from kubeloop.dns.zone.service_records import ReadyEndpoint, ready_endpoints

SERVICE_NAME_LABEL = "kubernetes.io/service-name"


class ServiceObjects:
    """Current objects by Service, and the keys of changed Services."""

    def __init__(self) -> None:
        self.namespaces: set[str] = set()
        self._services: dict[ServiceKey, Service] = {}
        self._slices: dict[ServiceKey, dict[str, tuple[ReadyEndpoint, ...]]] = {}  # by name of the slice
        self._owners: dict[tuple[str, str], ServiceKey] = {}  # by namespace and name of a slice
        self._by_namespace: dict[str, set[ServiceKey]] = {}
        self._changed: dict[ServiceKey, None] = {}
        self._is_namespace_changed = False

    @property
    def has_changes(self) -> bool:
        """True if something changed since the changes were taken."""
        return bool(self._changed) or self._is_namespace_changed

    def take_changes(self, limit: int | None = None) -> Collection[ServiceKey]:
        """Return changed Services, at most `limit`, and forget that they have changed."""
        taken = list(islice(self._changed, limit))
        for key in taken:
            del self._changed[key]
        self._is_namespace_changed = False
        return taken

    def service(self, key: ServiceKey) -> Service | None:
        """Return a Service; None if it does not exist."""
        return self._services.get(key)

    def endpoints(self, key: ServiceKey) -> tuple[ReadyEndpoint, ...]:
        """Return the ready endpoints of a Service, in the order of the slices' names."""
        slices = self._slices.get(key, {})
        return tuple([one for name in sorted(slices) for one in slices[name]])

    def set_namespace(self, name: str) -> None:
        """Add a namespace."""
        if name not in self.namespaces:
            self.namespaces.add(name)
            self._change_namespace(name)

    def delete_namespace(self, name: str) -> None:
        """Remove a namespace."""
        self.namespaces.discard(name)
        self._change_namespace(name)

    def set_service(self, service: Service) -> None:
        """Add or change a Service."""
        key = service.metadata.namespace, service.metadata.name
        self._services[key] = service
        self._change(key)

    def delete_service(self, service: Service) -> None:
        """Remove a Service."""
        key = service.metadata.namespace, service.metadata.name
        if self._services.pop(key, None) is not None:
            self._change(key)

    def set_slice(self, endpoint_slice: EndpointSlice) -> None:
        """Add or change a slice, which may belong to another Service than before."""
        self.delete_slice(endpoint_slice)
        metadata = endpoint_slice.metadata
        owner = metadata.labels.get(SERVICE_NAME_LABEL)
        if owner:
            key = metadata.namespace, owner
            self._owners[metadata.namespace, metadata.name] = key
            self._slices.setdefault(key, {})[metadata.name] = ready_endpoints(endpoint_slice)
            self._change(key)

    def delete_slice(self, endpoint_slice: EndpointSlice) -> None:
        """Remove a slice."""
        metadata = endpoint_slice.metadata
        key = self._owners.pop((metadata.namespace, metadata.name), None)
        if key is not None:
            slices = self._slices[key]
            slices.pop(metadata.name, None)
            if not slices:
                del self._slices[key]
            self._change(key)

    def _change(self, key: ServiceKey) -> None:
        self._changed[key] = None
        if key in self._services or key in self._slices:
            self._by_namespace.setdefault(key[0], set()).add(key)
        elif key in (keys := self._by_namespace.get(key[0], set())):
            keys.discard(key)
            if not keys:
                del self._by_namespace[key[0]]

    def _change_namespace(self, name: str) -> None:
        self._is_namespace_changed = True
        self._changed.update(dict.fromkeys(self._by_namespace.get(name, ())))
