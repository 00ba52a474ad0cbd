# SPDX-License-Identifier: Apache-2.0
"""Provider of tokens: discovery document and key set, fetched over HTTPS; keys are fetched again for unknown ones."""

from __future__ import annotations

import asyncio
import re
import ssl
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.aggregator.endpoints import HostPort
from kubeloop.apiserver.authentication.oidc.keys import IssuerKey, ParsedToken, matching_keys, parse_key_set
from kubeloop.apiserver.webhook_client.client import WebhookHttpClient, WebhookHttpResponse
from kubeloop.clock import Clock

WELL_KNOWN: Final = "/.well-known/openid-configuration"
_SECONDS: Final = 30.0
_EXPIRY_DELTA: Final = timedelta(seconds=30)
_MAX_AGE: Final = re.compile(r"max-age=(\d+)")


class ProviderError(Exception):
    """Error for a provider that cannot be reached, or whose documents are wrong."""


class HttpsFetcher:
    """Fetches documents over HTTPS, with the given authorities (PEM) or the system's."""

    def __init__(self, authorities: str) -> None:
        self._authorities = authorities
        self._clients: dict[str, WebhookHttpClient] = {}

    async def get(self, url: str, authorization: str = "") -> WebhookHttpResponse:
        """Return the response; raises ProviderError."""
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise ProviderError(f'Get "{url}": unsupported protocol scheme "{parts.scheme}"')
        client = self._clients.get(parts.netloc)
        if client is None:
            address = HostPort(parts.hostname, parts.port or 443)
            client = WebhookHttpClient(parts.netloc, lambda: address, self._context, parts.hostname)
            self._clients[parts.netloc] = client
        headers = [("Accept", "application/json, */*"), ("User-Agent", "kube-apiserver")]
        if authorization:
            headers.append(("Authorization", authorization))
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        try:
            return await client.request("GET", target, headers, b"", _SECONDS)
        except RemoteUnreachable as error:
            raise ProviderError(f'Get "{url}": {error}') from None

    def close(self) -> None:
        """Close the idle connections."""
        for client in self._clients.values():
            client.close()

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self._authorities:
            context.load_verify_locations(cadata=self._authorities)
        else:
            context.load_default_certs()
        return context


class Provider:
    """Issuer whose discovery document has been read, with its keys."""

    def __init__(self, issuer: str, keys_url: str, fetcher: HttpsFetcher, clock: Clock) -> None:
        self.issuer = issuer
        self._keys_url = keys_url
        self._fetcher = fetcher
        self._clock = clock
        self._keys: list[IssuerKey] = []
        self._expiry = clock.now()
        self._fetch: asyncio.Task[list[IssuerKey]] | None = None

    async def verify(self, token: ParsedToken) -> None:
        """Verify the signature; raises ProviderError. Keys are fetched if no known one fits and they have expired."""
        if _is_signed(token, self._keys):
            return
        if self._clock.now() + _EXPIRY_DELTA <= self._expiry:
            raise ProviderError("failed to verify id token signature")
        if not _is_signed(token, await self._fetch_keys()):
            raise ProviderError("failed to verify id token signature")

    async def _fetch_keys(self) -> list[IssuerKey]:
        """Fetch the keys; those who ask meanwhile share the request."""
        if self._fetch is None:
            self._fetch = asyncio.create_task(self._request_keys())
            self._fetch.add_done_callback(self._forget_fetch)
        return await asyncio.shield(self._fetch)

    def _forget_fetch(self, _: asyncio.Task[list[IssuerKey]]) -> None:
        self._fetch = None

    async def _request_keys(self) -> list[IssuerKey]:
        try:
            response = await self._fetcher.get(self._keys_url)
        except ProviderError as error:
            raise ProviderError(f"fetching keys oidc: get keys failed {error}") from None
        if response.status != 200:
            text = response.body.decode("utf-8", "replace")
            raise ProviderError(f"fetching keys oidc: get keys failed: {response.status} {text}")
        try:
            keys = parse_key_set(_decode(response))
        except ValueError as error:
            raise ProviderError(f"fetching keys oidc: failed to decode keys: {error}") from None
        self._keys = keys
        self._expiry = self._clock.now() + timedelta(seconds=_max_age(response))
        return keys


async def discover(issuer: str, discovery_url: str, fetcher: HttpsFetcher, clock: Clock) -> Provider:
    """Read the discovery document of an issuer; raises ProviderError."""
    response = await fetcher.get(discovery_url or issuer.removesuffix("/") + WELL_KNOWN)
    if response.status != 200:
        raise ProviderError(f"{response.status}: {response.body.decode('utf-8', 'replace')}")
    try:
        document = _decode(response)
    except ValueError as error:
        raise ProviderError(f"oidc: failed to decode provider discovery object: {error}") from None
    said = document.get("issuer", "") if isinstance(document, dict) else ""
    if said != issuer:
        raise ProviderError(
            "oidc: issuer did not match the issuer returned by provider, "
            f"expected {quote(issuer)} got {quote(str(said))}"
        )
    keys_url = document.get("jwks_uri")
    if not isinstance(keys_url, str) or not keys_url:
        raise ProviderError("provider did not return JWKS URL")
    return Provider(issuer, keys_url, fetcher, clock)


def _is_signed(token: ParsedToken, keys: list[IssuerKey]) -> bool:
    return any(one.verifies(token) for one in matching_keys(keys, token.key_id))


def _decode(response: WebhookHttpResponse) -> Any:
    try:
        return msgspec.json.decode(response.body)
    except msgspec.MsgspecError as error:
        raise ValueError(f"could not unmarshal as JSON: {error}") from None


def _max_age(response: WebhookHttpResponse) -> int:
    """Return the seconds for which a response may be cached; 0 without a Cache-Control header that says so."""
    control = next((value for name, value in response.headers if name.lower() == "cache-control"), "").lower()
    found = _MAX_AGE.search(control)
    return int(found[1]) if found is not None and "no-store" not in control and "no-cache" not in control else 0
