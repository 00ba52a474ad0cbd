# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens that other servers are asked about: union of their authenticators, with a cache.

token ─▶ cache ─▶ JWT authenticators ─ webhook ─▶ user, or the reasons why there is none

Lookups of the same token are shared. Nothing here is used unless such an authenticator is configured.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from kubeloop.api.meta.field_path import aggregate
from kubeloop.apiserver.metrics.tokens import TokenCacheMetrics
from kubeloop.apiserver.request.context import ANONYMOUS, AUTHENTICATED, User
from kubeloop.apiserver.webhook_client.expiring_cache import ExpiringCache
from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry

_UNAUTHENTICATED: Final = "system:unauthenticated"
_MAX_CACHED: Final = 32 * 1024
_CACHE_SECONDS: Final = 10.0
_LOOKUP_SECONDS: Final = 30.0


class TokenReviewResult(NamedTuple):
    """User of a valid token, and the requested audiences that it is for."""

    user: User
    audiences: tuple[str, ...]


class TokenRejected(Exception):
    """Error for a token that an authenticator is responsible for and rejects, or could not check."""


class RemoteTokenAuthenticator(Protocol):
    """Authenticator that may have to ask another server about a token."""

    async def authenticate(self, token: str, audiences: Sequence[str]) -> TokenReviewResult | None:
        """Return the user of a token, or None for a token of others; raises TokenRejected."""

    def close(self) -> None:
        """Close connections."""


class RemoteTokenUnion:
    """Union of such authenticators, all of which are asked in order until one knows the token."""

    def __init__(
        self,
        authenticators: Sequence[RemoteTokenAuthenticator],
        audiences: Sequence[str],
        clock: Clock,
        metrics: TokenCacheMetrics | None = None,
    ) -> None:
        self._metrics = metrics or TokenCacheMetrics(MetricRegistry(), clock)
        self.audiences = tuple(audiences)  # of this API server
        self._authenticators = tuple(authenticators)
        self._cache: ExpiringCache[TokenReviewResult] = ExpiringCache(clock, _MAX_CACHED)
        self._lookups: dict[bytes, asyncio.Task[TokenReviewResult | None]] = {}

    def cached_user(self, token: str) -> User | None:
        """Return the user of a token for this API server, if it was authenticated a few seconds ago."""
        since = self._metrics.monotonic()
        found = self._cache.get(_digest(token, self.audiences))
        if found is None:
            return None
        self._metrics.observe(since, hit=True)
        return found.user

    async def authenticate(self, token: str, audiences: Sequence[str]) -> TokenReviewResult | None:
        """Return the user of a token, or None if there is none; raises TokenRejected with all reasons."""
        metrics, since = self._metrics, self._metrics.monotonic()
        key = _digest(token, audiences)
        known = self._cache.get(key)
        if known is not None:
            metrics.observe(since, hit=True)
            return known
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = asyncio.create_task(self._look_up(token, audiences, key))
            lookup.add_done_callback(lambda _: self._lookups.pop(key, None))
        metrics.blocked.value += 1
        try:
            return await asyncio.shield(lookup)
        finally:
            metrics.blocked.value -= 1
            metrics.observe(since, hit=False)

    def close(self) -> None:
        """Cancel lookups and close connections."""
        for lookup in self._lookups.values():
            lookup.cancel()
        for one in self._authenticators:
            one.close()

    async def _look_up(self, token: str, audiences: Sequence[str], key: bytes) -> TokenReviewResult | None:
        metrics, is_answered = self._metrics, False
        metrics.in_flight.value += 1
        try:
            found = await self._ask(token, audiences, key)
            is_answered = True
            return found
        finally:
            metrics.in_flight.value -= 1
            metrics.count_fetch(ok=is_answered)

    async def _ask(self, token: str, audiences: Sequence[str], key: bytes) -> TokenReviewResult | None:
        """Ask the authenticators in order, and cache the user that one of them knows."""
        problems: list[str] = []
        for one in self._authenticators:
            try:
                async with asyncio.timeout(_LOOKUP_SECONDS):
                    found = await one.authenticate(token, audiences)
            except TokenRejected as error:
                problems.append(str(error))
            except TimeoutError:
                problems.append("context deadline exceeded")
            else:
                if found is not None:
                    result = found._replace(user=_with_authenticated_group(found.user))
                    self._cache.put(key, result, _CACHE_SECONDS)
                    return result
        if problems:
            raise TokenRejected(aggregate(problems))
        return None


def _digest(token: str, audiences: Sequence[str]) -> bytes:
    """Return the key of a token and audiences; the tokens themselves are not kept."""
    text = "".join(f"{len(part)}:{part}" for part in (token, *audiences))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _with_authenticated_group(user: User) -> User:
    if user.name == ANONYMOUS.name or AUTHENTICATED in user.groups or _UNAUTHENTICATED in user.groups:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)
