# SPDX-License-Identifier: Apache-2.0
"""Credentials of one plugin: cached as its responses say; equal requests at a time share one run of the plugin.

image ─ matchImages? ─▶ token of the pod's service account, if wanted ─▶ cache ─▶ run of the plugin
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.clock import Clock
from kubeloop.kubelet.credentialprovider.docker_config import DockerConfig
from kubeloop.kubelet.credentialprovider.exec_plugin import PluginError, PluginRequest, PluginResponse
from kubeloop.kubelet.credentialprovider.keyring import NODE_SOURCE, CredentialSource, ObjectCoordinates
from kubeloop.kubelet.credentialprovider.plugin_tokens import PluginTokens, ServiceAccountIdentity
from kubeloop.kubelet.credentialprovider.provider_config import TOKEN_CACHE, CredentialProvider
from kubeloop.kubelet.credentialprovider.registry_url import is_match

_GLOBAL = "<global>"
_PURGE_SECONDS = 15 * 60.0

CacheKey = tuple[object, ...]


class CredentialPlugin(Protocol):
    """Program that responds to requests for credentials."""

    async def run(self, request: PluginRequest) -> PluginResponse:
        """Return the response. Raises `PluginError`."""


@dataclass(frozen=True, slots=True)
class _CachedConfig:
    config: DockerConfig
    expires_at: float


@dataclass(frozen=True, slots=True)
class _Identity:
    """Service account of a request; none of its fields is set without one."""

    token: str = ""
    account: ServiceAccountIdentity | None = None

    @property
    def token_hash(self) -> str:
        return sha256(self.token.encode()).hexdigest() if self.token else ""

    @property
    def annotations(self) -> dict[str, str]:
        return dict(self.account.annotations) if self.account is not None else {}

    @property
    def source(self) -> CredentialSource:
        if self.account is None:
            return NODE_SOURCE
        about = self.account
        return CredentialSource(service_account=ObjectCoordinates(about.uid, about.namespace, about.name))


class PluginProvider:
    """Provides the credentials of one plugin; `tokens` is None if service accounts are of no interest to it."""

    def __init__(
        self, provider: CredentialProvider, plugin: CredentialPlugin, tokens: PluginTokens | None, clock: Clock
    ) -> None:
        self.name = provider.name
        self._provider = provider
        self._plugin = plugin
        self._tokens = tokens
        self._clock = clock
        self._cache: dict[CacheKey, _CachedConfig] = {}
        self._purged_at = clock.monotonic()
        self._runs: dict[CacheKey, asyncio.Task[PluginResponse]] = {}

    async def provide(self, pod: Pod, image: str) -> tuple[DockerConfig, CredentialSource]:
        """Return the credentials of a plugin for an image without tag, and their source. Raises `PluginError`."""
        if not any(is_match(one, image) for one in self._provider.match_images):
            return {}, NODE_SOURCE
        identity = await self._identity_of(pod)
        if identity is None:
            return {}, NODE_SOURCE
        account_key = self._account_key(identity)
        cached = self._cached(image, account_key)
        if cached is not None:
            return cached, identity.source
        response = await self._run(PluginRequest(image, identity.token, identity.annotations), identity)
        self._check(response, identity)
        self._store(response, image, account_key)
        return response.config, identity.source

    async def _identity_of(self, pod: Pod) -> _Identity | None:
        """Return the service account that the plugin is to use; None if it is not asked for this pod."""
        attributes = self._provider.token_attributes
        if self._tokens is None or attributes is None:
            return _Identity()
        if not pod.spec.service_account_name:
            return None if attributes.require_service_account else _Identity()
        account = await self._tokens.read_account(pod, attributes)
        if account is None:
            return None
        token = await self._tokens.get(pod, account, attributes.service_account_token_audience)
        return _Identity(token, account)

    def _account_key(self, identity: _Identity) -> CacheKey:
        account, attributes = identity.account, self._provider.token_attributes
        if account is None or attributes is None:
            return ()
        key: CacheKey = (account.namespace, account.name, account.uid, account.annotations)
        return (*key, identity.token_hash) if attributes.cache_type == TOKEN_CACHE else key

    def _cached(self, image: str, account: CacheKey) -> DockerConfig | None:
        now = self._clock.monotonic()
        if now > self._purged_at + _PURGE_SECONDS:
            self._cache = {key: one for key, one in self._cache.items() if one.expires_at >= now}
            self._purged_at = now
        for base in (image, _registry_of(image), _GLOBAL):
            found = self._cache.get((base, account))
            if found is not None and found.expires_at >= now:
                return found.config
        return None

    async def _run(self, request: PluginRequest, identity: _Identity) -> PluginResponse:
        """Run the plugin, or wait for a run of the same request."""
        annotations = tuple(sorted(request.annotations.items()))
        key: CacheKey = (request.image, identity.token_hash, annotations)
        task = self._runs.get(key)
        if task is None:
            task = self._runs[key] = asyncio.create_task(self._plugin.run(request))
            task.add_done_callback(lambda done: self._on_run_end(key, done))
        try:
            return await asyncio.shield(task)
        except PluginError as error:
            raise PluginError(f"failed to get credential from external registry credential provider: {error}") from None

    def _on_run_end(self, key: CacheKey, task: asyncio.Task[PluginResponse]) -> None:
        del self._runs[key]
        if not task.cancelled():
            task.exception()  # all who have waited may be gone

    def _check(self, response: PluginResponse, identity: _Identity) -> None:
        attributes = self._provider.token_attributes
        if not identity.token or attributes is None or attributes.cache_type == TOKEN_CACHE:
            return
        if any(one.password == identity.token for one in response.config.values()):
            raise PluginError(
                "credential provider plugin returned the service account token as the password which is not allowed "
                "when service account cache type is not set to 'Token'"
            )

    def _store(self, response: PluginResponse, image: str, account: CacheKey) -> None:
        bases: dict[str, Callable[[str], str]] = {"Image": str, "Registry": _registry_of, "Global": lambda _: _GLOBAL}
        base = bases.get(response.cache_key_type)
        if base is None:
            raise PluginError(
                f"credential provider plugin did not return a valid cacheKeyType: {response.cache_key_type}"
            )
        seconds = response.cache_seconds
        if seconds is None:
            seconds = self._provider.default_cache_duration or 0.0
        if seconds:
            expires_at = self._clock.monotonic() + seconds
            self._cache[base(image), account] = _CachedConfig(response.config, expires_at)


def _registry_of(image: str) -> str:
    return image.partition("/")[0]
