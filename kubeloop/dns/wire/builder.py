# SPDX-License-Identifier: Apache-2.0
"""Builder of answers: appends records section by section, and compresses their names.

Names in the data of SRV records are not compressed (RFC 2782), but later names may point to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct

from kubeloop.dns.wire.answer import DnsAnswer
from kubeloop.dns.wire.constants import CLASS_IN, HEADER_SIZE, MAX_POINTER, RRType

_FIXED = Struct("!HHIH")
_SRV = Struct("!HHH")
_SOA = Struct("!5I")
_QUESTION_TAIL = 4  # type and class


class Section(IntEnum):
    """Section of a response after the question."""

    ANSWER = 0
    AUTHORITY = 1
    ADDITIONAL = 2


class AnswerBuilder:
    """Records of one response to a question; sections must be filled in their order."""

    def __init__(self, name: bytes, ttl: int) -> None:
        self._ttl = ttl
        self._start = HEADER_SIZE + len(name) + _QUESTION_TAIL
        self._body = bytearray()
        self._ends: list[int] = []
        self._sections = [0, 0, 0]
        self._offsets: dict[bytes, int] = {}  # by name in lower case
        self._remember(name, HEADER_SIZE)

    @property
    def size(self) -> int:
        """Size of the records."""
        return len(self._body)

    def add(self, section: Section, owner: bytes, rrtype: int, data: bytes, ttl: int | None = None) -> None:
        """Append a record whose data has no names to compress."""
        self._body += self._compressed(owner)
        self._body += _FIXED.pack(rrtype, CLASS_IN, self._ttl if ttl is None else ttl, len(data))
        self._body += data
        self._count(section)

    def add_name(self, section: Section, owner: bytes, rrtype: int, target: bytes, ttl: int | None = None) -> None:
        """Append a record whose data is a name: CNAME, NS or PTR."""
        self._body += self._compressed(owner)
        head = len(self._body)
        self._body += bytes(_FIXED.size)
        self._body += self._compressed(target)
        self._fill(head, rrtype, self._ttl if ttl is None else ttl)
        self._count(section)

    def add_address(self, section: Section, owner: bytes, address: bytes) -> None:
        """Append an A or AAAA record of a packed address."""
        self.add(section, owner, RRType.A if len(address) == 4 else RRType.AAAA, address)

    def add_addresses(self, addresses: Iterable[bytes]) -> None:
        """Append the addresses of the question's name as answers."""
        pointer = (0xC000 | HEADER_SIZE).to_bytes(2)
        for address in addresses:
            rrtype = RRType.A if len(address) == 4 else RRType.AAAA
            self._body += pointer + _FIXED.pack(rrtype, CLASS_IN, self._ttl, len(address)) + address
            self._count(Section.ANSWER)

    def add_srv(self, owner: bytes, weight: int, port: int, target: bytes) -> None:
        """Append an SRV record of priority 0 as an answer."""
        self._body += self._compressed(owner)
        self._body += _FIXED.pack(RRType.SRV, CLASS_IN, self._ttl, _SRV.size + len(target))
        self._body += _SRV.pack(0, weight, port)
        self._remember(target, self._start + len(self._body))
        self._body += target
        self._count(Section.ANSWER)

    def add_soa(self, section: Section, zone: bytes, serial: int, minimum: int) -> None:
        """Append the SOA record of a zone, with CoreDNS's names and times."""
        self._body += self._compressed(zone)
        head = len(self._body)
        self._body += bytes(_FIXED.size)
        self._body += self._compressed(b"\x02ns\x03dns" + zone)
        self._body += self._compressed(b"\x0ahostmaster" + zone)
        self._body += _SOA.pack(serial, 7200, 1800, 86400, minimum)
        self._fill(head, RRType.SOA, min(minimum, 300))
        self._count(section)

    def build(self, flags: int) -> DnsAnswer:
        """Return the answer; equally long addresses without other records rotate."""
        count = len(self._ends)
        size = len(self._body)
        is_rotated = count > 1 and self._sections[0] == count and self._has_addresses_only(size // count)
        answers, authorities, additional = self._sections
        stride = size // count if is_rotated else 0
        return DnsAnswer(flags, (answers, authorities, additional), bytes(self._body), tuple(self._ends), stride)

    def _has_addresses_only(self, stride: int) -> bool:
        body = self._body
        kinds = {bytes(body[end - stride : end - stride + 4]) for end in self._ends}
        first = (0xC000 | HEADER_SIZE).to_bytes(2)
        return len(body) == stride * len(self._ends) and kinds in (
            {first + int(RRType.A).to_bytes(2)},
            {first + int(RRType.AAAA).to_bytes(2)},
        )

    def _fill(self, head: int, rrtype: int, ttl: int) -> None:
        """Fill in the fixed part of the last record, whose data has been written."""
        _FIXED.pack_into(self._body, head, rrtype, CLASS_IN, ttl, len(self._body) - head - _FIXED.size)

    def _count(self, section: Section) -> None:
        self._sections[section] += 1
        self._ends.append(len(self._body))

    def _compressed(self, name: bytes) -> bytes:
        """Return a name with a pointer to its longest known suffix, and remember its other suffixes."""
        at = 0
        while name[at]:
            offset = self._offsets.get(name[at:].lower())
            if offset is not None:
                self._remember(name, self._start + len(self._body), at)
                return name[:at] + (0xC000 | offset).to_bytes(2)
            at += 1 + name[at]
        self._remember(name, self._start + len(self._body))
        return name

    def _remember(self, name: bytes, offset: int, end: int | None = None) -> None:
        """Remember where the suffixes of a name begin, up to the offset of a suffix that is known."""
        at = 0
        while name[at] and (end is None or at < end) and offset + at <= MAX_POINTER:
            self._offsets.setdefault(name[at:].lower(), offset + at)
            at += 1 + name[at]
