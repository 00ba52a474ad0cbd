"""Who we are to the server at this moment: a fixed token, a token file that rotates, or what a plugin gave."""

from __future__ import annotations

import os
from typing import NamedTuple, Protocol

from kubeloop.client.config.server_config import ServerConfig
from kubeloop.client.errors import CredentialError
from kubeloop.clock import Clock


class Identity(NamedTuple):
    """A bearer token, and a client certificate where credentials bring one of their own."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""


NOBODY = Identity()


class Credentials(Protocol):
    """Where identities come from."""

    async def identity(self) -> Identity:
        """The present one."""

    def rejected(self, identity: Identity) -> None:
        """The server answered 401 to it: don't hand it out again without looking."""

    def close(self) -> None:
        """End what is still running."""


class Fixed:
    """What never changes."""

    def __init__(self, token: str = "") -> None:
        self._identity = Identity(token)

    async def identity(self) -> Identity:
        return self._identity

    def rejected(self, identity: Identity) -> None:
        """There is no other."""

    def close(self) -> None:
        """Nothing runs."""


class TokenFile:
    """A token that something else renews in a file; the last good one holds while the file cannot be read."""

    def __init__(self, path: str, fallback: str = "") -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._identity = Identity(fallback)

    async def identity(self) -> Identity:
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
            self._identity = Identity(token)
        elif not self._identity.token:
            raise CredentialError(f"the token file {self._path} is empty")

    def rejected(self, identity: Identity) -> None:
        self._stamp = None

    def close(self) -> None:
        """Nothing runs."""


def credentials_of(config: ServerConfig, clock: Clock) -> Credentials:
    """A token file counts more than a token, and either more than a plugin, as in client-go."""
    if config.token_file:
        return TokenFile(config.token_file, config.token)
    if config.token or config.certificate or config.exec_plugin is None:
        return Fixed(config.token)
    from kubeloop.client.config.exec_plugin import ExecPlugin

    return ExecPlugin(config.exec_plugin, clock)
