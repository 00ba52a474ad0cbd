# SPDX-License-Identifier: Apache-2.0
"""Responses of other servers: parsed completely and defensively before anything of them is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from kubeloop.dns.wire.answer import DnsAnswer
from kubeloop.dns.wire.constants import AA, AD, HEADER_SIZE, QR, RA, TC, RRType
from kubeloop.dns.wire.names import DnsFormatError, read_name
from kubeloop.dns.wire.query import DnsQuery

_HEADER = Struct("!6H")
_FIXED = Struct("!HHIH")
_NAME_TYPES = frozenset((RRType.CNAME, RRType.NS, RRType.PTR, RRType.DNAME))
_SOA_TIMES = 20


@dataclass(frozen=True, slots=True)
class ResourceRecord:
    """Record of a message."""

    section: int
    name: bytes
    type: int
    ttl: int
    data: bytes  # a name in it is decompressed, if the type has a single name
    start: int  # offset in the message
    ttl_at: int  # offset of the TTL
    end: int


@dataclass(frozen=True, slots=True)
class DnsMessage:
    """Parsed response with one question."""

    id: int
    flags: int
    question: bytes
    records: tuple[ResourceRecord, ...]
    data: bytes

    def is_response_to(self, query: DnsQuery, number: int) -> bool:
        """Return True if this is the response to a query that was sent with a number."""
        name = len(query.name)
        return (
            self.id == number
            and bool(self.flags & QR)
            and self.question[:name].lower() == query.name
            and self.question[name:] == query.question[name:]
        )

    @property
    def is_truncated(self) -> bool:
        """True if the server left out records."""
        return bool(self.flags & TC)

    def to_answer(self) -> DnsAnswer:
        """Return the records up to an OPT record, which concerns one hop only."""
        kept = []
        for record in self.records:
            if record.type == RRType.OPT:
                break
            kept.append(record)
        start = HEADER_SIZE + len(self.question)
        ends = tuple(record.end - start for record in kept)
        sections = [sum(record.section == section for record in kept) for section in range(3)]
        body = self.data[start : start + (ends[-1] if ends else 0)]
        return DnsAnswer(self.flags & (AA | RA | AD | TC | 0xF), (sections[0], sections[1], sections[2]), body, ends)


def parse_message(data: bytes) -> DnsMessage:
    """Parse a whole message. Raises `DnsFormatError`."""
    if len(data) < HEADER_SIZE:
        raise DnsFormatError("the header is cut off")
    number, flags, questions, *counts = _HEADER.unpack_from(data)
    if questions != 1:
        raise DnsFormatError(f"the message has {questions} questions")
    name, at = read_name(data, HEADER_SIZE)
    if at + 4 > len(data) or at != HEADER_SIZE + len(name):
        raise DnsFormatError("the question is cut off, or its name is compressed")
    records = tuple(_records(data, at + 4, counts))
    return DnsMessage(number, flags, data[HEADER_SIZE : at + 4], records, data)


def answer_records(query: DnsQuery, answer: DnsAnswer) -> tuple[ResourceRecord, ...]:
    """Return the records of an encoded answer to a query."""
    data = bytes(HEADER_SIZE) + query.question + answer.body
    return tuple(_records(data, HEADER_SIZE + len(query.question), list(answer.sections)))


def _records(data: bytes, at: int, counts: list[int]) -> Iterator[ResourceRecord]:
    for section, count in enumerate(counts):
        for _ in range(count):
            record = _read_record(data, at, section)
            at = record.end
            yield record
    if at != len(data):
        raise DnsFormatError("bytes follow the last record")


def _read_record(data: bytes, start: int, section: int) -> ResourceRecord:
    name, at = read_name(data, start)
    if at + _FIXED.size > len(data):
        raise DnsFormatError("a record is cut off")
    rrtype, _, ttl, length = _FIXED.unpack_from(data, at)
    begin = at + _FIXED.size
    end = begin + length
    if end > len(data):
        raise DnsFormatError("the data of a record is cut off")
    content = data[begin:end]
    if rrtype in _NAME_TYPES:
        content, stop = read_name(data, begin)
        if stop != end:
            raise DnsFormatError("a name does not fill the data of its record")
    elif (rrtype == RRType.A and length != 4) or (rrtype == RRType.AAAA and length != 16):
        raise DnsFormatError("an address has the wrong size")
    return ResourceRecord(section, name, rrtype, ttl, content, start, at + 4, end)


def soa_minimum(record: ResourceRecord) -> int:
    """Return the TTL of negative answers by the SOA record of their zone (RFC 2308)."""
    if len(record.data) <= _SOA_TIMES:
        raise DnsFormatError("an SOA record is cut off")
    return min(record.ttl, int.from_bytes(record.data[-4:]))
