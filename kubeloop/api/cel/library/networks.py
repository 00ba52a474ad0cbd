# SPDX-License-Identifier: Apache-2.0
"""IP and CIDR library, with the syntax of Go's netip; zones and IPv4-mapped IPv6 addresses are rejected."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from math import ceil
from typing import Any, ClassVar, Final

from kubeloop.api.cel.check.types import BOOL, INT, STRING, Type, opaque
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.declarations import (
    STRING_FACTOR,
    Cost,
    argument_traversal_cost,
    function,
    method,
)
from kubeloop.api.cel.values import CelError, size_of
from kubeloop.api.meta.field_path import quote

IP: Final = opaque("net.IP")
CIDR: Final = opaque("net.CIDR")
_BROADCAST: Final = IPv4Address("255.255.255.255")
_LOCAL_MULTICAST: Final = (ip_network("224.0.0.0/24"), ip_network("ff02::/16"))
_CONVERTING: Final = "network address parse error during conversion from string"


class CelIP:
    """IP address."""

    __slots__ = ("address",)
    cel_type: ClassVar[Type] = IP

    def __init__(self, address: IPv4Address | IPv6Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelIP) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __str__(self) -> str:
        return str(self.address)


class CelCIDR:
    """CIDR: an address with a prefix length; host bits may be set."""

    __slots__ = ("address", "bits")
    cel_type: ClassVar[Type] = CIDR

    def __init__(self, address: IPv4Address | IPv6Address, bits: int) -> None:
        self.address = address
        self.bits = bits

    def mask(self) -> CelCIDR:
        """Return the CIDR with its host bits cleared."""
        network = ip_network(f"{self.address}/{self.bits}", strict=False)
        return CelCIDR(network.network_address, self.bits)

    def contains(self, address: IPv4Address | IPv6Address) -> bool:
        """Return True if an address belongs to the network."""
        unused = self.address.max_prefixlen - self.bits
        return self.address.version == address.version and int(self.address) >> unused == int(address) >> unused

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelCIDR) and (self.address, self.bits) == (other.address, other.bits)

    def __hash__(self) -> int:
        return hash((self.address, self.bits))

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"


class _AddressError(ValueError):
    """Raised for a text that is no address; the message gives the reason."""


# Parsing.


def _read_address(text: str) -> IPv4Address | IPv6Address:
    first = next((one for one in text if one in ".:%"), "")
    if first in ("", "%"):
        reason = "missing IPv6 address" if first else "unable to parse IP"
        raise _AddressError(f"ParseAddr({quote(text)}): {reason}")
    try:
        return ip_address(text)
    except ValueError:
        reason = _ipv4_problem(text) if first == "." else "unable to parse IP"
        raise _AddressError(f"ParseAddr({quote(text)}): {reason}") from None


def _ipv4_problem(text: str) -> str:
    """Return the first error that netip would report."""
    fields = text.split(".")
    at = 0
    for index, field in enumerate(fields):
        if index > 3:
            return "IPv4 address too long"
        for place, digit in enumerate(field):
            if digit not in "0123456789":
                return f"unexpected character (at {quote(text[at + place :])})"
            if place == 1 and field[0] == "0":
                return "IPv4 field has octet with leading zero"
            if int(field[: place + 1]) > 255:
                return "IPv4 field has value >255"
        if not field:
            return f"IPv4 field must have at least one digit (at {quote(text[max(at - 1, 0) :])})"
        at += len(field) + 1
    return "IPv4 address too short"


def parse_cel_ip(text: str) -> CelIP:
    """Parse an IP address; raises CelError."""
    try:
        address = _read_address(text)
    except _AddressError as error:
        raise CelError(f"IP Address {quote(text)} parse error during conversion from string: {error}") from None
    if "%" in text:
        raise CelError(f"IP address {quote(text)} with zone value is not allowed")
    _refuse_mapped(address, text)
    return CelIP(address)


def parse_cel_cidr(text: str) -> CelCIDR:
    """Parse a CIDR; raises CelError."""
    try:
        return _read_network(text)
    except CelError as error:
        raise CelError(f"{_CONVERTING}: {error}") from None


def _read_network(text: str) -> CelCIDR:
    written, slash, length = text.rpartition("/")
    refused = f"{_CONVERTING}: netip.ParsePrefix({quote(text)})"
    if not slash:
        raise CelError(f"{refused}: no '/'")
    try:
        address = _read_address(written)
    except _AddressError as error:
        raise CelError(f"{refused}: {error}") from None
    if "%" in written:
        raise CelError(f"{refused}: IPv6 zones cannot be present in a prefix")
    if not (length.isascii() and length.isdigit()) or (len(length) > 1 and length[0] == "0") or len(length) > 9:
        raise CelError(f"{refused}: bad bits after slash: {quote(length)}")
    if int(length) > address.max_prefixlen:
        raise CelError(f"{refused}: prefix length out of range")
    _refuse_mapped(address, text)
    return CelCIDR(address, int(length))


def _refuse_mapped(address: IPv4Address | IPv6Address, text: str) -> None:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")


def _is_address(text: str) -> bool:
    try:
        parse_cel_ip(text)
    except CelError:
        return False
    return True


def _is_network(text: str) -> bool:
    try:
        _read_network(text)
    except CelError:
        return False
    return True


# Properties of addresses.


def _is_local_multicast(one: CelIP) -> bool:
    return any(one.address in network for network in _LOCAL_MULTICAST)


def _is_global_unicast(one: CelIP) -> bool:
    address = one.address
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != _BROADCAST


def _contains_address(one: CelCIDR, text: str) -> bool:
    try:
        address = parse_cel_ip(text).address
    except CelError:
        raise CelError("no such overload") from None  # upstream reports the type of the network
    return one.contains(address)


def _contains_network(one: CelCIDR, other: CelCIDR) -> bool:
    return one.bits <= other.bits and one.contains(other.address)


# Costs.


def _bytes_of(value: Any) -> int:
    """Return the size of an address or a prefix in bytes."""
    if isinstance(value, CelCIDR):
        return ceil(value.bits / 8)
    return value.address.max_prefixlen // 8 if isinstance(value, CelIP) else size_of(value)


def _comparing(*, masks: bool, parses: bool) -> Cost:
    def cost(args: tuple[Any, ...]) -> int:
        size = _bytes_of(args[0])
        spent = ceil((size + size) * STRING_FACTOR)
        if masks:
            spent += ceil(size * STRING_FACTOR) + 1
        return spent + ceil(_bytes_of(args[1]) * STRING_FACTOR) if parses else spent

    return cost


def _twice(args: tuple[Any, ...]) -> int:
    return ceil(size_of(args[0]) * 2 * STRING_FACTOR)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "ip": (
        function("string_to_ip", (STRING,), IP, parse_cel_ip, argument_traversal_cost(0)),
        method("cidr_ip", (CIDR,), IP, lambda one: CelIP(one.address)),
    ),
    "family": (method("ip_family", (IP,), INT, lambda one: one.address.version),),
    "ip.isCanonical": (
        function("ip_is_canonical", (STRING,), BOOL, lambda text: str(parse_cel_ip(text)) == text, _twice),
    ),
    "isUnspecified": (method("ip_is_unspecified", (IP,), BOOL, lambda one: one.address.is_unspecified),),
    "isLoopback": (method("ip_is_loopback", (IP,), BOOL, lambda one: one.address.is_loopback),),
    "isLinkLocalMulticast": (method("ip_is_link_local_multicast", (IP,), BOOL, _is_local_multicast),),
    "isLinkLocalUnicast": (method("ip_is_link_local_unicast", (IP,), BOOL, lambda one: one.address.is_link_local),),
    "isGlobalUnicast": (method("ip_is_global_unicast", (IP,), BOOL, _is_global_unicast),),
    "isIP": (function("is_ip", (STRING,), BOOL, _is_address, argument_traversal_cost(0)),),
    "cidr": (function("string_to_cidr", (STRING,), CIDR, parse_cel_cidr, argument_traversal_cost(0)),),
    "containsIP": (
        method("cidr_contains_ip_string", (CIDR, STRING), BOOL,
               _contains_address, _comparing(masks=False, parses=True)),
        method("cidr_contains_ip_ip", (CIDR, IP), BOOL, lambda one, other: one.contains(other.address),
               _comparing(masks=False, parses=False)),
    ),
    "containsCIDR": (
        method("cidr_contains_cidr_string", (CIDR, STRING), BOOL,
               lambda one, text: _contains_network(one, parse_cel_cidr(text)), _comparing(masks=True, parses=True)),
        method("cidr_contains_cidr", (CIDR, CIDR), BOOL, _contains_network, _comparing(masks=True, parses=False)),
    ),
    "prefixLength": (method("cidr_prefix_length", (CIDR,), INT, lambda one: one.bits),),
    "masked": (method("cidr_masked", (CIDR,), CIDR, CelCIDR.mask),),
    "isCIDR": (function("is_cidr", (STRING,), BOOL, _is_network, argument_traversal_cost(0)),),
    "string": (
        function("ip_to_string", (IP,), STRING, str),
        function("cidr_to_string", (CIDR,), STRING, str),
    ),
}  # fmt: skip
