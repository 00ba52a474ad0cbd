# SPDX-License-Identifier: Apache-2.0
"""Devices in the status of a node: capacity and allocatable of each resource."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Set

import msgspec

from kubeloop.api.generated.core_v1 import Node, NodeStatus
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.validation.pods.containers.compute_resources import is_extended_resource
from kubeloop.clock import Clock
from kubeloop.kubelet.cm.devices.inventory import PluginInventory

_ZERO = "0"

log = logging.getLogger(__name__)


class NodeDevices:
    """Sets the resources of plugins in a node's status; those whose plugin is gone for good become zero."""

    def __init__(self, inventory: PluginInventory, clock: Clock, write: Callable[[], None]) -> None:
        self._inventory = inventory
        self._clock = clock
        self._write = write
        self._removed: frozenset[str] = frozenset()
        self._resets_others = False

    def start(self, *, has_checkpoint: bool) -> None:
        """Note if there was a checkpoint: without one the machine is new, and its node has resources of an old one."""
        self._resets_others = not has_checkpoint

    def set_status(self, status: NodeStatus) -> NodeStatus:
        """Return a status with the numbers of devices."""
        found = self._inventory.take_capacity(self._clock.monotonic())
        if found.removed:
            self._store_removal()
        self._removed = (self._removed | found.removed) - found.capacity.keys()
        zero = dict.fromkeys(self._removed | self._old_resources(status) - found.capacity.keys(), _ZERO)
        capacity = {**status.capacity, **zero, **_texts(found.capacity)}
        allocatable = {**status.allocatable, **zero, **_texts(found.allocatable)}
        if capacity == status.capacity and allocatable == status.allocatable:
            return status
        return msgspec.structs.replace(status, capacity=capacity, allocatable=allocatable)

    def _old_resources(self, status: NodeStatus) -> frozenset[str]:
        """Return the extended resources of a node that was recreated, until they were set to zero once."""
        if not self._resets_others:
            return frozenset()
        found = frozenset(
            name for name in status.capacity if is_extended_resource(name) and status.capacity[name] != _ZERO
        )
        self._resets_others = bool(found - self._inventory.healthy.keys())
        return found

    def _store_removal(self) -> None:
        try:
            self._write()
        except OSError as error:
            log.error("device checkpoint could not be written: %s", error)


def with_allocated_devices(node: Node, allocated: Mapping[str, Set[str]]) -> Node:
    """Return a node whose allocatable resources are at least what is allocated."""
    room = node.status.allocatable
    short = {
        name: str(len(ids))
        for name, ids in allocated.items()
        if parse_quantity(room.get(name, _ZERO)).value() < len(ids)
    }
    if not short:
        return node
    status = msgspec.structs.replace(node.status, allocatable={**room, **short})
    return msgspec.structs.replace(node, status=status)


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
