# SPDX-License-Identifier: Apache-2.0
"""Cache of forwarded answers: bounded in size and by TTL; nothing is served after its TTL."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from kubeloop.clock import Clock
from kubeloop.dns.wire.answer import DnsAnswer, visible_flags
from kubeloop.dns.wire.constants import AA, CD, HEADER_SIZE, Rcode, RRType
from kubeloop.dns.wire.message import DnsMessage, ResourceRecord, soa_minimum
from kubeloop.dns.wire.names import DnsFormatError
from kubeloop.dns.wire.query import DnsQuery

CacheKind = Literal["success", "denial"]
MAX_ENTRIES = 9984  # of each kind, as in CoreDNS
DEFAULT_TTL = 30  # of kubeadm's Corefile
_MOST_ALIASES = 20


@dataclass(slots=True)
class _Entry:
    answer: DnsAnswer
    ttl_offsets: tuple[int, ...]
    ttl: int
    stored: float
    turn: int = 0

    def answer_with(self, ttl: int, flags: int) -> DnsAnswer:
        """Return the answer with one TTL for all records, as CoreDNS does, and with the next address first."""
        answer = self.answer
        body = bytearray(answer.body)
        packed = ttl.to_bytes(4)
        for at in self.ttl_offsets:
            body[at : at + 4] = packed
        if answer.stride:
            self.turn = turn = (self.turn + answer.stride) % len(body)
            body = body[turn:] + body[:turn]
        return DnsAnswer(flags, answer.sections, bytes(body), answer.ends)


class AnswerCache:
    """Answers of upstream resolvers by question, DO and CD flags; the longest unused ones are evicted."""

    def __init__(self, clock: Clock, max_ttl: int = DEFAULT_TTL, max_entries: int = MAX_ENTRIES) -> None:
        self._monotonic = clock.monotonic
        self._max_ttl = max_ttl
        self._max_entries = max_entries
        self._entries: dict[CacheKind, OrderedDict[bytes, _Entry]] = {"success": OrderedDict(), "denial": OrderedDict()}
        self.requests = 0
        self.hits: dict[CacheKind, int] = {"success": 0, "denial": 0}
        self.evictions: dict[CacheKind, int] = {"success": 0, "denial": 0}

    def size(self, kind: CacheKind) -> int:
        """Return the number of entries of a kind."""
        return len(self._entries[kind])

    def get(self, query: DnsQuery) -> DnsAnswer | None:
        """Return a cached answer with the remaining TTL; None if there is none."""
        self.requests += 1
        key = cache_key(query)
        for kind, entries in self._entries.items():
            entry = entries.get(key)
            if entry is None:
                continue
            remaining = entry.ttl - int(self._monotonic() - entry.stored)
            if remaining <= 0:
                del entries[key]
                continue
            entries.move_to_end(key)
            self.hits[kind] += 1
            return entry.answer_with(remaining, visible_flags(entry.answer.flags, query) | AA)
        return None

    def put(self, query: DnsQuery, message: DnsMessage) -> DnsAnswer:
        """Store a response if it may be cached; returns the answer for the client."""
        answer = message.to_answer()
        kind, ttl = classify(query, message)
        offsets = _ttl_offsets(message)
        ttl = min(ttl, self._max_ttl)
        if kind is None or ttl <= 0:
            return answer.with_flags(visible_flags(answer.flags, query))
        entry = _Entry(_rotatable(answer), offsets, ttl, self._monotonic())
        key = cache_key(query)
        for one, entries in self._entries.items():
            entries.pop(key, None)
            if one == kind:
                entries[key] = entry
                if len(entries) > self._max_entries:
                    entries.popitem(last=False)
                    self.evictions[kind] += 1
        return entry.answer_with(ttl, visible_flags(answer.flags, query))


def cache_key(query: DnsQuery) -> bytes:
    """Return the question in lower case with the flags that change an answer."""
    return query.key + bytes((query.dnssec_ok, bool(query.flags & CD)))


def classify(query: DnsQuery, message: DnsMessage) -> tuple[CacheKind | None, int]:
    """Return the kind of a response and its TTL; None if it must not be cached."""
    rcode = message.flags & 0xF
    if message.is_truncated or rcode not in (Rcode.NOERROR, Rcode.NXDOMAIN):
        return None, 0
    records = [record for record in message.records if record.type != RRType.OPT]
    lowest = min((record.ttl for record in records if record.ttl < 1 << 31), default=0)
    if rcode == Rcode.NOERROR and _is_answered(query, records):
        return "success", lowest
    for record in records:
        if record.section == 1 and record.type == RRType.SOA:
            try:
                return "denial", min(lowest, soa_minimum(record))
            except DnsFormatError:
                return None, 0
    return None, 0


def _is_answered(query: DnsQuery, records: list[ResourceRecord]) -> bool:
    """Return True if the aliases that begin at the question's name end at a record of the requested type."""
    answers = [record for record in records if record.section == 0]
    name = query.name
    for _ in range(_MOST_ALIASES):
        here = [record for record in answers if record.name.lower() == name]
        if any(record.type == query.type for record in here):
            return True
        targets = {record.data.lower() for record in here if record.type == RRType.CNAME}
        if len(targets) != 1:
            return False
        name = targets.pop()
    return False


def _ttl_offsets(message: DnsMessage) -> tuple[int, ...]:
    """Return the offsets of TTLs in the records before an OPT record."""
    start = HEADER_SIZE + len(message.question)
    found = []
    for record in message.records:
        if record.type == RRType.OPT:
            break
        found.append(record.ttl_at - start)
    return tuple(found)


def _rotatable(answer: DnsAnswer) -> DnsAnswer:
    """Return the answer with the size of its records if all of them are addresses of the question's name."""
    count = answer.sections[0]
    if count < 2 or count != len(answer.ends) or len(answer.body) % count:
        return answer
    size = len(answer.body) // count
    heads = {answer.body[at : at + 4] for at in range(0, len(answer.body), size)}
    if size in (16, 28) and heads <= {b"\xc0\x0c\0\x01", b"\xc0\x0c\0\x1c"} and len(heads) == 1:
        return DnsAnswer(answer.flags, answer.sections, answer.body, answer.ends, size)
    return answer
