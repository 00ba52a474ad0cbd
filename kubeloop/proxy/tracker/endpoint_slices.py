# SPDX-License-Identifier: Apache-2.0
"""Tracks EndpointSlices of one IP family by Service, and which Services' endpoints changed since the last sync."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final, NamedTuple

from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.proxy.endpoint import EndpointsByPort, endpoints_of
from kubeloop.proxy.ip_family import IPFamily
from kubeloop.proxy.service_port import NamespacedName

SERVICE_NAME_LABEL: Final = "kubernetes.io/service-name"
TRIGGER_TIME_ANNOTATION: Final = "endpoints.kubernetes.io/last-change-trigger-time"

log = logging.getLogger(__name__)


class EndpointsChange(NamedTuple):
    """Endpoints of a Service at the last sync and now, and the times of the changes that led to them."""

    before: EndpointsByPort
    after: EndpointsByPort
    trigger_times: tuple[datetime, ...] = ()

    @property
    def has_udp(self) -> bool:
        """True if a UDP port is concerned."""
        return any(name.protocol == "UDP" for name in (*self.before, *self.after))


class EndpointsChangeTracker:
    """Endpoints by Service; slices are kept one by one, as endpoints move between them."""

    def __init__(self, family: IPFamily, node_name: str, started: datetime) -> None:
        self._family = family
        self._node_name = node_name
        self._started = started  # earlier changes were not delayed by this proxy
        self._slices: dict[NamespacedName, dict[str, EndpointSlice]] = {}
        self._endpoints: dict[NamespacedName, EndpointsByPort] = {}  # as of the last sync
        self._changed: dict[NamespacedName, list[datetime]] = {}

    @property
    def pending(self) -> int:
        """Number of Services whose endpoints changed since the last sync."""
        return len(self._changed)

    def endpoints_of(self, service: NamespacedName) -> EndpointsByPort:
        """Return the endpoints of a Service as of the last sync."""
        return self._endpoints.get(service, {})

    def accepts(self, one: EndpointSlice) -> bool:
        """Return True for a slice of this family that belongs to a Service."""
        return one.address_type == self._family.name and bool(one.metadata.labels.get(SERVICE_NAME_LABEL))

    def update(self, one: EndpointSlice, *, deleted: bool = False) -> bool:
        """Take the latest state of a slice; returns True if that is a change that needs a sync."""
        service = NamespacedName(one.metadata.namespace, one.metadata.labels[SERVICE_NAME_LABEL])
        slices = self._slices.setdefault(service, {})
        name, known = one.metadata.name, slices.get(one.metadata.name)
        is_changed = known is not None if deleted else known is None or _has_changed(known, one)
        if deleted:
            slices.pop(name, None)
        else:
            slices[name] = one
        if not slices:
            del self._slices[service]
        if is_changed:
            times = self._changed.setdefault(service, [])
            if deleted:
                times.clear()  # the annotation tells of the change before the deletion
            elif (time := trigger_time_of(one)) is not None and time > self._started:
                times.append(time)
        return is_changed

    def checkout(self) -> dict[NamespacedName, EndpointsChange]:
        """Return the changes of endpoints since the last call, and count them as synced."""
        found: dict[NamespacedName, EndpointsChange] = {}
        for service, times in self._changed.items():
            slices = self._slices.get(service, {})
            after = endpoints_of(service, [slices[name] for name in sorted(slices)], self._node_name)
            found[service] = EndpointsChange(self.endpoints_of(service), after, tuple(times))
            if after:
                self._endpoints[service] = after
            else:
                self._endpoints.pop(service, None)
        self._changed = {}
        return found


def trigger_time_of(one: EndpointSlice) -> datetime | None:
    """Return the time of the change that a slice was written for, or None."""
    text = one.metadata.annotations.get(TRIGGER_TIME_ANNOTATION, "")
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        log.warning("EndpointSlice %s: %r is not a time", one.metadata.name, text)
        return None
    return found if found.tzinfo is not None else None


def _has_changed(old: EndpointSlice, new: EndpointSlice) -> bool:
    return old.endpoints != new.endpoints or old.ports != new.ports
