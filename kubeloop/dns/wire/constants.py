# SPDX-License-Identifier: Apache-2.0
"""Numbers of the DNS protocol: types, classes, response codes, header flags and size limits."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class RRType(IntEnum):
    """Types of records and questions that this server treats in a special way, or names in metrics."""

    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    PTR = 12
    HINFO = 13
    MX = 15
    TXT = 16
    AAAA = 28
    SRV = 33
    DNAME = 39
    OPT = 41
    DS = 43
    RRSIG = 46
    NSEC = 47
    DNSKEY = 48
    NSEC3 = 50
    SVCB = 64
    HTTPS = 65
    IXFR = 251
    AXFR = 252
    ANY = 255


class Rcode(IntEnum):
    """Response codes."""

    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    BADVERS = 16


CLASS_IN: Final = 1
# Header flags.
QR: Final = 0x8000
AA: Final = 0x0400
TC: Final = 0x0200
RD: Final = 0x0100
RA: Final = 0x0080
AD: Final = 0x0020
CD: Final = 0x0010
OPCODE_MASK: Final = 0x7800

HEADER_SIZE: Final = 12
MIN_UDP_SIZE: Final = 512  # without EDNS0
MAX_UDP_SIZE: Final = 1232  # advertised, and never exceeded: larger datagrams are fragmented on common paths
MAX_MESSAGE_SIZE: Final = 65535
MAX_NAME_SIZE: Final = 255
MAX_LABEL_SIZE: Final = 63
MAX_POINTER: Final = 0x3FFF


def type_name(number: int) -> str:
    """Return the name of a type, or TYPE with its number."""
    try:
        return RRType(number).name
    except ValueError:
        return f"TYPE{number}"


def rcode_name(number: int) -> str:
    """Return the name of a response code, or RCODE with its number."""
    try:
        return Rcode(number).name
    except ValueError:
        return f"RCODE{number}"
