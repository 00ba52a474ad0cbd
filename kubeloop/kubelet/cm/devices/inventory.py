# SPDX-License-Identifier: Apache-2.0
"""Device inventory: the devices of each resource with their health, and the endpoints of its plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kubeloop.kubelet.cm.devices.endpoint import DevicePluginEndpoint, stopped_endpoint
from kubeloop.kubelet.cm.devices.messages import HEALTHY, PluginDevice


class DeviceCapacity(NamedTuple):
    """Numbers of devices by resource; `removed` are resources whose plugins did not return in time."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    removed: frozenset[str]


class PluginInventory:
    """Registered resources. Every resource has an endpoint, running or stopped."""

    def __init__(self) -> None:
        self._endpoints: dict[str, DevicePluginEndpoint] = {}  # the one that is called
        self._running: dict[str, dict[str, DevicePluginEndpoint]] = {}  # all of a resource, by socket
        self._devices: dict[str, dict[str, PluginDevice]] = {}
        self._healthy: dict[str, frozenset[str]] = {}
        self._unhealthy: dict[str, frozenset[str]] = {}

    @property
    def healthy(self) -> Mapping[str, frozenset[str]]:
        """IDs of the healthy devices by resource, also of resources without devices."""
        return self._healthy

    def devices(self, resource: str) -> Mapping[str, PluginDevice]:
        """Return the devices of a resource by ID, as announced last."""
        return self._devices.get(resource, {})

    def endpoint(self, resource: str) -> DevicePluginEndpoint | None:
        """Return the endpoint that is called for a resource."""
        return self._endpoints.get(resource)

    def is_connected(self, resource: str, socket: str) -> bool:
        """Return True if a plugin is connected at a socket."""
        return socket in self._running.get(resource, {})

    def connect(self, endpoint: DevicePluginEndpoint) -> None:
        """Add a plugin; it is called from now on."""
        self._running.setdefault(endpoint.resource, {})[endpoint.socket] = endpoint
        self._endpoints[endpoint.resource] = endpoint

    def disconnect(self, endpoint: DevicePluginEndpoint, now: float) -> None:
        """Remove a plugin that has ended; without another one, all devices of its resource become unhealthy."""
        endpoint.stop(now)
        resource, running = endpoint.resource, self._running.get(endpoint.resource, {})
        if running.get(endpoint.socket) is not endpoint:
            return
        del running[endpoint.socket]
        if running:
            self._endpoints[resource] = next(iter(running.values()))
            return
        del self._running[resource]
        self._unhealthy[resource] = self._unhealthy.get(resource, frozenset()) | self._healthy.get(
            resource, frozenset()
        )
        self._healthy[resource] = frozenset()

    def update(self, resource: str, devices: Iterable[PluginDevice]) -> frozenset[str]:
        """Replace the devices of a resource; returns those whose health has changed, and new ones."""
        old = self._devices.get(resource, {})
        new = self._devices[resource] = {one.id: one for one in devices}
        self._healthy[resource] = frozenset(id for id, one in new.items() if one.health == HEALTHY)
        self._unhealthy[resource] = frozenset(new) - self._healthy[resource]
        return frozenset(id for id, one in new.items() if id not in old or old[id].health != one.health)

    def restore(self, resources: Iterable[str], now: float) -> None:
        """Add resources of an earlier kubelet: without devices until their plugins register again."""
        for resource in resources:
            self._healthy[resource] = self._unhealthy[resource] = frozenset()
            self._endpoints[resource] = stopped_endpoint(resource, now)

    def take_capacity(self, now: float) -> DeviceCapacity:
        """Return the numbers of devices; resources whose plugins have expired are removed from the inventory."""
        removed = set()
        for resource in list(self._healthy):
            endpoint = self._endpoints.get(resource)
            if endpoint is None or endpoint.has_expired(now):
                removed.add(resource)
                self._endpoints.pop(resource, None)
                del self._healthy[resource], self._unhealthy[resource]
        capacity = {name: len(ids) + len(self._unhealthy[name]) for name, ids in self._healthy.items()}
        allocatable = {name: len(ids) for name, ids in self._healthy.items()}
        return DeviceCapacity(capacity, allocatable, frozenset(removed))
