# SPDX-License-Identifier: Apache-2.0
"""Addresses and networks are read leniently where they must be, and strictly where they may be."""

import pytest

from kubeloop.api.addresses import (
    check_cidr,
    check_interface_address,
    check_ip,
    check_legacy_cidr,
    check_legacy_ip,
    parse_ip,
)

NO_IP = ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
NO_CIDR = ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("10.9.8.7", []),
        ("2001:db8::ffff", []),
        ("", NO_IP),
        ("10.9.8", NO_IP),
        ("10.9.8.256", NO_IP),
        ("fe80::1%eth0", NO_IP),
        ("10.9.8.7/8", NO_IP),
        ("010.9.8.7", ["must not have leading 0s"]),
        ("::ffff:1.2.3.4", ["must not be an IPv4-mapped IPv6 address"]),
        ("2001:DB8:0:0::1", ['must be in canonical form ("2001:db8::1")']),
    ],
)
def test_addresses_are_validated(value: str, messages: list[str]) -> None:
    assert check_ip(value) == messages


def test_legacy_fields_accept_nonstandard_addresses_unless_strict() -> None:
    assert check_legacy_ip("010.9.8.7", strict=False) == []
    assert check_legacy_ip("010.9.8.7", strict=True) == ["must not have leading 0s"]
    assert check_legacy_ip("2001:DB8::1", strict=True) == []
    assert str(parse_ip("::ffff:01.2.3.4")) == "1.2.3.4"


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("10.9.8.0/24", []),
        ("2001:db8::/64", []),
        ("10.9.8.0", NO_CIDR),
        ("10.9.8.0/33", NO_CIDR),
        ("10.9.8.0/+4", NO_CIDR),
        ("10.9.8.0/255.0.0.0", NO_CIDR),
        ("10.9.8.0/024", ["must not have leading 0s in IP or prefix length"]),
        ("010.9.8.0/24", ["must not have leading 0s in IP or prefix length"]),
        ("::ffff:1.2.3.0/120", ["must not have an IPv4-mapped IPv6 address"]),
        ("10.9.8.7/24", ["must not have bits set beyond the prefix length"]),
        ("2001:DB8::/64", ['must be in canonical form ("2001:db8::/64")']),
    ],
)
def test_networks_are_validated(value: str, messages: list[str]) -> None:
    assert check_cidr(value) == messages


def test_legacy_fields_accept_nonstandard_networks_unless_strict() -> None:
    assert check_legacy_cidr("10.9.8.7/24", strict=False) == []
    assert check_legacy_cidr("10.9.8.7/24", strict=True) == ["must not have bits set beyond the prefix length"]


def test_an_interface_address_keeps_its_host_bits() -> None:
    assert check_interface_address("10.9.8.7/24") == []
    assert check_interface_address("010.9.8.7/24") == ['must be in canonical form ("10.9.8.7/24")']
    assert check_interface_address("10.9.8.7") == [
        "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
    ]
