# SPDX-License-Identifier: Apache-2.0
"""Repacks subsets of endpoints into their canonical layout: one subset for all addresses with the same ports. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubeloop.api.generated.core_v1 import EndpointAddress, EndpointPort, EndpointSubset
from kubeloop.controllers.shared.endpoints.go_order import port_sort_key, subset_sort_key

_NO_PORT: Final = EndpointPort(port=-1)  # stands for subsets without ports

_AddressKey = tuple[str, str]  # the address and the UID of its target


def repack_subsets(subsets: Iterable[EndpointSubset]) -> tuple[EndpointSubset, ...]:
    """List each address once with each of its ports; an address that is both ready and not ready becomes not ready."""
    addresses: dict[_AddressKey, EndpointAddress] = {}
    by_port: dict[EndpointPort, dict[_AddressKey, bool]] = {}
    for subset in subsets:
        for port in subset.ports or (_NO_PORT,):
            ready = by_port.setdefault(port, {})
            _note(subset.addresses, True, addresses, ready)
            _note(subset.not_ready_addresses, False, addresses, ready)
    by_addresses: dict[frozenset[tuple[_AddressKey, bool]], list[EndpointPort]] = {}
    for port, ready in by_port.items():
        ports = by_addresses.setdefault(frozenset(ready.items()), [])
        if port.port > 0:
            ports.append(port)
    found = [_subset(group, ports, addresses) for group, ports in by_addresses.items()]
    return tuple(found) if len(found) < 2 else tuple(sorted(found, key=subset_sort_key))


def _note(
    listed: Iterable[EndpointAddress],
    is_ready: bool,
    addresses: dict[_AddressKey, EndpointAddress],
    ready: dict[_AddressKey, bool],
) -> None:
    for address in listed:
        key = address.ip, "" if address.target_ref is None else address.target_ref.uid
        addresses.setdefault(key, address)
        ready[key] = ready.get(key, True) and is_ready


def _subset(
    group: Iterable[tuple[_AddressKey, bool]],
    ports: list[EndpointPort],
    addresses: dict[_AddressKey, EndpointAddress],
) -> EndpointSubset:
    listed = sorted(group)
    return EndpointSubset(
        addresses=tuple(addresses[key] for key, is_ready in listed if is_ready),
        not_ready_addresses=tuple(addresses[key] for key, is_ready in listed if not is_ready),
        ports=tuple(sorted(ports, key=port_sort_key)),
    )
