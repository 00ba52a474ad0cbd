# SPDX-License-Identifier: Apache-2.0
"""Parsing and validation of IP addresses and CIDRs; each check returns upstream's messages."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from kubeloop.api.meta.field_path import quote

_LEADING_ZEROS: Final = re.compile("(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])")


@lru_cache(maxsize=8192)  # one write parses the same few addresses many times
def parse_ip(value: str) -> IPv4Address | IPv6Address | None:
    """Parse an IP address as leniently as upstream: leading zeros are decimal, zones are rejected."""
    try:
        address = ip_address(_LEADING_ZEROS.sub("", value)) if "%" not in value and "/" not in value else None
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def parse_cidr(value: str) -> tuple[IPv4Address | IPv6Address, IPv4Network | IPv6Network] | None:
    """Parse a CIDR into its address and network, as leniently as `parse_ip`; None if it is invalid."""
    host, slash, length = value.partition("/")
    if not slash or "%" in host or not (length.isascii() and length.isdigit()):
        return None
    try:
        address = ip_address(_LEADING_ZEROS.sub("", host))
        return address, ip_network(f"{address}/{int(length)}", strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=8192)
def _is_plain(value: str) -> bool:
    try:
        ip_address(value)
    except ValueError:
        return False
    return True


def _is_mapped(address: str) -> bool:
    if ":" not in address:
        return False
    try:
        return IPv6Address(address).ipv4_mapped is not None
    except ValueError:
        return False


def check_ip(value: str) -> list[str]:
    """Validate that a value is an IP address in canonical form."""
    address = parse_ip(value)
    messages = check_legacy_ip(value, strict=True)
    if not messages and address is not None and str(address) != value:
        messages = [f"must be in canonical form ({quote(str(address))})"]
    return messages


def check_legacy_ip(value: str, strict: bool) -> list[str]:
    """Validate an IP address in a field that once accepted non-canonical forms; `strict` rejects them."""
    if parse_ip(value) is None:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if not strict:
        return []
    messages = [] if _is_plain(value) else ["must not have leading 0s"]
    return [*messages, "must not be an IPv4-mapped IPv6 address"] if _is_mapped(value) else messages


def check_cidr(value: str) -> list[str]:
    """Validate that a value is a CIDR in canonical form."""
    messages = check_legacy_cidr(value, strict=True)
    parsed = parse_cidr(value)
    if not messages and parsed is not None and str(parsed[1]) != value:
        messages = [f"must be in canonical form ({quote(str(parsed[1]))})"]
    return messages


def check_legacy_cidr(value: str, strict: bool) -> list[str]:
    """Validate a CIDR in a field that once accepted non-canonical forms; `strict` rejects them."""
    parsed = parse_cidr(value)
    if parsed is None:
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    if not strict:
        return []
    address, network = parsed
    host, _, length = value.partition("/")
    if not _is_plain(host) or length != str(int(length)):
        return ["must not have leading 0s in IP or prefix length"]
    if _is_mapped(host):
        return ["must not have an IPv4-mapped IPv6 address"]
    return [] if address == network.network_address else ["must not have bits set beyond the prefix length"]


def check_interface_address(value: str) -> list[str]:
    """Validate an address with its prefix length, in canonical form."""
    parsed = parse_cidr(value)
    if parsed is None:
        return ["must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"]
    canonical = f"{parsed[0]}/{parsed[1].prefixlen}"
    return [] if value == canonical else [f"must be in canonical form ({quote(canonical)})"]
