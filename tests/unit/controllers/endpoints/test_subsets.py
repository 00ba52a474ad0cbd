# SPDX-License-Identifier: Apache-2.0
"""Tests of the content of an Endpoints object and its limit."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import EndpointAddress, EndpointPort, EndpointSubset, ObjectReference
from kubeloop.controllers.endpoints.subsets import CAPACITY, Subsets, address_count, are_equal, truncate_endpoints


def subset(ready: int, others: int = 0, port: int = 1) -> EndpointSubset:
    addresses = [EndpointAddress(ip=f"10.{port}.{number // 250}.{number % 250}") for number in range(ready + others)]
    return EndpointSubset(
        addresses=tuple(addresses[:ready]),
        not_ready_addresses=tuple(addresses[ready:]),
        ports=(EndpointPort(port=port),),
    )


def sizes(subsets: Subsets) -> list[tuple[int, int]]:
    return [(len(one.addresses), len(one.not_ready_addresses)) for one in subsets]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([(1000, 0)], [(1000, 0)]),
        ([(600, 400)], [(600, 400)]),
        ([(1001, 5)], [(1000, 0)]),
        ([(900, 200)], [(900, 100)]),
        ([(400, 100), (400, 300)], [(400, 50), (400, 150)]),
        ([(900, 50), (600, 0)], [(600, 0), (400, 0)]),
        ([(1000, 10)], [(1000, 0)]),
    ],
)
def test_ready_addresses_are_first_in_each_subset(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> None:
    subsets = tuple(subset(ready, others, port) for port, (ready, others) in enumerate(before, 1))
    found = truncate_endpoints(subsets)
    assert sizes(found) == after
    assert address_count(found) <= CAPACITY
    assert (found is subsets) == (before == after)


def versioned(version: str, ip: str = "10.0.0.1") -> EndpointSubset:
    target = ObjectReference(kind="Pod", name="p", uid="u", resource_version=version)
    return EndpointSubset(addresses=(EndpointAddress(ip=ip, target_ref=target),), ports=(EndpointPort(port=1),))


def test_pod_versions_are_ignored() -> None:
    assert are_equal((versioned("5"),), (versioned(""),))
    assert not are_equal((versioned("5", "10.0.0.2"),), (versioned(""),))


def test_order_is_ignored() -> None:
    both = (EndpointAddress(ip="10.0.0.1"), EndpointAddress(ip="10.0.0.2"))
    ports = (EndpointPort(port=1),)
    wanted = (EndpointSubset(addresses=both, ports=ports),)
    apart = tuple(EndpointSubset(addresses=(one,), ports=ports) for one in both)
    assert are_equal(apart, wanted)
