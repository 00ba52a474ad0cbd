# SPDX-License-Identifier: Apache-2.0
"""Webhook token authenticator: posts a TokenReview to another server, and caches its answer."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from kubeloop.apiserver.authentication.remote_tokens import TokenRejected, TokenReviewResult
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.webhook_client.expiring_cache import ExpiringCache
from kubeloop.apiserver.webhook_client.review_client import ReviewClient, WebhookFailure
from kubeloop.clock import Clock

log = logging.getLogger(__name__)

VERSIONS: Final = ("v1", "v1beta1")
_MAX_CACHED: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class WebhookAuthenticatorConfig:
    """Configuration of the webhook authenticator; the time in seconds, 0 for no cache."""

    kubeconfig: Path
    version: str = "v1beta1"
    cache_ttl: float = 120.0


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: Mapping[str, tuple[str, ...] | None] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)
    audiences: tuple[str, ...] | None = None
    error: str = ""


class WebhookTokenAuthenticator:
    """Authenticator of tokens by a webhook; `audiences` are those of this API server."""

    def __init__(
        self, config: WebhookAuthenticatorConfig, client: ReviewClient, audiences: Sequence[str], clock: Clock
    ) -> None:
        self._config = config
        self._client = client
        self._own_audiences = tuple(audiences)
        # None inside the tuple: a token that the webhook does not know.
        self._cache: ExpiringCache[tuple[TokenReviewResult | None]] = ExpiringCache(clock, _MAX_CACHED)

    async def authenticate(self, token: str, audiences: Sequence[str]) -> TokenReviewResult | None:
        """Return the webhook's user of a token, or None; raises TokenRejected."""
        key = hashlib.sha256(msgspec.json.encode((token, audiences))).digest()
        known = self._cache.get(key)
        if known is not None:
            return known[0]
        result = await self._review(token, audiences)
        self._cache.put(key, (result,), self._config.cache_ttl)
        return result

    def close(self) -> None:
        """Close the connections to the webhook."""
        self._client.close()

    async def _review(self, token: str, audiences: Sequence[str]) -> TokenReviewResult | None:
        spec: dict[str, Any] = {"token": token, "audiences": list(audiences)} if audiences else {"token": token}
        review = {
            "kind": "TokenReview",
            "apiVersion": f"authentication.k8s.io/{self._config.version}",
            "metadata": {},
            "spec": spec,
            "status": {"user": {}},
        }
        try:
            answer = await self._client.post(review)
            status = msgspec.convert(answer.get("status") or {}, _TokenStatus)
        except (WebhookFailure, msgspec.ValidationError) as error:
            log.error("Failed to make webhook authenticator request: %s", error)
            raise TokenRejected(str(error)) from None
        accepted = status.audiences or self._own_audiences
        shared = tuple(audience for audience in audiences if audience in accepted)
        if audiences and not shared:
            return None
        if not status.authenticated:
            if status.error:
                raise TokenRejected(status.error)
            return None
        return TokenReviewResult(_user(status.user), shared)


def _user(info: _UserInfo) -> User:
    extra = tuple((key, tuple(values or ())) for key, values in (info.extra or {}).items())
    return User(info.username, tuple(info.groups or ()), info.uid, extra)
