# SPDX-License-Identifier: Apache-2.0
"""Credentials of a client: a fixed token, a token file that rotates, or those of an exec plugin."""

from __future__ import annotations

import os
from typing import NamedTuple, Protocol

from kubeloop.client.config.server_config import ServerConfig
from kubeloop.client.errors import CredentialError
from kubeloop.clock import Clock


class ClientIdentity(NamedTuple):
    """Bearer token, and a client certificate if the credentials include one."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""


NO_IDENTITY = ClientIdentity()


class Credentials(Protocol):
    """Source of identities."""

    async def get_identity(self) -> ClientIdentity:
        """Return the current identity."""

    def invalidate(self, identity: ClientIdentity) -> None:
        """Invalidate an identity that the server answered with 401."""

    def close(self) -> None:
        """Stop whatever is still running."""


class StaticCredentials:
    """Credentials that never change."""

    def __init__(self, token: str = "") -> None:
        self._identity = ClientIdentity(token)

    async def get_identity(self) -> ClientIdentity:
        """Return the fixed identity."""
        return self._identity

    def invalidate(self, identity: ClientIdentity) -> None:
        """Do nothing: there is no other identity."""

    def close(self) -> None:
        """Do nothing: nothing runs."""


class TokenFileCredentials:
    """Token in a file that another program renews; the last good one is kept while the file is unreadable."""

    def __init__(self, path: str, fallback: str = "") -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._identity = ClientIdentity(fallback)

    async def get_identity(self) -> ClientIdentity:
        """Return the token, read again if the file has changed."""
        try:
            found = os.stat(self._path)
            stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
            if stamp != self._stamp:
                self._read()
                self._stamp = stamp
        except OSError as error:
            if not self._identity.token:
                raise CredentialError(f"no token can be read from {self._path}: {error.strerror}") from None
        return self._identity

    def _read(self) -> None:
        with open(self._path, encoding="utf-8") as file:
            token = file.read().strip()
        if token:
            self._identity = ClientIdentity(token)
        elif not self._identity.token:
            raise CredentialError(f"the token file {self._path} is empty")

    def invalidate(self, identity: ClientIdentity) -> None:
        """Read the file again on the next request."""
        self._stamp = None

    def close(self) -> None:
        """Do nothing: nothing runs."""


def credentials_of(config: ServerConfig, clock: Clock) -> Credentials:
    """Return the credentials of a configuration: token file before token before exec plugin, as in client-go."""
    if config.token_file:
        return TokenFileCredentials(config.token_file, config.token)
    if config.token or config.certificate or config.exec_plugin is None:
        return StaticCredentials(config.token)
    from kubeloop.client.config.exec_plugin import ExecCredentials

    return ExecCredentials(config.exec_plugin, clock)
