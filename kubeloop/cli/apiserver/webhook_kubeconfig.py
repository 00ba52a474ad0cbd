# SPDX-License-Identifier: Apache-2.0
"""Kubeconfig files of webhooks: servers, authorities and credentials, read by the client's own loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kubeloop.apiserver.webhook_client.credentials import WebhookUsers
from kubeloop.apiserver.webhook_client.review_client import ReviewCredentials
from kubeloop.client.config.credentials import credentials_of
from kubeloop.client.config.kubeconfig import merge, read_file, resolve
from kubeloop.client.config.server_config import ServerConfig
from kubeloop.client.errors import ConfigError, CredentialError
from kubeloop.client.http.tls import TLSContextCache
from kubeloop.clock import Clock

_EMPTY: Final = (
    "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)


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


class WebhookKubeconfigReader:
    """Reader of the kubeconfig files of webhooks (`KubeconfigReader`)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def endpoint(self, path: Path) -> ReviewKubeconfig:
        """Return the server and the user of a file's current context; raises ValueError."""
        merged = _read(path)
        if not merged["contexts"] and not merged["clusters"]:
            raise ValueError(_EMPTY)
        try:
            return ReviewKubeconfig(resolve(merged, "", str(path)), self._clock)
        except ConfigError as error:
            raise ValueError(str(error)) from None

    def users(self, path: Path) -> WebhookUsers:
        """Return all users of a file; raises ValueError."""
        merged = _read(path)
        context = merged["contexts"].get(merged.get("current-context", ""), {})
        try:
            return WebhookUsers(merged["users"], context.get("user", ""))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _read(path: Path) -> dict[str, Any]:
    """Read a file; raises ValueError, with upstream's message if there is none."""
    try:
        path.stat()
        return merge([(path, read_file(path))])
    except OSError as error:
        raise ValueError(f"stat {path}: {(error.strerror or '').lower()}") from None
    except ConfigError as error:
        raise ValueError(str(error)) from None
