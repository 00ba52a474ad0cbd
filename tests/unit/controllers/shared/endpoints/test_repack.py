# SPDX-License-Identifier: Apache-2.0
"""Subsets of endpoints have one layout, however they are written down."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import EndpointAddress, EndpointPort, EndpointSubset, ObjectReference
from kubeloop.controllers.shared.endpoints.repack import repack_subsets


def address(ip: str, uid: str = "") -> EndpointAddress:
    return EndpointAddress(ip=ip, target_ref=ObjectReference(uid=uid) if uid else None)


def subset(ready: str = "", others: str = "", ports: tuple[int, ...] = ()) -> EndpointSubset:
    return EndpointSubset(
        addresses=tuple(map(address, ready)),
        not_ready_addresses=tuple(map(address, others)),
        ports=tuple(EndpointPort(port=one) for one in ports),
    )


def subset_tuples(subsets: tuple[EndpointSubset, ...]) -> list[tuple[str, str, set[int]]]:
    return sorted(
        (
            "".join(one.ip for one in each.addresses),
            "".join(one.ip for one in each.not_ready_addresses),
            {port.port for port in each.ports},
        )
        for each in subsets
    )


def test_addresses_with_the_same_ports_are_grouped() -> None:
    assert subset_tuples(repack_subsets([subset("b", ports=(1,)), subset("a", ports=(1,))])) == [("ab", "", {1})]


def test_ports_with_the_same_addresses_are_grouped() -> None:
    assert subset_tuples(repack_subsets([subset("a", ports=(1,)), subset("a", ports=(2,))])) == [("a", "", {1, 2})]


def test_other_addresses_are_separate() -> None:
    assert subset_tuples(repack_subsets([subset("a", ports=(1, 2)), subset("b", ports=(1,))])) == [
        ("a", "", {2}),
        ("ab", "", {1}),
    ]


def test_readiness_separates_groups() -> None:
    found = repack_subsets([subset("a", ports=(1,)), subset("", "a", ports=(2,)), subset("b", "", ports=(1, 2))])
    assert subset_tuples(found) == [("ab", "", {1}), ("b", "a", {2})]


def test_address_both_ready_and_unready_is_unready() -> None:
    assert subset_tuples(repack_subsets([subset("a", ports=(1,)), subset("", "a", ports=(1,))])) == [("", "a", {1})]


def test_addresses_without_ports_are_kept() -> None:
    assert subset_tuples(repack_subsets([subset("a"), subset("b")])) == [("ab", "", set())]


def test_same_address_of_two_pods_is_listed_twice() -> None:
    listed = (address("a", "u"), address("a", "v"))
    (found,) = repack_subsets([EndpointSubset(addresses=listed, ports=(EndpointPort(port=1),))])
    assert len(found.addresses) == 2


letters = st.text("abcd", max_size=3)
subsets = st.lists(st.builds(subset, letters, letters, st.sets(st.integers(1, 3)).map(tuple)), max_size=5)


@given(subsets)
def test_repacking_is_idempotent_and_order_independent(given_subsets: list[EndpointSubset]) -> None:
    once = repack_subsets(given_subsets)
    assert repack_subsets(once) == once
    assert repack_subsets(reversed(given_subsets)) == once
