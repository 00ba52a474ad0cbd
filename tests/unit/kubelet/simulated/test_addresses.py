# SPDX-License-Identifier: Apache-2.0
"""Addresses of simulated nodes and pods."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from kubeloop.kubelet.simulated.addresses import PodAddressAllocator, node_address, node_address_by_name


def test_addresses_are_unique_at_a_time() -> None:
    addresses = PodAddressAllocator(lambda _: ())
    taken = [addresses.allocate(node) for node in ("a", "b") for _ in range(253)]
    assert len(set(taken)) == len(taken)
    with pytest.raises(OverflowError):
        addresses.allocate("a")
    addresses.release(taken[5])
    assert addresses.allocate("a") == taken[5]


def test_pod_cidr_of_a_node_is_used() -> None:
    networks = {"a": ("10.244.7.0/24",), "b": ("10.244.8.0/24", "fd00::/64"), "c": ("10.0.0.1/32",)}
    addresses = PodAddressAllocator(networks.__getitem__)
    assert addresses.allocate("a") == ("10.244.7.2",)
    assert addresses.allocate("b") == ("10.244.8.2", "fd00::2")
    assert addresses.allocate("c")[0].startswith("10.12")


def test_pod_cidr_that_comes_later_is_used() -> None:
    networks: dict[str, tuple[str, ...]] = {"a": ()}
    addresses = PodAddressAllocator(networks.__getitem__)
    assert addresses.allocate("a") == ("10.128.0.2",)
    networks["a"] = ("10.244.1.0/24",)
    assert addresses.allocate("a") == ("10.244.1.2",)


def test_node_without_pod_cidr_has_no_addresses_of_the_cluster() -> None:
    addresses = PodAddressAllocator(lambda _: (), 0, (ip_network("10.128.0.0/23"), ip_network("fd44::/48")))
    assert addresses.allocate("a") == ("10.128.2.2",)
    with pytest.raises(OverflowError, match="leave no network"):
        PodAddressAllocator(lambda _: (), 0, (ip_network("10.0.0.0/8"),)).allocate("a")


def test_existing_pod_address_is_not_reused() -> None:
    addresses = PodAddressAllocator(lambda _: ("10.0.0.0/29",))
    addresses.reserve(["10.0.0.2"])
    assert addresses.allocate("a") == ("10.0.0.3",)


def test_nodes_have_disjoint_addresses() -> None:
    counted = {node_address(number) for number in range(1, 5001)}
    assert len(counted) == 5000
    assert node_address_by_name("extra") not in counted
    assert node_address_by_name("extra") == node_address_by_name("extra") != node_address_by_name("other")
