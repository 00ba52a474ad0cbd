"""Kubeconfig files of webhooks: server, authority and credentials, read by the client's own loader."""

from __future__ import annotations

from pathlib import Path

from kubeloop.apiserver.webhook_client.review_client import KubeconfigLoader, ReviewCredentials
from kubeloop.client.config.credentials import credentials_of
from kubeloop.client.config.kubeconfig import load_files
from kubeloop.client.config.server_config import ServerConfig
from kubeloop.client.errors import ConfigError, CredentialError
from kubeloop.client.http.tls import TLSContextCache
from kubeloop.clock import Clock


class ReviewKubeconfig:
    """Server and user of one kubeconfig file; certificates and tokens are read again when their files change."""

    def __init__(self, config: ServerConfig, clock: Clock) -> None:
        self.url = config.server
        self.server_name = config.server_name
        self._credentials = credentials_of(config, clock)
        self._contexts = TLSContextCache(config)
        self._is_plain = config.server.startswith("http://")

    async def credentials(self) -> ReviewCredentials:
        """Return the current TLS context and Authorization header."""
        try:
            identity = await self._credentials.get_identity()
            context = None if self._is_plain else self._contexts.get(identity)
        except (ConfigError, CredentialError) as error:
            raise ValueError(str(error)) from None
        return ReviewCredentials(context, f"Bearer {identity.token}" if identity.token else "")


def kubeconfig_loader(clock: Clock) -> KubeconfigLoader:
    """Return a function that reads the kubeconfig file of a webhook; it raises ValueError."""

    def load(path: Path) -> ReviewKubeconfig:
        try:
            return ReviewKubeconfig(load_files([path], must_exist=True), clock)
        except ConfigError as error:
            raise ValueError(str(error)) from None

    return load
