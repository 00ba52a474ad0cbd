# SPDX-License-Identifier: Apache-2.0
"""Networks divided into parts: what is taken is taken once, whatever was taken and let go before."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.controllers.node_ipam.cidr_set import CidrOutOfRange, CidrSet, Network, NoCidrsRemaining


@pytest.mark.parametrize(
    ("network", "bits", "parts"),
    [
        ("10.0.0.0/22", 24, ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"]),
        ("127.123.3.0/30", 30, ["127.123.3.0/30"]),
        ("fd00:0:0:fffe::/63", 64, ["fd00:0:0:fffe::/64", "fd00:0:0:ffff::/64"]),
        ("2001:db8::/111", 112, ["2001:db8::/112", "2001:db8::1:0/112"]),
    ],
)
def test_cidrs_are_allocated_in_order_until_exhausted(network: str, bits: int, parts: list[str]) -> None:
    whole = CidrSet(ip_network(network), bits)
    assert [str(whole.allocate_next().network) for _ in parts] == parts
    with pytest.raises(NoCidrsRemaining):
        whole.allocate_next()


@pytest.mark.parametrize(
    ("held", "used"),
    [("10.0.0.0/23", 2), ("10.0.1.128/25", 1), ("10.0.0.0/8", 4), ("10.0.2.0/24", 1)],
)
def test_network_occupies_every_cidr_it_overlaps(held: str, used: int) -> None:
    whole = CidrSet(ip_network("10.0.0.0/22"), 24)
    assert whole.occupy(ip_network(held)) == used
    assert whole.release(ip_network(held)) == used


@pytest.mark.parametrize("odd", ["10.0.4.0/24", "192.168.0.0/16", "fd00::/64"])
def test_network_outside_the_range_cannot_be_occupied(odd: str) -> None:
    with pytest.raises(CidrOutOfRange, match="is out the range of cluster cidr"):
        CidrSet(ip_network("10.0.0.0/22"), 24).occupy(ip_network(odd))


@given(st.lists(st.integers(-3, 7), max_size=60))
def test_nothing_is_allocated_twice(moves: list[int]) -> None:
    """A move below zero takes, any other lets go one that is held."""
    whole = CidrSet(ip_network("10.0.0.0/21"), 24)
    held: list[Network] = []
    for move in moves:
        if move >= 0 and held:
            whole.release(held.pop(move % len(held)))
        elif move < 0 and len(held) < whole.size:
            taken = whole.allocate_next().network
            assert taken not in held
            held.append(taken)
        assert whole.used == len(held)
