# SPDX-License-Identifier: Apache-2.0
"""Difference of two states of the kernel, as operations in an order that never interrupts existing traffic. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

from kubeloop.network.netlink.kernel_state import ForwardingEntry, KernelRoute, KernelState, Neighbour, VxlanLink

Subject = KernelRoute | Neighbour | ForwardingEntry | VxlanLink


class KernelOperation(NamedTuple):
    """Change of one object of the kernel."""

    verb: Literal["add", "replace", "update", "delete"]
    subject: Subject


def difference(actual: KernelState, desired: KernelState) -> list[KernelOperation]:
    """Return the operations that lead from the actual state to the desired one; none if they are equal.

    Links come before the entries that need them. A route that changes its gateway is replaced in one step. A link
    that was created anew has lost its entries.
    """
    operations: list[KernelOperation] = []
    if _needs_new_link(actual.link, desired.link):
        if actual.link is not None:
            operations.append(KernelOperation("delete", actual.link))
            on_link = frozenset(route for route in actual.routes if route.link)
            actual = KernelState(actual.routes - on_link)
        if desired.link is not None:
            operations.append(KernelOperation("add", desired.link))
    elif desired.link is not None and actual.link != desired.link:
        operations.append(KernelOperation("update", desired.link))
    operations += _entry_operations(actual, desired)
    return operations


def _needs_new_link(actual: VxlanLink | None, desired: VxlanLink | None) -> bool:
    """Return True if a link is missing or superfluous, or differs in something that cannot be changed later."""
    if actual is None or desired is None:
        return actual is not desired
    return replace(actual, mtu=0, mac="", addresses=()) != replace(desired, mtu=0, mac="", addresses=())


def _entry_operations(actual: KernelState, desired: KernelState) -> list[KernelOperation]:
    new: list[Subject] = [
        *sorted(desired.neighbours - actual.neighbours),
        *sorted(desired.forwarding - actual.forwarding),
        *sorted(desired.routes - actual.routes),
    ]
    # A destination with a gateway and one without are separate routes of the kernel: they differ in their metric.
    replaced = {(route.destination, bool(route.gateway)) for route in desired.routes}
    macs, addresses = {one.mac for one in desired.forwarding}, {one.address for one in desired.neighbours}
    routes = sorted(actual.routes - desired.routes)
    old: list[Subject] = [one for one in routes if (one.destination, bool(one.gateway)) not in replaced]
    old += [one for one in sorted(actual.neighbours - desired.neighbours) if one.address not in addresses]
    old += [one for one in sorted(actual.forwarding - desired.forwarding) if one.mac not in macs]
    return [*(KernelOperation("replace", one) for one in new), *(KernelOperation("delete", one) for one in old)]
