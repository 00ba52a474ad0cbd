# SPDX-License-Identifier: Apache-2.0
"""Tracks Services with hints by zone capacity, and finds those that node changes put out of balance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kubeloop.controllers.endpointslice.slice_plan import SlicePlan
from kubeloop.controllers.endpointslice.traffic import remove_hints
from kubeloop.controllers.endpointslice.zones import (
    HintsUnavailable,
    Ratios,
    cpu_ratios_by_zone,
    hint_by_zones,
    is_overloaded,
)
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey

ENABLED = "Topology Aware Hints has been enabled"
DISABLED = "Topology Aware Hints has been disabled"


@dataclass(frozen=True, slots=True)
class TopologyEvent:
    """Event to record on the Service."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(slots=True)
class _Hints:
    """Hints of one Service."""

    by_type: dict[str, dict[str, int]] = field(default_factory=dict)  # number of endpoints by zone, for each type
    populated: bool = False  # True if the event about enabled hints was recorded


class TopologyCache:
    """Distribution of nodes over zones, and of the endpoints of Services that request it."""

    def __init__(self, nodes: Informer) -> None:
        self._nodes = nodes
        self._ratios: Ratios | None = {}
        self._is_stale = False
        self._services: dict[ObjectKey, _Hints] = {}

    def mark_stale(self) -> None:
        """Mark the ratios as outdated."""
        self._is_stale = True

    @property
    def ratios(self) -> Ratios | None:
        """Share of each zone in the total capacity, recomputed after node changes."""
        if self._is_stale:
            self._ratios, self._is_stale = cpu_ratios_by_zone(self._nodes.list()), False
        return self._ratios

    def overloaded_services(self) -> list[ObjectKey]:
        """Return the Services whose hints overload a zone."""
        ratios = self.ratios
        return [
            key
            for key, hints in self._services.items()
            if any(is_overloaded(one, ratios) for one in hints.by_type.values())
        ]

    def add_hints(self, key: ObjectKey, address_type: str, plan: SlicePlan) -> TopologyEvent | None:
        """Set the hints of a Service's endpoints, or remove them if they cannot be assigned safely."""
        try:
            found = hint_by_zones(plan, self.ratios)
        except HintsUnavailable as error:
            self.forget(key, address_type)
            remove_hints(plan)
            return _telling("Warning", "TopologyAwareHintsDisabled", str(error), address_type)
        hints = self._services.setdefault(key, _Hints())
        hints.by_type[address_type] = found
        if hints.populated:
            return None
        hints.populated = True
        return _telling("Normal", "TopologyAwareHintsEnabled", ENABLED, address_type)

    def remove_service_hints(self, key: ObjectKey, address_type: str) -> TopologyEvent | None:
        """Drop the hints of a Service that does not want them; returns an event if it had some."""
        hints = self._services.get(key)
        had_some = hints is not None and hints.populated
        self.forget(key, address_type)
        return _telling("Warning", "TopologyAwareHintsDisabled", DISABLED, address_type) if had_some else None

    def forget(self, key: ObjectKey, address_type: str = "") -> None:
        """Drop the hints of one address type, or of all."""
        hints = self._services.get(key)
        if hints is None:
            return
        hints.by_type.pop(address_type, None)
        hints.populated = False
        if not hints.by_type or not address_type:
            del self._services[key]


def _telling(type: Literal["Normal", "Warning"], reason: str, message: str, address_type: str) -> TopologyEvent:
    return TopologyEvent(type, reason, f"{message}, addressType: {address_type}")
