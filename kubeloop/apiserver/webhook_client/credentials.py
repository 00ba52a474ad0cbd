# SPDX-License-Identifier: Apache-2.0
"""Credentials of webhook clients: users of a kubeconfig."""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

_HTTPS = 443


class WebhookCredentials(msgspec.Struct, frozen=True, rename="kebab"):
    """User of a kubeconfig: token, password or client certificate; unknown fields are ignored."""

    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the Authorization header; a token precedes a password."""
        if self.token or self.token_file:
            token = self.token or Path(self.token_file).read_text().strip()
            yield "Authorization", f"Bearer {token}"
        elif self.username or self.password:
            encoded = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            yield "Authorization", f"Basic {encoded}"

    def add_certificate(self, context: ssl.SSLContext) -> None:
        """Add the client certificate to a TLS context, if there is one."""
        if not self.client_certificate and not self.client_certificate_data:
            return
        # OpenSSL reads these from files only; the folder is private and deleted after loading.
        with tempfile.TemporaryDirectory(prefix="kubeloop-") as folder:
            certificate = _as_file(self.client_certificate, self.client_certificate_data, Path(folder, "crt"))
            key = _as_file(self.client_key, self.client_key_data, Path(folder, "key"))
            context.load_cert_chain(certificate, key)


class WebhookUsers:
    """Users of a kubeconfig, chosen by the server that is called."""

    def __init__(self, users: Mapping[str, Mapping[str, Any]], current: str) -> None:
        """Take the users of a file by their names, and the one of its current context; raises ValueError."""
        try:
            self._users = {name: msgspec.convert(user, WebhookCredentials) for name, user in users.items()}
        except msgspec.ValidationError as error:
            raise ValueError(f"invalid user: {error}") from None
        for name, user in self._users.items():
            if user.exec is not None or user.auth_provider is not None:
                raise ValueError(f"user {name}: credentials of plugins are not supported")
        self._current = self._users.get(current, WebhookCredentials())

    def credentials_for(self, host_port: str) -> WebhookCredentials:
        """Return the user for a server: by its name, a wildcard of its domain, `*`, or of the current context."""
        found = (self._users[name] for name in _user_names(host_port) if name in self._users)
        return next(found, self._current)


def _user_names(host_port: str) -> Iterator[str]:
    """Yield the names under which a kubeconfig may have the user for a server, the most specific first."""
    host, _, port = host_port.rpartition(":")
    for target in (host_port, host) if port == str(_HTTPS) else (host_port,):
        yield target
        labels = target.split(".")
        yield from ("*." + ".".join(labels[index:]) for index in range(1, len(labels)))
    yield "*"


def _as_file(path: str, data: str, spare: Path) -> Path:
    if not data:
        return Path(path)
    spare.touch(0o600)
    spare.write_bytes(_decode_pem(data))
    return spare


def _decode_pem(text: str) -> bytes:
    """Decode the base64 data of a kubeconfig; raises ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
