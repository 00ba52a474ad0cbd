# SPDX-License-Identifier: Apache-2.0
"""TLS contexts of a configuration; created on first use, and again when one of their files has changed."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

from kubeloop.client.config.credentials import ClientIdentity
from kubeloop.client.config.server_config import Pem, ServerConfig
from kubeloop.client.errors import ConfigError

_Signature = tuple[object, ...]


class TLSContextCache:
    """Cache of the current context."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._made: tuple[_Signature, ssl.SSLContext] | None = None

    def get(self, identity: ClientIdentity) -> ssl.SSLContext:
        """Return the context for an identity, rebuilt if a file has changed."""
        signature = (*map(_stamp, (self._config.authority, self._config.certificate, self._config.key)), identity.key)
        if self._made is None or self._made[0] != signature:
            self._made = (signature, make_context(self._config, identity))
        return self._made[1]


def make_context(config: ServerConfig, identity: ClientIdentity) -> ssl.SSLContext:
    """Build a context for TLS 1.2 or newer with the configured or system CAs and the client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif config.authority:
        _trust(context, config.authority)
    else:
        context.load_default_certs()
    if identity.certificate:
        _identify(context, Pem(data=identity.certificate), Pem(data=identity.key))
    elif config.certificate:
        _identify(context, config.certificate, config.key)
    return context


def _trust(context: ssl.SSLContext, authority: Pem) -> None:
    try:
        text = authority.data or Path(authority.file).read_bytes()
        context.load_verify_locations(cadata=text.decode("ascii"))
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(
            f"the certificate authority ({_source(authority)}) cannot be used: {_error_text(error)}"
        ) from None
    except ValueError as error:
        raise ConfigError(f"the certificate authority ({_source(authority)}) is not PEM: {error}") from None


def _identify(context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
    # OpenSSL reads these from files only; the file is private and deleted after loading.
    with tempfile.TemporaryDirectory(prefix="kubeloop-") as folder:
        try:
            context.load_cert_chain(_as_file(certificate, Path(folder, "crt")), _as_file(key, Path(folder, "key")))
        except OSError as error:
            sources = f"{_source(certificate)}, {_source(key)}"
            raise ConfigError(
                f"the client certificate and key ({sources}) cannot be used: {_error_text(error)}"
            ) from None


def _as_file(pem: Pem, spare: Path) -> Path:
    if not pem.data:
        return Path(pem.file)
    with open(os.open(spare, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as out:
        out.write(pem.data)
    return spare


def _stamp(pem: Pem) -> object:
    """Return a value that changes when the file does; None for a file that is missing."""
    if pem.data or not pem.file:
        return None
    try:
        found = os.stat(pem.file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _source(pem: Pem) -> str:
    return pem.file or "given inline"


def _error_text(error: OSError) -> str:
    return str(getattr(error, "reason", "") or error.strerror or error)
