# SPDX-License-Identifier: Apache-2.0
"""Distributed claims: groups that a token leaves to another endpoint, which answers with a signed token of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.authentication.oidc.keys import MalformedToken, ParsedToken, parse_token
from kubeloop.apiserver.authentication.oidc.provider import HttpsFetcher, Provider, ProviderError, discover
from kubeloop.clock import Clock

_NAMES, _SOURCES = "_claim_names", "_claim_sources"


class DistributedClaims:
    """Resolves one claim; `verify` checks a token of the issuer that the endpoint names."""

    def __init__(
        self,
        claim: str,
        fetcher: HttpsFetcher,
        verify: Callable[[ParsedToken, Provider], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._claim = claim
        self._fetcher = fetcher
        self._verify = verify
        self._clock = clock
        self._providers: dict[str, Provider] = {}

    async def expand(self, claims: dict[str, Any]) -> dict[str, Any]:
        """Return the claims with the resolved one; raises ProviderError."""
        if self._claim in claims or _NAMES not in claims:
            return claims
        endpoint = self._endpoint(claims)
        if endpoint is None:
            return claims
        try:
            found = parse_token(await self._fetch(endpoint))
        except MalformedToken as error:
            raise ProviderError(
                f"getting untrusted issuer from endpoint {endpoint['endpoint']} failed for claim "
                f"{quote(self._claim)}: {error}"
            ) from None
        try:
            await self._verify(found, await self._provider(str(found.claims.get("iss", ""))))
        except ProviderError as error:
            raise ProviderError(f"verify distributed claim token: {error}") from None
        if self._claim not in found.claims:
            raise ProviderError(
                f"jwt returned by distributed claim endpoint {quote(endpoint['endpoint'])} did not contain claim: "
                f"{self._claim}"
            )
        return {**claims, self._claim: found.claims[self._claim]}

    def _endpoint(self, claims: Mapping[str, Any]) -> dict[str, Any] | None:
        names = claims[_NAMES]
        if not isinstance(names, dict):
            raise ProviderError("oidc: error parsing distributed claim names")
        if _SOURCES not in claims:
            raise ProviderError("oidc: no claim sources")
        sources = claims[_SOURCES]
        if not isinstance(sources, dict):
            raise ProviderError("oidc: could not parse claim sources")
        source = names.get(self._claim)
        if source is None:
            return None
        if source not in sources:
            raise ProviderError(f"id token _claim_names contained a source {source} missing in _claims_sources")
        found = sources[source]
        return found if isinstance(found, dict) and found.get("endpoint") else None

    async def _fetch(self, endpoint: Mapping[str, Any]) -> str:
        token = endpoint.get("access_token")
        about = f"while getting distributed claim {quote(self._claim)}"
        try:
            response = await self._fetcher.get(str(endpoint["endpoint"]), f"Bearer {token}" if token else "")
        except ProviderError as error:
            raise ProviderError(f"{about}: {error}") from None
        if not 200 <= response.status <= 226:
            raise ProviderError(f"{about}: error while getting distributed claim JWT: {response.status}")
        return response.body.decode("utf-8", "replace").strip()

    async def _provider(self, issuer: str) -> Provider:
        known = self._providers.get(issuer)
        if known is None:
            known = self._providers[issuer] = await discover(issuer, "", self._fetcher, self._clock)
        return known
