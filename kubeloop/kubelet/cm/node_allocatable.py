# SPDX-License-Identifier: Apache-2.0
"""Node allocatable: the resources of the machine that pods may use, without reservations. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kubeloop.api.quota.amounts import ZERO, Amounts, add, amounts_of
from kubeloop.api.scalars.quantity import Quantity, QuantityFormat
from kubeloop.kubelet.eviction.signals import HardThreshold

PODS, SYSTEM_RESERVED, KUBE_RESERVED = "pods", "system-reserved", "kube-reserved"
SYSTEM_COMPRESSIBLE, KUBE_COMPRESSIBLE = "system-reserved-compressible", "kube-reserved-compressible"
_SIGNALS = {"memory.available": "memory", "nodefs.available": "ephemeral-storage"}
_HUGE_PAGES = "hugepages-"


class InvalidNodeAllocatable(ValueError):
    """Raised for reservations that exceed the machine; the message is upstream's."""


@dataclass(frozen=True, slots=True)
class NodeAllocatableConfig:
    """Reservations, and where they are enforced."""

    system_reserved: Mapping[str, str] = field(default_factory=dict)
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    hard_eviction: tuple[HardThreshold, ...] = ()
    enforced: frozenset[str] = frozenset((PODS,))  # `enforceNodeAllocatable`
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""


def with_reserved_cpus(config: NodeAllocatableConfig, count: int) -> NodeAllocatableConfig:
    """Return reservations whose CPU is that of `reservedSystemCPUs`, if there are any."""
    if not count:
        return config
    kube = {name: amount for name, amount in config.kube_reserved.items() if name != "cpu"}
    return replace(config, system_reserved={**config.system_reserved, "cpu": str(count)}, kube_reserved=kube)


def eviction_reservation(thresholds: Iterable[HardThreshold], capacity: Amounts) -> Amounts:
    """Return what hard eviction keeps free."""
    found: Amounts = {}
    for one in thresholds:
        name = _SIGNALS.get(one.signal)
        if name is not None and name in capacity:
            found[name] = Quantity.of(one.quantity(capacity[name].value()), QuantityFormat.BINARY_SI)
    return found


def reservation(config: NodeAllocatableConfig, capacity: Amounts) -> Amounts:
    """Return all reservations of resources that the machine has."""
    parts = (amounts_of(config.system_reserved), amounts_of(config.kube_reserved))
    total = add(add(*parts), eviction_reservation(config.hard_eviction, capacity))
    return {name: amount for name, amount in total.items() if name in capacity and amount}


def node_allocatable(config: NodeAllocatableConfig, capacity: Amounts) -> Amounts:
    """Return what the node reports as allocatable: without reservations, and memory without huge pages."""
    reserved = reservation(config, capacity)
    found = {name: _at_least_zero(amount - reserved.get(name, ZERO)) for name, amount in capacity.items()}
    for name, amount in capacity.items():
        if name.startswith(_HUGE_PAGES) and "memory" in found:
            found["memory"] = _at_least_zero(found["memory"] - amount)
    return found


def enforced_allocatable(config: NodeAllocatableConfig, capacity: Amounts) -> Amounts:
    """Return the limits of all pods together: evictions need usage above the thresholds, so these do not count."""
    if PODS not in config.enforced:
        return capacity
    reserved = add(amounts_of(config.system_reserved), amounts_of(config.kube_reserved))
    return {name: _at_least_zero(amount - reserved.get(name, ZERO)) for name, amount in capacity.items()}


def validate_node_allocatable(config: NodeAllocatableConfig, capacity: Amounts) -> None:
    """Raise `InvalidNodeAllocatable` if more is reserved than the machine has."""
    errors = [
        f'Resource "{name}" has a reservation of {amount} but capacity of {capacity[name]}. '
        "Expected capacity >= reservation."
        for name, amount in sorted(reservation(config, capacity).items())
        if amount > capacity[name]
    ]
    if errors:
        raise InvalidNodeAllocatable(f"invalid Node Allocatable configuration. {' '.join(errors)}")


def _at_least_zero(amount: Quantity) -> Quantity:
    return amount if amount.sign() >= 0 else ZERO
