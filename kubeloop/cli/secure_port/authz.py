# SPDX-License-Identifier: Apache-2.0
"""Delegated authentication and authorization of the secure port, as in upstream's components.

request ─▶ certificate (verified by TLS), or token (TokenReview) ─▶ administrators, or SubjectAccessReview ─▶ allowed
"""

from __future__ import annotations

import fnmatch
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kubeloop.api import errors
from kubeloop.api.generated.authentication_v1 import TokenReview, TokenReviewSpec
from kubeloop.api.generated.authorization_v1 import (
    NonResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from kubeloop.apiserver.authentication import user_of_certificate
from kubeloop.apiserver.authentication.bearer_token import bearer_token_of
from kubeloop.apiserver.request.context import ANONYMOUS, AUTHENTICATED, User
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.http import Request

ADMINISTRATORS = "system:masters"
_REMEMBERED = 1024  # maximum number of answers; clearing the cache costs only a few requests

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _AuthorizationDecision:
    allowed: bool
    reason: str = ""


class TTLCache(Generic[Key, Answer]):
    """TTL cache of the API server's answers, of bounded size."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[Key, tuple[float, Answer]] = {}

    def get(self, key: Key) -> Answer | None:
        """Return a cached answer that has not expired."""
        until, answer = self._answers.get(key, (0.0, None))
        return answer if self._clock.monotonic() < until else None

    def put(self, key: Key, answer: Answer, seconds: float) -> None:
        """Cache an answer."""
        if len(self._answers) >= _REMEMBERED:
            self._answers.clear()
        self._answers[key] = (self._clock.monotonic() + seconds, answer)


class DelegatedAuthorizer:
    """Authorizes requests; raises Unauthorized or Forbidden."""

    def __init__(self, authentication: Client, authorization: Client, config: ManagerConfig, clock: Clock) -> None:
        self._authentication = authentication
        self._authorization = authorization
        self._config = config
        self._users: TTLCache[str, User] = TTLCache(clock)
        self._verdicts: TTLCache[tuple[User, str, str], _AuthorizationDecision] = TTLCache(clock)

    async def check(self, request: Request) -> None:
        """Raise unless the request's user may make it."""
        path, verb = request.path, request.method.lower()
        if self._is_open(path):
            return
        user = await self._user(request)
        if ADMINISTRATORS in user.groups:
            return
        verdict = await self._verdict(user, path, verb)
        if not verdict.allowed:
            why = f": {verdict.reason}" if verdict.reason else ""
            raise errors.Forbidden(f'forbidden: User "{user.name}" cannot {verb} path "{path}"{why}')

    def _is_open(self, path: str) -> bool:
        """Return True for always allowed paths; they match exactly unless they end with a star."""
        return any(
            path == allowed or (allowed.endswith("*") and fnmatch.fnmatchcase(path, allowed))
            for allowed in self._config.authorization_always_allow_paths
        )

    async def _user(self, request: Request) -> User:
        if request.peer_certificate is not None:
            named = user_of_certificate(request.peer_certificate)
            if named is not None:
                return named
        if token := bearer_token_of(request.headers.get("authorization", "")):
            return await self._by_token(token)
        return ANONYMOUS

    async def _by_token(self, token: str) -> User:
        known = self._users.get(token)
        if known is not None:
            return known
        review: TokenReview = await self._authentication.create(TokenReview(spec=TokenReviewSpec(token=token)))
        if not review.status.authenticated:
            raise errors.Unauthorized("Unauthorized")
        said = review.status.user
        groups = said.groups if AUTHENTICATED in said.groups else (*said.groups, AUTHENTICATED)
        user = User(said.username, tuple(groups), said.uid, tuple(sorted(said.extra.items())))
        self._users.put(token, user, self._config.authentication_token_webhook_cache_ttl)
        return user

    async def _verdict(self, user: User, path: str, verb: str) -> _AuthorizationDecision:
        key = (user, path, verb)
        known = self._verdicts.get(key)
        if known is not None:
            return known
        spec = SubjectAccessReviewSpec(
            user=user.name,
            groups=user.groups,
            uid=user.uid,
            extra=dict(user.extra),
            non_resource_attributes=NonResourceAttributes(path=path, verb=verb),
        )
        review: SubjectAccessReview = await self._authorization.create(SubjectAccessReview(spec=spec))
        verdict = _AuthorizationDecision(review.status.allowed, review.status.reason)
        config = self._config
        seconds = (
            config.authorization_webhook_cache_authorized_ttl
            if verdict.allowed
            else config.authorization_webhook_cache_unauthorized_ttl
        )
        self._verdicts.put(key, verdict, seconds)
        return verdict
