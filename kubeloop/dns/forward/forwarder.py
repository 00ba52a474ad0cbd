# SPDX-License-Identifier: Apache-2.0
"""Forwarder: cached answers, otherwise one exchange for all clients that ask the same question."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubeloop.clock import Clock
from kubeloop.dns.forward.answer_cache import AnswerCache, cache_key
from kubeloop.dns.forward.upstream import UpstreamResolver
from kubeloop.dns.wire.answer import DnsAnswer, visible_flags
from kubeloop.dns.wire.constants import Rcode
from kubeloop.dns.wire.message import DnsMessage
from kubeloop.dns.wire.names import DnsFormatError
from kubeloop.dns.wire.query import DnsQuery

_AVOID_SECONDS = 10.0  # after a failure an upstream is tried last

log = logging.getLogger(__name__)
# Observes the upstream's name, the response code and the seconds of an exchange.
ExchangeObserver = Callable[[str, int, float], None]


@dataclass(frozen=True, slots=True)
class ForwardSettings:
    """Limits of forwarded queries; defaults are CoreDNS's and those of kubeadm's Corefile."""

    max_concurrent: int = 1000
    deadline: float = 5.0  # seconds for all attempts of a query
    attempt_timeout: float = 2.0
    attempts_per_upstream: int = 2


class DnsForwarder:
    """Resolves names by upstream resolvers in random order; failed ones come last."""

    def __init__(
        self,
        upstreams: Sequence[UpstreamResolver],
        cache: AnswerCache,
        clock: Clock,
        settings: ForwardSettings | None = None,
        observe: ExchangeObserver | None = None,
    ) -> None:
        self._upstreams = upstreams
        self._cache = cache
        self._clock = clock
        self._settings = settings or ForwardSettings()
        self._observe = observe
        self._pending: dict[bytes, asyncio.Future[DnsMessage | None]] = {}
        self._active = 0
        self.rejected = 0

    def cached(self, query: DnsQuery) -> DnsAnswer | None:
        """Return a cached answer; None if there is none."""
        return self._cache.get(query)

    async def resolve(self, query: DnsQuery) -> DnsAnswer:
        """Return the upstreams' answer; REFUSED if too many queries wait, SERVFAIL if no upstream answers."""
        if self._active >= self._settings.max_concurrent:
            self.rejected += 1
            return DnsAnswer(Rcode.REFUSED)
        self._active += 1
        try:
            return await self._share(query)
        finally:
            self._active -= 1

    async def _share(self, query: DnsQuery) -> DnsAnswer:
        """Exchange once for equal questions: the first one asks, the others wait for it."""
        key = cache_key(query)
        waiting = self._pending.get(key)
        if waiting is not None:
            message = await asyncio.shield(waiting)
            return self._shared_answer(query, message)
        future = self._pending[key] = asyncio.get_running_loop().create_future()
        message = None
        try:
            message = await self._exchange(query)
        finally:
            del self._pending[key]
            future.set_result(message)  # None also if this client is gone: the others get SERVFAIL and ask again
        return DnsAnswer(Rcode.SERVFAIL) if message is None else self._cache.put(query, message)

    def _shared_answer(self, query: DnsQuery, message: DnsMessage | None) -> DnsAnswer:
        if message is None:
            return DnsAnswer(Rcode.SERVFAIL)
        found = self._cache.get(query)
        if found is not None:
            return found
        answer = message.to_answer()
        return answer.with_flags(visible_flags(answer.flags, query))

    async def _exchange(self, query: DnsQuery) -> DnsMessage | None:
        """Try the upstreams in turn until one answers or the time is over."""
        settings, clock = self._settings, self._clock
        end = clock.monotonic() + settings.deadline
        order = self._order()
        for upstream in order * settings.attempts_per_upstream:
            began = clock.monotonic()
            if began >= end:
                break
            try:
                message = await upstream.exchange(query, min(settings.attempt_timeout, end - began))
            except (OSError, DnsFormatError) as error:
                log.debug("upstream %s: %s", upstream.name, str(error) or "no response in time")
                continue
            if self._observe is not None:
                self._observe(upstream.name, message.flags & 0xF, clock.monotonic() - began)
            return message
        log.warning("no upstream resolver answers: %s", ", ".join(one.name for one in order))
        return None

    def _order(self) -> list[UpstreamResolver]:
        now = self._clock.monotonic()
        order = list(self._upstreams)
        self._clock.random().shuffle(order)
        return sorted(order, key=lambda one: one.failed_at is not None and now - one.failed_at < _AVOID_SECONDS)
