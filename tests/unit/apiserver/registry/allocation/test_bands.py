# SPDX-License-Identifier: Apache-2.0
"""Free members of ranges: found if there are any, from the upper band while it lasts."""

from __future__ import annotations

from ipaddress import ip_address
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.apiserver.registry.allocation.bands import choose_free_offset, lower_band_size
from kubeloop.apiserver.registry.allocation.service_cidrs import ServiceNetwork


@pytest.mark.parametrize(
    ("size", "band"), [(8, 0), (16, 0), (17, 16), (256, 16), (1024, 64), (65536, 256), (2**64, 256)]
)
def test_the_lower_band_of_a_network_is_a_sixteenth_within_bounds(size, band):
    assert lower_band_size(size, 16, 256) == band


def test_lower_band_of_default_node_ports_has_86_ports():
    assert lower_band_size(2768, 32, 128) == 86


@settings(max_examples=60)
@given(
    st.integers(1, 40).flatmap(
        lambda size: st.tuples(st.just(size), st.integers(0, size), st.sets(st.integers(0, size - 1)))
    ),
    st.integers(),
)
def test_free_member_is_found_in_the_upper_band_first(range_, seed):
    size, lower, taken = range_
    found = choose_free_offset(size, lower, taken.__contains__, Random(seed))
    free = set(range(size)) - taken
    if not free:
        assert found is None
    else:
        upper = {member for member in free if member >= lower}
        assert found in (upper or free)


def test_every_member_of_the_upper_band_is_reachable():
    seen = {choose_free_offset(20, 16, lambda _: False, Random(seed)) for seed in range(100)}
    assert seen == {16, 17, 18, 19}


def test_network_and_broadcast_addresses_are_excluded():
    network = ServiceNetwork("10.0.0.0/29")
    members = [f"10.0.0.{last}" for last in range(9) if ip_address(f"10.0.0.{last}") in network]
    assert members == [f"10.0.0.{last}" for last in range(1, 7)]


def test_last_ipv6_address_is_allocated():
    network = ServiceNetwork("fd00::/126")
    assert [ip_address(f"fd00::{last}") in network for last in range(5)] == [False, True, True, True, False]


def test_address_of_the_other_family_is_not_in_the_network():
    assert ip_address("10.0.0.1") not in ServiceNetwork("fd00::/108")
    assert ip_address("::a00:1") not in ServiceNetwork("10.0.0.0/8")


def test_huge_network_is_cheap():
    chosen = ServiceNetwork("fd00::/64").choose_free_address(lambda _: False, Random(1))
    assert chosen is not None
    assert ip_address(chosen) in ServiceNetwork("fd00::/64")


def test_ipv6_networks_larger_than_64_bits_are_not_used():
    assert not ServiceNetwork("fd00::/63").is_usable
    assert ServiceNetwork("fd00::/64").is_usable
    assert ServiceNetwork("10.0.0.0/8").is_usable
