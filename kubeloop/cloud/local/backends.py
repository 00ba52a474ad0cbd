# SPDX-License-Identifier: Apache-2.0
"""Finds the endpoints of a Service, and selects one for a client."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kubeloop.api.generated.core_v1 import Service, ServicePort
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.runtime.informer.informer import SharedInformerFactory

SERVICE_NAME: Final = "kubernetes.io/service-name"
INDEX: Final = "service"
AFFINITY_SECONDS: Final = 10800  # the API's default
MAX_CLIENTS: Final = 4096  # per load balancer; the least recently active one is dropped first


class Backend(NamedTuple):
    """Host and port of an endpoint."""

    host: str
    port: int


def service_of(slice: Any) -> tuple[str, ...]:
    """Index slices by their Service."""
    name = slice.metadata.labels.get(SERVICE_NAME, "")
    return (f"{slice.metadata.namespace}/{name}",) if name else ()


def backends_of(slices: Iterable[EndpointSlice], port: ServicePort) -> tuple[Backend, ...]:
    """Return the ready endpoints of a Service port, each once, in a stable order."""
    found: set[Backend] = set()
    for slice in slices:
        numbers = [
            one.port
            for one in slice.ports or ()
            if (one.name or "") == port.name and (one.protocol or "TCP") == "TCP" and one.port
        ]
        ready = [one for one in slice.endpoints or () if one.conditions.ready is not False]
        found |= {
            Backend(_resolve_localhost(one.addresses[0]), number)
            for one in ready
            if one.addresses
            for number in numbers
        }
    return tuple(sorted(found))


def _resolve_localhost(address: str) -> str:
    """Resolve names under localhost to this machine (RFC 6761), regardless of resolvers.

    The API accepts no loopback addresses, so such a name identifies an endpoint outside of all pods.
    """
    name = address.rstrip(".").lower()
    return "127.0.0.1" if name == "localhost" or name.endswith(".localhost") else address


class ServiceEndpoints:
    """Endpoints of all Services, from EndpointSlices."""

    def __init__(self, informers: SharedInformerFactory) -> None:
        self._slices = informers.for_resource(resource_of_class(EndpointSlice))
        self._slices.add_indexer(INDEX, service_of)

    def of(self, service: Service, port: ServicePort) -> tuple[Backend, ...]:
        """Return the endpoints of a Service port."""
        key = f"{service.metadata.namespace}/{service.metadata.name}"
        return backends_of(self._slices.by_index(INDEX, key), port)


class SessionAffinityTable:
    """Session affinity of clients."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[tuple[str, str], tuple[float, Backend]] = {}  # by client and port; the most recent last

    def order(self, client: str, port: str, backends: Sequence[Backend], seconds: float | None) -> list[Backend]:
        """Return the backends in random order, but the remembered one of a known client first."""
        found = list(backends)
        self._clock.random().shuffle(found)
        remembered = self._last.get((client, port)) if seconds is not None else None
        if remembered is not None and seconds is not None:
            heard, backend = remembered
            if self._clock.monotonic() - heard < seconds and backend in found:
                found.remove(backend)
                found.insert(0, backend)
        return found

    def record(self, client: str, port: str, backend: Backend) -> None:
        """Record the backend of a client."""
        self._last.pop((client, port), None)
        self._last[client, port] = (self._clock.monotonic(), backend)
        if len(self._last) > MAX_CLIENTS:
            del self._last[next(iter(self._last))]


def affinity_seconds(service: Service) -> float | None:
    """Return the duration of the session affinity; None without affinity."""
    if service.spec.session_affinity != "ClientIP":
        return None
    config = service.spec.session_affinity_config
    told = config.client_ip.timeout_seconds if config is not None and config.client_ip is not None else None
    return float(told if told is not None else AFFINITY_SECONDS)
