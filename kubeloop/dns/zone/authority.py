# SPDX-License-Identifier: Apache-2.0
"""Records of the zone itself: SOA, NS with its addresses, and the version of the schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kubeloop.dns.wire.answer import DnsAnswer
from kubeloop.dns.wire.builder import AnswerBuilder, Section
from kubeloop.dns.wire.constants import AA, Rcode, RRType
from kubeloop.dns.zone.service_answers import answer_key

SCHEMA_VERSION = b"1.1.0"
_VERSION_TTL = 28800  # of the specification's example, and CoreDNS's
NameServer = tuple[bytes, bytes]  # name and address


def schema_version(zone: bytes) -> tuple[bytes, DnsAnswer]:
    """Return the TXT record with the version of the schema, with its key."""
    name = b"\x0bdns-version" + zone
    builder = AnswerBuilder(name, _VERSION_TTL)
    builder.add(Section.ANSWER, name, RRType.TXT, bytes((len(SCHEMA_VERSION),)) + SCHEMA_VERSION)
    return answer_key(name, RRType.TXT), builder.build(AA)


def name_server_name(zone: bytes) -> bytes:
    """Return the default name of the zone's server, which the SOA record has."""
    return b"\x02ns\x03dns" + zone


def zone_answers(zone: bytes, ttl: int, servers: Sequence[NameServer]) -> Iterator[tuple[bytes, DnsAnswer]]:
    """Yield the answers that name the servers of the zone, with their keys."""
    own = name_server_name(zone)
    for rrtype, size in ((RRType.A, 4), (RRType.AAAA, 16)):
        addresses = [address for address in _unique(address for _, address in servers) if len(address) == size]
        if addresses:
            builder = AnswerBuilder(own, ttl)
            builder.add_addresses(addresses)
            yield answer_key(own, rrtype), builder.build(AA)
    if servers:
        builder = AnswerBuilder(zone, ttl)
        for name in _unique(name for name, _ in servers):
            builder.add_name(Section.ANSWER, zone, RRType.NS, name)
        for name, address in dict.fromkeys(servers):
            builder.add_address(Section.ADDITIONAL, name, address)
        yield answer_key(zone, RRType.NS), builder.build(AA)


def _unique(items: Iterable[bytes]) -> Sequence[bytes]:
    return list(dict.fromkeys(items))


def soa_answer(zone: bytes, serial: int, ttl: int) -> DnsAnswer:
    """Return the answer to a question for the SOA record."""
    builder = AnswerBuilder(zone, ttl)
    builder.add_soa(Section.ANSWER, zone, serial, ttl)
    return builder.build(AA)


class NegativeAnswers:
    """Negative answers with the SOA record, by code and place of the zone's name in the question."""

    def __init__(self, zone: bytes, serial: int, ttl: int) -> None:
        self._zone = zone
        self._serial = serial
        self._ttl = ttl
        self._known: dict[tuple[int, int], DnsAnswer] = {}  # as many as lengths of names, for a few codes

    def get(self, rcode: Rcode, name: bytes) -> DnsAnswer:
        """Return the negative answer for a name in the zone."""
        key = rcode, len(name)
        found = self._known.get(key)
        if found is None:
            builder = AnswerBuilder(name, self._ttl)
            builder.add_soa(Section.AUTHORITY, self._zone, self._serial, self._ttl)
            found = self._known[key] = builder.build(AA | rcode)
        return found
