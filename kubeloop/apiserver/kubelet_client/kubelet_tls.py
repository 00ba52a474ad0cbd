# SPDX-License-Identifier: Apache-2.0
"""Mutual TLS between this server and kubelets.

This server presents its client certificate. The kubelet must present one of these:
- a certificate signed by the authority of --kubelet-certificate-authority, for the dialled address;
- without that flag: one that this server's own authority has signed for the node (`system:node:NAME`), or the one
  whose fingerprint the Node object has. The latter must not be signed by our authority for another identity, such as an
  API server: a node could otherwise redirect our requests there.
"""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.kubelet_requests import SERVING_CERTIFICATE_ANNOTATION
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable, UnknownAuthority, UnverifiedCertificate, dial
from kubeloop.apiserver.aggregator.endpoints import HostPort
from kubeloop.apiserver.kubelet_client.kubelet_address import ADDRESS_TYPES
from kubeloop.http.client import HttpClientConnection

_NODE_USER = "system:node:"
_MISMATCH = "tls: failed to verify certificate: x509: certificate is valid for {}, not {}"
_NOT_PINNED = "tls: failed to verify certificate: x509: certificate does not match the one recorded in the Node object"
_MAX_PINS = 10_000
_PEM_END = "-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class KubeletClientConfig:
    """Kubelet client configuration; times in seconds."""

    certificate: Path | None = None  # this server's client certificate for kubelets
    key: Path | None = None
    authority: Path | None = None  # --kubelet-certificate-authority: trusted for any host
    own_authority: Path | None = None  # trusted for nodes only
    insecure: bool = False  # trust any certificate, as upstream does without an authority
    address_types: tuple[str, ...] = ADDRESS_TYPES
    timeout: float = 5.0
    allow_local_addresses: bool = False  # forward requests to nodes at loopback and link-local addresses, too
    serving_certificate: Path | None = None  # this server's own, by which it recognises itself


class _Route(NamedTuple):
    """Address that a certificate has to be valid for, and the resolved one to connect to."""

    address: HostPort
    dialled: HostPort


class _Checks(Enum):
    """Checks of a certificate during the handshake."""

    NOTHING = 0
    CHAIN = 1  # signed by an authority
    HOST = 2  # and valid for the dialled host


class KubeletDialer:
    """Opens verified connections to kubelets."""

    def __init__(self, config: KubeletClientConfig) -> None:
        self._config = config
        self._contexts: dict[_Checks, tuple[object, ssl.SSLContext]] = {}
        self._pinned: set[str] = set()  # certificates that our authority is known not to have signed

    async def connect(
        self, node: Node, address: HostPort, *, insecure: bool = False, dialled: HostPort | None = None
    ) -> HttpClientConnection:
        """Return a connection to the kubelet of this very node; raises `RemoteUnreachable`.

        `dialled` is the resolved address, if it was resolved before. Raises BadRequest if the node is this server.
        """
        config = self._config
        route = _Route(address, dialled or address)
        if insecure or config.insecure:
            return self._require_other(await self._dial(route, _Checks.NOTHING))
        if config.authority is not None:
            return self._require_other(await self._dial(route, _Checks.HOST))
        pin = node.metadata.annotations.get(SERVING_CERTIFICATE_ANNOTATION, "")
        if pin in self._pinned and (connection := await self._dial_pinned(route, pin)) is not None:
            return connection
        try:
            return _require_node_identity(await self._dial(route, _Checks.CHAIN), node.metadata.name)
        except UnknownAuthority:
            if not pin:
                raise
        connection = await self._dial_pinned(route, pin)
        if connection is None:
            raise UnverifiedCertificate(_NOT_PINNED)
        if len(self._pinned) >= _MAX_PINS:
            self._pinned.clear()
        self._pinned.add(pin)
        return connection

    def _require_other(self, connection: HttpClientConnection) -> HttpClientConnection:
        """Return the connection, unless it leads to this very server: that would believe its own certificate."""
        own = self._config.serving_certificate
        shown = connection.get_extra_info("ssl_object").getpeercert(True)
        if own is not None and own.is_file() and shown == ssl.PEM_cert_to_DER_cert(_first_pem(own.read_text())):
            connection.abort()
            raise errors.bad_request("address not allowed")
        return connection

    async def _dial_pinned(self, route: _Route, pin: str) -> HttpClientConnection | None:
        """Return a connection if the pinned certificate is presented, else None."""
        connection = await self._dial(route, _Checks.NOTHING)
        shown = connection.get_extra_info("ssl_object").getpeercert(True)
        if pin != fingerprint(shown or b""):
            connection.abort()
            return None
        return connection

    async def _dial(self, route: _Route, checks: _Checks) -> HttpClientConnection:
        return await dial(*route.dialled, self._context(checks), route.address.host, self._config.timeout)

    def _context(self, checks: _Checks) -> ssl.SSLContext:
        """Return the TLS context; its files are read again after a change."""
        config = self._config
        files = (config.authority or config.own_authority, config.certificate, config.key)
        stamp = tuple(map(_stamp, files))
        known = self._contexts.get(checks)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            made = _context_of(config, checks)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise RemoteUnreachable(f"unable to load the kubelet client certificates: {error}") from None
        self._contexts[checks] = stamp, made
        return made


def fingerprint(certificate: bytes) -> str:
    """Return a certificate's fingerprint as in Node objects."""
    return f"sha256:{hashlib.sha256(certificate).hexdigest()}"


def _context_of(config: KubeletClientConfig, checks: _Checks) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.check_hostname = checks is _Checks.HOST
    if checks is _Checks.NOTHING:
        context.verify_mode = ssl.CERT_NONE
    elif (authority := config.authority or config.own_authority) is not None:
        context.load_verify_locations(authority)
    if config.certificate is not None:
        context.load_cert_chain(config.certificate, config.key)
    return context


def _first_pem(text: str) -> str:
    """Return the first certificate of a file, which is the server's own."""
    return text.partition(_PEM_END)[0] + _PEM_END


def _stamp(path: Path | None) -> object:
    try:
        return path.stat().st_mtime_ns if path is not None else None
    except OSError:
        return None


def _require_node_identity(connection: HttpClientConnection, node: str) -> HttpClientConnection:
    """Return the connection if its certificate names the node; else close it and raise `RemoteUnreachable`."""
    peer: Any = connection.get_extra_info("peercert") or {}
    names = [value for part in peer.get("subject", ()) for key, value in part if key == "commonName"]
    if names != [f"{_NODE_USER}{node}"]:
        connection.abort()
        raise UnverifiedCertificate(_MISMATCH.format(", ".join(names), f"{_NODE_USER}{node}"))
    return connection
