# SPDX-License-Identifier: Apache-2.0
"""Warnings about IP addresses and CIDRs that are valid but not canonical."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from kubeloop.api.addresses import check_legacy_ip, parse_cidr, parse_ip
from kubeloop.api.meta.field_path import FieldPath, quote


def ip_warnings(path: FieldPath, value: str) -> Iterator[str]:
    """Yield the warnings about an IP address."""
    address = parse_ip(value)
    if address is None:
        return
    if check_legacy_ip(value, strict=True):
        yield f"{path}: non-standard IP address {quote(value)} is invalid: use {quote(str(address))}"
    elif str(address) != value:
        canonical = quote(str(address))
        yield f"{path}: IPv6 address {quote(value)} should be in RFC 5952 canonical format ({canonical})"


def cidr_warnings(path: FieldPath, value: str) -> Iterator[str]:
    """Yield the warnings about a CIDR."""
    parsed = parse_cidr(value)
    if parsed is None:
        return
    address, network = parsed
    host, _, length = value.partition("/")
    is_ambiguous = address != network.network_address
    if is_ambiguous:
        alone = f"{address}/{network.max_prefixlen}"
        yield (
            f"{path}: CIDR value {quote(value)} is ambiguous in this context "
            f"(should be {quote(str(network))} or {quote(alone)}?)"
        )
    if check_legacy_ip(host, strict=True) or length != str(int(length)):
        yield f"{path}: non-standard CIDR value {quote(value)} is invalid: use {quote(str(network))}"
    elif not is_ambiguous and not isinstance(address, IPv4Address) and str(network) != value:
        canonical = quote(str(network))
        yield f"{path}: IPv6 CIDR value {quote(value)} should be in RFC 5952 canonical format ({canonical})"
