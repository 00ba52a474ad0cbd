# SPDX-License-Identifier: Apache-2.0
"""Choice of the answer to a message: prepared answers at once, forwarded ones by a coroutine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine

from kubeloop.clock import Clock
from kubeloop.dns.forward.forwarder import DnsForwarder
from kubeloop.dns.server.alias import AliasResolver
from kubeloop.dns.server.metrics import ChannelMetrics
from kubeloop.dns.wire.answer import OPT, OPT_DNSSEC_OK, OPT_SIZE, DnsAnswer, encode_bad_version, encode_response
from kubeloop.dns.wire.builder import AnswerBuilder, Section
from kubeloop.dns.wire.constants import (
    CLASS_IN,
    HEADER_SIZE,
    MAX_MESSAGE_SIZE,
    MAX_UDP_SIZE,
    MIN_UDP_SIZE,
    OPCODE_MASK,
    QR,
    Rcode,
    RRType,
    rcode_name,
    type_name,
)
from kubeloop.dns.wire.names import DnsFormatError, name_text, read_name
from kubeloop.dns.wire.query import DnsQuery, error_header, parse_query
from kubeloop.dns.zone.cluster_zone import ClusterZone, ExternalName

_ONE_QUESTION = bytes((0, 1, 0, 0, 0, 0, 0, 0))
_QUESTION_AND_OPT = bytes((0, 1, 0, 0, 0, 0, 0, 1))
_OPT_HEAD = b"\0\0\x29"
_REFUSED = DnsAnswer(Rcode.REFUSED)
_SERVFAIL = DnsAnswer(Rcode.SERVFAIL)
_ANY_TTL = 8482  # of RFC 8482, as CoreDNS's plugin any
_ANY_DATA = b"\x0dANY obsoleted\x0cSee RFC 8482"
_KUBERNETES, _FORWARD, _CACHE = "kubernetes", "forward", "cache"

log = logging.getLogger(__name__)


class DnsHandler:
    """Answers messages from the cluster zone, the cache and upstream resolvers."""

    def __init__(
        self, zone: ClusterZone, forwarder: DnsForwarder | None, clock: Clock, *, is_logging: bool = False
    ) -> None:
        self._zone = zone
        self._answers = zone.answers
        self._forwarder = forwarder
        self._aliases = AliasResolver(zone, forwarder)
        self._monotonic: Callable[[], float] = clock.monotonic
        self._is_logging = is_logging

    def respond(
        self, data: bytes, channel: ChannelMetrics, *, is_stream: bool
    ) -> bytes | Coroutine[None, None, bytes] | None:
        """Return the response to a message, a coroutine if it takes time, or None if there must be none."""
        began = self._monotonic()
        response = self._prepared_response(data, is_stream)
        if response is None:
            return self._respond_unprepared(data, channel, began, is_stream)
        end = data.index(0, HEADER_SIZE)
        self._observe(data, response, channel, (data[end + 1] << 8 | data[end + 2], _KUBERNETES, began))
        return response

    def refuse(self, data: bytes, channel: ChannelMetrics) -> bytes | None:
        """Return the response to a client that is not answered, as large as a header; None if there must be none."""
        if len(data) < HEADER_SIZE or data[2] & QR >> 8:
            return None
        response = error_header(data, Rcode.REFUSED)
        self._observe(data, response, channel, (0, "", self._monotonic()))
        return response

    def _prepared_response(self, data: bytes, is_stream: bool) -> bytes | None:
        """Return a prepared answer with the client's id, flags and question; None if it is not that simple."""
        end = data.find(0, HEADER_SIZE) + 1
        question_end = end + 4
        answer = self._answers.get(data[HEADER_SIZE:end].lower() + data[end:question_end])
        if answer is None or data[2] & 0xFE or not end:
            return None
        limit, opt, counts = MIN_UDP_SIZE, b"", data[4:HEADER_SIZE]
        if counts == _ONE_QUESTION and len(data) == question_end:
            counts = answer.counts
        elif counts == _QUESTION_AND_OPT and data[question_end : question_end + 3] == _OPT_HEAD:
            tail = data[question_end:]
            if len(tail) < OPT_SIZE or tail[6] or len(tail) != OPT_SIZE + (tail[9] << 8 | tail[10]):
                return None
            limit = min(max(tail[3] << 8 | tail[4], MIN_UDP_SIZE), MAX_UDP_SIZE)
            opt = OPT_DNSSEC_OK if tail[7] & 0x80 else OPT
            counts = answer.counts_edns
        else:
            return None
        if question_end + len(answer.body) + len(opt) > (MAX_MESSAGE_SIZE if is_stream else limit):
            return None
        flags = bytes((0x84 | data[2] & 1, data[3] & 0x10))  # response, authoritative; RD and CD as in the query
        return b"".join((data[:2], flags, counts, data[HEADER_SIZE:question_end], answer.next_body(), opt))

    def _respond_unprepared(
        self, data: bytes, channel: ChannelMetrics, began: float, is_stream: bool
    ) -> bytes | Coroutine[None, None, bytes] | None:
        if len(data) < HEADER_SIZE or data[2] & QR >> 8:
            return None
        qtype = 0
        try:
            if data[2] & OPCODE_MASK >> 8:
                response = error_header(data, Rcode.NOTIMP)
            else:
                query = parse_query(data)
                qtype = query.type
                found = self._answer(query)
                if not isinstance(found, tuple):
                    return self._finish(query, found, channel, began, is_stream=is_stream)
                answer, plugin = found
                response = encode_bad_version(query) if answer is None else encode_response(query, answer, is_stream)
                self._observe(data, response, channel, (qtype, plugin, began))
                return response
        except DnsFormatError:
            response = error_header(data, Rcode.FORMERR)
        self._observe(data, response, channel, (qtype, "", began))
        return response

    def _answer(self, query: DnsQuery) -> tuple[DnsAnswer | None, str] | ExternalName | None:
        """Return the answer and its source; otherwise the alias to resolve, or None if the query is to be forwarded.

        The answer is None for an unknown version of EDNS.
        """
        if query.edns_version:
            return None, ""
        if query.rrclass != CLASS_IN:
            return _REFUSED, ""
        found = self._zone.lookup(query)
        if isinstance(found, DnsAnswer):
            return found, _KUBERNETES
        if isinstance(found, ExternalName):
            return found
        if query.type == RRType.ANY:
            return _any_answer(query), ""
        if self._forwarder is None or query.type in (RRType.AXFR, RRType.IXFR):
            return _REFUSED, ""
        cached = self._forwarder.cached(query)
        return None if cached is None else (cached, _CACHE)

    async def _finish(
        self, query: DnsQuery, alias: ExternalName | None, channel: ChannelMetrics, began: float, *, is_stream: bool
    ) -> bytes:
        """Resolve an alias or forward a query; a defect of ours is answered by SERVFAIL, and logged."""
        answer, plugin = _SERVFAIL, _FORWARD
        try:
            if alias is not None:
                answer, plugin = await self._aliases.resolve(query, alias), _KUBERNETES
            elif self._forwarder is not None:
                answer = await self._forwarder.resolve(query)
        except Exception:
            log.exception("a query for %s failed", name_text(query.name))
        response = encode_response(query, answer, is_stream)
        self._observe(query.question, response, channel, (query.type, plugin, began))
        return response

    def _observe(self, data: bytes, response: bytes, channel: ChannelMetrics, details: tuple[int, str, float]) -> None:
        qtype, plugin, began = details
        seconds = self._monotonic() - began
        channel.observe(qtype, response, plugin, len(data), seconds)
        if self._is_logging:
            self._log(response, channel, qtype, seconds)

    def _log(self, response: bytes, channel: ChannelMetrics, qtype: int, seconds: float) -> None:
        name = name_text(read_name(response, HEADER_SIZE)[0]) if len(response) > HEADER_SIZE else "."
        code = rcode_name(response[3] & 0xF)
        log.info('"%s IN %s %s" %s %d %.9fs', name, type_name(qtype), channel.protocol, code, len(response), seconds)


def _any_answer(query: DnsQuery) -> DnsAnswer:
    """Return the minimal answer of RFC 8482, which cannot amplify."""
    builder = AnswerBuilder(query.name, _ANY_TTL)
    builder.add(Section.ANSWER, query.name, RRType.HINFO, _ANY_DATA)
    return builder.build(Rcode.NOERROR)
