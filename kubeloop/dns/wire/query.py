# SPDX-License-Identifier: Apache-2.0
"""Queries: the parsed form of a request, and the errors that are answered without a question."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from kubeloop.dns.wire.constants import (
    CD,
    HEADER_SIZE,
    MAX_MESSAGE_SIZE,
    MAX_UDP_SIZE,
    MIN_UDP_SIZE,
    OPCODE_MASK,
    QR,
    RD,
    Rcode,
    RRType,
)
from kubeloop.dns.wire.names import ROOT, DnsFormatError, read_name

_HEADER = Struct("!6H")
_QUESTION = Struct("!HH")
_RECORD = Struct("!HHIH")
_MOST_ADDITIONAL = 2  # an OPT record and a signature: no client sends more
_DO = 0x8000


@dataclass(frozen=True, slots=True)
class DnsQuery:
    """Question of a client, with what the response repeats or respects."""

    id: int
    flags: int
    question: bytes  # name in the client's case, type and class
    name: bytes  # in lower case
    type: int
    rrclass: int
    udp_size: int | None = None  # advertised by EDNS0; None without EDNS0
    dnssec_ok: bool = False
    edns_version: int = 0

    @property
    def key(self) -> bytes:
        """Name in lower case, type and class: the key of prepared answers."""
        return self.name + self.question[len(self.name) :]

    def limit(self, is_stream: bool) -> int:
        """Return the largest size of a response."""
        if is_stream:
            return MAX_MESSAGE_SIZE
        return min(max(self.udp_size or 0, MIN_UDP_SIZE), MAX_UDP_SIZE)


def parse_query(data: bytes) -> DnsQuery:
    """Parse a message with a valid header. Raises `DnsFormatError`."""
    number, flags, questions, answers, authorities, additional = _HEADER.unpack_from(data)
    if questions != 1 or answers or authorities or additional > _MOST_ADDITIONAL:
        raise DnsFormatError("a query has one question and no answers")
    name, at = read_name(data, HEADER_SIZE)
    if at + 4 > len(data) or at != HEADER_SIZE + len(name):
        raise DnsFormatError("the question is cut off, or its name is compressed")
    qtype, rrclass = _QUESTION.unpack_from(data, at)
    size, version, dnssec_ok = _read_edns(data, at + 4, additional)
    question = data[HEADER_SIZE : at + 4]
    return DnsQuery(number, flags, question, name.lower(), qtype, rrclass, size, dnssec_ok, version)


def _read_edns(data: bytes, at: int, count: int) -> tuple[int | None, int, bool]:
    """Return size, version and the DO flag of the OPT record in the additional section."""
    found: tuple[int | None, int, bool] = (None, 0, False)
    for _ in range(count):
        name, at = read_name(data, at)
        if at + _RECORD.size > len(data):
            raise DnsFormatError("a record is cut off")
        rrtype, size, ttl, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size + length
        if at > len(data):
            raise DnsFormatError("the data of a record is cut off")
        if rrtype == RRType.OPT:
            if name != ROOT or found[0] is not None:
                raise DnsFormatError("a query has one OPT record, at the root")
            found = size, ttl >> 16 & 0xFF, bool(ttl & _DO)
    if at != len(data):
        raise DnsFormatError("bytes follow the last record")
    return found


def new_query(name: bytes, qtype: int, flags: int = RD) -> DnsQuery:
    """Return a query of our own for a name in wire form."""
    question = name + _QUESTION.pack(qtype, 1)
    return DnsQuery(0, flags, question, name.lower(), qtype, 1)


def error_header(data: bytes, rcode: Rcode) -> bytes:
    """Return a response without a question to a message that cannot be parsed: as large as a header."""
    flags = int.from_bytes(data[2:4])
    return data[:2] + _HEADER.pack(0, QR | flags & (OPCODE_MASK | RD | CD) | rcode, 0, 0, 0, 0)[2:]
