# SPDX-License-Identifier: Apache-2.0
"""Selection of the devices that a container gets: reusable, aligned, preferred by the plugin, then any. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field

from kubeloop.kubelet.cm.devices.messages import PluginDevice

# Asks the plugin: available devices, those that must be included; returns its preference, None if it has no opinion.
PreferDevices = Callable[[Set[str], Set[str]], Awaitable[Set[str] | None]]


class DeviceShortage(Exception):
    """Raised if a container cannot get the devices that it requests."""


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """Devices of a resource from which a container gets a number."""

    resource: str
    required: int
    devices: Mapping[str, PluginDevice]
    available: Set[str]
    reusable: Set[str] = frozenset()
    affinity: Set[int] | None = None


@dataclass(slots=True)
class _Choice:
    """Devices chosen so far."""

    required: int
    chosen: set[str] = field(default_factory=set)

    def take(self, devices: Iterable[str]) -> bool:
        """Take devices in order until there are enough; returns True then."""
        for one in sorted(set(devices) - self.chosen):
            if len(self.chosen) == self.required:
                break
            self.chosen.add(one)
        return len(self.chosen) == self.required


async def select_devices(request: DeviceSelection, prefer: PreferDevices) -> frozenset[str]:
    """Return the devices of a container. Raises DeviceShortage, and what `prefer` raises."""
    choice = _Choice(request.required)
    if choice.take(request.reusable):
        return frozenset(choice.chosen)
    needed, available = request.required - len(choice.chosen), request.available - choice.chosen
    if len(available) < needed:
        raise DeviceShortage(
            f"requested number of devices unavailable for {request.resource}. "
            f"Requested: {needed}, Available: {len(available)}"
        )
    aligned, unaligned, unknown = partition_by_affinity(request.devices, available, request.affinity)
    # The plugin chooses among aligned devices if there are more than enough, else among all that are left.
    has_spare = needed < len(aligned)
    if not has_spare and choice.take(aligned):
        return frozenset(choice.chosen)
    candidates = aligned if has_spare else available
    preferred = await prefer(candidates | choice.chosen, frozenset(choice.chosen))
    for devices in ((preferred or frozenset()) & candidates, aligned, unaligned, unknown):
        if choice.take(devices):
            return frozenset(choice.chosen)
    raise DeviceShortage(
        f"unexpectedly allocated less resources than required. Requested: {request.required}, Got: {len(choice.chosen)}"
    )


def partition_by_affinity(
    devices: Mapping[str, PluginDevice], available: Set[str], affinity: Set[int] | None
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Divide devices into aligned ones, others, and those without NUMA nodes; without affinity all are of the last."""
    if affinity is None or not has_topology(devices):
        return frozenset(), frozenset(), frozenset(available)
    unknown = frozenset(id for id in available if not devices[id].numa_nodes)
    aligned = frozenset(id for id in available if devices[id].numa_nodes & affinity)
    return aligned, frozenset(available) - aligned - unknown, unknown


def has_topology(devices: Mapping[str, PluginDevice]) -> bool:
    """Return True if any device has a NUMA node."""
    return any(one.numa_nodes for one in devices.values())
