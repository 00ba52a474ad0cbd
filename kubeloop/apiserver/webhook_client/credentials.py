"""Credentials of webhook clients: users of a kubeconfig."""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


class KubeconfigPart(msgspec.Struct, frozen=True, rename="kebab"):
    """Part of a kubeconfig; unknown fields are ignored."""


class WebhookCredentials(KubeconfigPart, frozen=True):
    """User of a kubeconfig: token, password or client certificate."""

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


def _as_file(path: str, data: str, spare: Path) -> Path:
    if not data:
        return Path(path)
    spare.touch(0o600)
    spare.write_bytes(decode_pem(data))
    return spare


def decode_pem(text: str) -> bytes:
    """Decode the base64 data of a kubeconfig; raises ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
