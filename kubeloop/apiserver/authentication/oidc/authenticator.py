# SPDX-License-Identifier: Apache-2.0
"""Authenticators of tokens of external issuers: each discovers its issuer in the background, and again on failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.authentication.oidc.claims import ClaimMapper
from kubeloop.apiserver.authentication.oidc.configuration import JWTAuthenticatorConfig
from kubeloop.apiserver.authentication.oidc.distributed_claims import DistributedClaims
from kubeloop.apiserver.authentication.oidc.keys import MalformedToken, ParsedToken, parse_token
from kubeloop.apiserver.authentication.oidc.provider import HttpsFetcher, Provider, ProviderError, discover
from kubeloop.apiserver.authentication.remote_tokens import TokenRejected, TokenReviewResult
from kubeloop.apiserver.request.context import User
from kubeloop.clock import Clock

log = logging.getLogger(__name__)

_DISCOVERY_SECONDS: Final = 10.0
_LEEWAY: Final = timedelta(minutes=1)
_GOOGLE, _GOOGLE_WITHOUT_SCHEME = "https://accounts.google.com", "accounts.google.com"


class IssuerAuthenticator:
    """Authenticator of one issuer's tokens; `start` begins the discovery."""

    def __init__(self, config: JWTAuthenticatorConfig, algorithms: Sequence[str], clock: Clock) -> None:
        if config.issuer.egress_selector_type:
            told = quote(config.issuer.egress_selector_type)
            raise ValueError(f"oidc: egress lookup required with egress selector type {told}")
        self.issuer = config.issuer.url
        self._config = config
        self._algorithms = tuple(algorithms)
        self._clock = clock
        self._mapper = ClaimMapper(config)
        self._fetcher = HttpsFetcher(config.issuer.certificate_authority)
        groups = config.claim_mappings.groups.claim
        self._distributed = DistributedClaims(groups, self._fetcher, self.verify, clock) if groups else None
        self._provider: Provider | None = None
        self._problem = f"oidc: authenticator for issuer {quote(self.issuer)} is not initialized"
        self._discovery: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Discover the issuer, and try again every few seconds until that succeeds."""
        self._discovery = asyncio.create_task(self._discover(), name="discovery of an OpenID issuer")

    def close(self) -> None:
        """Stop the discovery and close connections."""
        if self._discovery is not None:
            self._discovery.cancel()
        self._fetcher.close()

    @property
    def problem(self) -> str:
        """Reason why the authenticator is not healthy; empty if it is."""
        if not self._problem:
            return ""
        return f"oidc: authenticator for issuer {quote(self.issuer)} is not healthy: {self._problem}"

    async def wait_discovered(self) -> None:
        """Wait until the issuer has been discovered."""
        if self._discovery is not None:
            await asyncio.shield(self._discovery)

    async def authenticate(self, token: str) -> User | None:
        """Return the user of a token of this issuer, or None for others; raises TokenRejected."""
        try:
            parsed = parse_token(token)
        except MalformedToken:
            return None
        if _issuer_of(parsed.claims) != self.issuer:
            return None
        if self._provider is None:
            raise TokenRejected("oidc: authenticator not initialized")
        try:
            await self.verify(parsed, self._provider)
        except ProviderError as error:
            raise TokenRejected(f"oidc: verify token: {error}") from None
        claims = parsed.claims
        if self._distributed is not None:
            try:
                claims = await self._distributed.expand(claims)
            except ProviderError as error:
                raise TokenRejected(f"oidc: could not expand distributed claims: {error}") from None
        return self._mapper.user_of(claims)

    async def verify(self, token: ParsedToken, provider: Provider) -> None:
        """Verify algorithm, signature, issuer, audience and times; raises ProviderError."""
        if token.algorithm not in self._algorithms:
            expected = "[" + " ".join(map(quote, self._algorithms)) + "]"
            raise ProviderError(
                f"oidc: id token signed with unsupported algorithm, expected {expected} got {quote(token.algorithm)}"
            )
        try:
            await provider.verify(token)
        except ProviderError as error:
            raise ProviderError(f"failed to verify signature: {error}") from None
        claims = token.claims
        if claims.get("iss") != provider.issuer and _issuer_of(claims) != provider.issuer:
            said = quote(str(claims.get("iss", "")))
            raise ProviderError(
                f"oidc: id token issued by a different provider, expected {quote(provider.issuer)} got {said}"
            )
        self._check_audience(claims)
        _check_times(claims, self._clock.now())

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        found = claims.get("aud", [])
        audiences = [found] if isinstance(found, str) else found if isinstance(found, list) else []
        wanted = self._config.issuer.audiences
        if any(one in wanted for one in audiences):
            return
        shown = "[" + " ".join(quote(str(one)) for one in audiences) + "]"
        if len(wanted) == 1:
            raise ProviderError(f"oidc: expected audience {quote(wanted[0])} got {shown}")
        listed = "[" + " ".join(map(quote, sorted(wanted))) + "]"
        raise ProviderError(f"oidc: expected audience in {listed} got {shown}")

    async def _discover(self) -> None:
        issuer = self._config.issuer
        while self._provider is None:
            try:
                self._provider = await discover(issuer.url, issuer.discovery_url, self._fetcher, self._clock)
                self._problem = ""
            except ProviderError as error:
                log.error("oidc authenticator: initializing plugin: %s", error)
                self._problem = str(error)
                await asyncio.sleep(_DISCOVERY_SECONDS)


class JWTAuthenticators:
    """Authenticators of all configured issuers; their tokens are for the audiences of this API server."""

    def __init__(self, authenticators: Sequence[IssuerAuthenticator], audiences: Sequence[str]) -> None:
        self._authenticators = tuple(authenticators)
        self._own_audiences = tuple(audiences)

    def start(self) -> None:
        """Begin the discovery of all issuers."""
        for one in self._authenticators:
            one.start()

    def replace(self, authenticators: Sequence[IssuerAuthenticator]) -> None:
        """Use other authenticators from now on."""
        previous, self._authenticators = self._authenticators, tuple(authenticators)
        for one in previous:
            one.close()

    def close(self) -> None:
        """Stop all discoveries and close connections."""
        for one in self._authenticators:
            one.close()

    async def authenticate(self, token: str, audiences: Sequence[str]) -> TokenReviewResult | None:
        """Return the user of a token, or None for tokens of other issuers; raises TokenRejected."""
        shared = tuple(one for one in self._own_audiences if one in audiences)
        if audiences and not shared:
            return None
        for one in self._authenticators:
            user = await one.authenticate(token)
            if user is not None:
                return TokenReviewResult(user, shared)
        return None


def _issuer_of(claims: Mapping[str, Any]) -> Any:
    issuer = claims.get("iss")
    return _GOOGLE if issuer == _GOOGLE_WITHOUT_SCHEME else issuer


def _check_times(claims: Mapping[str, Any], now: datetime) -> None:
    expiry = _time(claims.get("exp"))
    if expiry < now:
        raise ProviderError(f"oidc: token is expired (Token Expiry: {_shown(expiry)})")
    if claims.get("nbf") is not None and now + _LEEWAY < _time(claims["nbf"]):
        begin = _shown(_time(claims["nbf"]))
        raise ProviderError(f"oidc: current time {_shown(now)} before the nbf (not before) time: {begin}")


def _time(value: Any) -> datetime:
    """Return the time of a NumericDate; without one, the beginning of time."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return datetime(1, 1, 1, tzinfo=UTC)
    try:
        return datetime.fromtimestamp(int(value), UTC)
    except (OverflowError, ValueError, OSError):
        raise ProviderError("oidc: failed to unmarshal claims: time is out of range") from None


def _shown(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
