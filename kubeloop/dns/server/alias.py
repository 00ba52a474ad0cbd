# SPDX-License-Identifier: Apache-2.0
"""Answers of ExternalName Services: the alias, then the addresses of its target, from the zone or from upstream."""

from __future__ import annotations

from dataclasses import replace

from kubeloop.dns.forward.forwarder import DnsForwarder
from kubeloop.dns.wire.answer import DnsAnswer
from kubeloop.dns.wire.builder import AnswerBuilder, Section
from kubeloop.dns.wire.constants import AA, TC, RRType
from kubeloop.dns.wire.message import ResourceRecord, answer_records
from kubeloop.dns.wire.names import is_below
from kubeloop.dns.wire.query import DnsQuery
from kubeloop.dns.zone.cluster_zone import ClusterZone, ExternalName

_MOST_ALIASES = 10
_NAME_TYPES = frozenset((RRType.CNAME, RRType.DNAME))


class AliasResolver:
    """Follows aliases of the zone."""

    def __init__(self, zone: ClusterZone, forwarder: DnsForwarder | None) -> None:
        self._zone = zone
        self._forwarder = forwarder

    async def resolve(self, query: DnsQuery, found: ExternalName) -> DnsAnswer:
        """Return the aliases and addresses; an alias that leads nowhere within the zone has no records."""
        aliases = [(query.name, found.target)]
        while len(aliases) <= _MOST_ALIASES:
            owner, target = aliases[-1]
            if is_below(target.lower(), owner.lower()):
                break
            asked = _question(query, target)
            if not is_below(asked.name, self._zone.domain):
                return await self._resolve_outside(query, aliases, asked)
            answer = self._zone.lookup(asked)
            if isinstance(answer, ExternalName):
                aliases.append((target, answer.target))
                continue
            if answer is None or answer.rcode or not answer.sections[0]:
                break
            return self._build(query, aliases, answer_records(asked, answer), AA)
        return self._zone.negative(query.name)

    async def _resolve_outside(self, query: DnsQuery, aliases: list[tuple[bytes, bytes]], asked: DnsQuery) -> DnsAnswer:
        """Return the aliases with the upstreams' records; without those if there are none."""
        if self._forwarder is None:
            return self._build(query, aliases, (), AA)
        answer = self._forwarder.cached(asked) or await self._forwarder.resolve(asked)
        return self._build(query, aliases, answer_records(asked, answer), AA | answer.flags & TC)

    def _build(
        self, query: DnsQuery, aliases: list[tuple[bytes, bytes]], records: tuple[ResourceRecord, ...], flags: int
    ) -> DnsAnswer:
        builder = AnswerBuilder(query.name, self._zone.settings.ttl)
        for owner, target in aliases:
            builder.add_name(Section.ANSWER, owner, RRType.CNAME, target)
        for record in records:
            if record.section != Section.ANSWER:
                continue
            if record.type in _NAME_TYPES:
                builder.add_name(Section.ANSWER, record.name, record.type, record.data, record.ttl)
            elif record.type in (query.type, RRType.RRSIG):
                builder.add(Section.ANSWER, record.name, record.type, record.data, record.ttl)
        return builder.build(flags)


def _question(query: DnsQuery, name: bytes) -> DnsQuery:
    """Return the query of a client with another name."""
    return replace(query, question=name + query.question[-4:], name=name.lower())
