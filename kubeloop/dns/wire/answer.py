# SPDX-License-Identifier: Apache-2.0
"""Encoded answers: the records after the question, and their place in a response.

The question of a response is as long as the one that the answer was made for, so that compression pointers stay valid
whatever the case of the client's letters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct

from kubeloop.dns.wire.constants import (
    AA,
    AD,
    CD,
    HEADER_SIZE,
    MAX_UDP_SIZE,
    OPCODE_MASK,
    QR,
    RA,
    RD,
    TC,
    Rcode,
    RRType,
)
from kubeloop.dns.wire.query import DnsQuery

_HEADER = Struct("!6H")
_COUNTS = Struct("!4H")
OPT_SIZE = 11
_OPT_HEAD = b"\0" + int(RRType.OPT).to_bytes(2) + MAX_UDP_SIZE.to_bytes(2)
# OPT records of responses, without and with the DO flag.
OPT = _OPT_HEAD + bytes(6)
OPT_DNSSEC_OK = _OPT_HEAD + b"\0\0\x80\0\0\0"
_OPT_BAD_VERSION = _OPT_HEAD + bytes((Rcode.BADVERS >> 4, 0, 0, 0, 0, 0))


class DnsAnswer:
    """Records of a response in wire form, with the flags and counts of its header."""

    __slots__ = ("_turn", "body", "counts", "counts_edns", "ends", "flags", "sections", "stride")

    def __init__(
        self,
        flags: int,
        sections: tuple[int, int, int] = (0, 0, 0),
        body: bytes = b"",
        ends: Sequence[int] = (),
        stride: int = 0,
    ) -> None:
        self.flags = flags  # authority, recursion, authenticated data, truncation, and the response code
        self.sections = sections  # number of answers, authorities and additional records
        self.body = body
        self.ends = ends  # offset in the body after each record
        self.stride = stride  # size of each record if all are addresses, whose order rotates; otherwise 0
        self.counts = _COUNTS.pack(1, *sections)
        self.counts_edns = _COUNTS.pack(1, sections[0], sections[1], sections[2] + 1)
        self._turn = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DnsAnswer):
            return NotImplemented
        return (self.flags, self.sections, self.body) == (other.flags, other.sections, other.body)

    __hash__ = None  # type: ignore[assignment]  # mutable: the turn of the rotation

    def __repr__(self) -> str:
        return f"DnsAnswer({self.flags:#06x}, {self.sections}, {self.body.hex()})"

    @property
    def rcode(self) -> int:
        """Response code."""
        return self.flags & 0xF

    def with_flags(self, flags: int) -> DnsAnswer:
        """Return the same records with other flags."""
        return DnsAnswer(flags, self.sections, self.body, self.ends, self.stride)

    def next_body(self) -> bytes:
        """Return the records; addresses begin with another one each time."""
        stride = self.stride
        if not stride:
            return self.body
        self._turn = turn = (self._turn + stride) % len(self.body)
        return self.body[turn:] + self.body[:turn]


def encode_response(query: DnsQuery, answer: DnsAnswer, is_stream: bool) -> bytes:
    """Return the response to a query; records that exceed the client's limit are left out, with the TC flag."""
    body, sections, flags = answer.next_body(), answer.sections, answer.flags
    opt = b"" if query.udp_size is None else OPT_DNSSEC_OK if query.dnssec_ok else OPT
    room = query.limit(is_stream) - HEADER_SIZE - len(query.question) - len(opt)
    if len(body) > room:
        kept = bisect_right(answer.ends, room)
        body = body[: answer.ends[kept - 1] if kept else 0]
        sections, flags = _first_records(sections, kept), flags | TC
    counts = (1, sections[0], sections[1], sections[2] + bool(opt))
    head = _HEADER.pack(query.id, QR | query.flags & (OPCODE_MASK | RD | CD) | flags, *counts)
    return b"".join((head, query.question, body, opt))


def _first_records(sections: tuple[int, int, int], kept: int) -> tuple[int, int, int]:
    """Return the sections of the first records."""
    answers = min(sections[0], kept)
    authorities = min(sections[1], kept - answers)
    return answers, authorities, kept - answers - authorities


def encode_bad_version(query: DnsQuery) -> bytes:
    """Return the response to a query with an unknown version of EDNS."""
    flags = QR | query.flags & (OPCODE_MASK | RD | CD) | Rcode.BADVERS & 0xF
    return _HEADER.pack(query.id, flags, 1, 0, 0, 1) + query.question + _OPT_BAD_VERSION


def visible_flags(answer_flags: int, query: DnsQuery) -> int:
    """Return the flags of an upstream's answer that the client may see: AD only if it asked for DNSSEC."""
    if query.dnssec_ok or query.flags & AD:
        return answer_flags & (AA | RA | AD | TC | 0xF)
    return answer_flags & (AA | RA | TC | 0xF)
