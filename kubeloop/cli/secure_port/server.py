"""HTTPS port of a manager: /healthz, /livez, /readyz, /metrics, /configz, and /loops for the status command."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.apiserver.nonresource.health import Check, HealthChecks
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import PageNotFound
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.controller_manager.flags import certificate_folder, flag_of
from kubeloop.cli.pki.self_signed import ensure_self_signed
from kubeloop.cli.secure_port.authz import DelegatedAuthorizer
from kubeloop.client import Client
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.http import HttpLimits, HttpServer, Request, Response, serve
from kubeloop.runtime.manager import LoopStatus

# Upstream's name of what /configz shows.
CONFIGZ = "kubecontrollermanager.config.k8s.io"
PAIR = "kube-controller-manager"
_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_CLOSE_SECONDS = 2.0
_LOOKUP_SECONDS = 60.0  # between two reads of the cluster's client CAs
_LOOKUP_RETRY = 2.0
_LOOKUP_TIMEOUT = 5.0
_AUTHENTICATION = "extension-apiserver-authentication"
_HEALTH = ("/healthz", "/livez", "/readyz")

log = logging.getLogger(__name__)


class ManagerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Content of /loops."""

    identity: str
    leader: str
    leading: bool
    loops: tuple[LoopStatus, ...]
    not_yet_available: tuple[str, ...]


class StatusProvider(Protocol):
    """Content of the port's pages."""

    def checks(self) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
        """Return the process's checks, and one for each controller."""

    def metrics(self) -> str:
        """Return the metrics as text."""

    def configz(self) -> Mapping[str, Any]:
        """Return the configuration."""

    def status(self) -> ManagerStatus:
        """Return the status of the controllers."""


class SecurePortHandler:
    """Handler of authorized requests."""

    def __init__(self, told: StatusProvider, access: DelegatedAuthorizer) -> None:
        self._told = told
        self._access = access
        self._pages: dict[str, Callable[[], Response]] = {
            "/metrics": lambda: Response(200, told.metrics().encode(), _METRICS),
            "/configz": lambda: Response(200, msgspec.json.encode(told.configz())),
            "/loops": lambda: Response(200, msgspec.json.encode(told.status())),
        }

    async def answer(self, request: Request) -> Response:
        """Authorize and answer a request."""
        await asyncio.sleep(0)  # from here on this is a task, which asking the API server needs
        try:
            await self._access.check(request)
            return self._page(request)
        except errors.ApiError as error:
            return Response(error.code, msgspec.json.encode(error.status()))
        except ClientError as error:
            log.warning("the API server could not be asked who may see %s: %s", request.path, error)
            return Response(500, b"the API server could not be asked whether this is allowed\n", _TEXT)

    def _page(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise errors.generic_server_response(405)
        if request.path.startswith(_HEALTH):
            return self._health(request)
        page = self._pages.get(request.path)
        return page() if page is not None else Response(404, b"404 page not found\n", _TEXT)

    def _health(self, request: Request) -> Response:
        live, ready = self._told.checks()
        try:
            return HealthChecks(live, ready).answer(request.path, Query(request.query))
        except (PageNotFound, KeyError):
            return Response(404, b"404 page not found\n", _TEXT)


class SecurePort:
    """Listening port; created by `open_port`."""

    def __init__(self, server: HttpServer, following: asyncio.Task[None]) -> None:
        self.port = server.port
        self._server = server
        self._following = following

    async def close(self) -> None:
        """Stop listening."""
        self._following.cancel()
        await asyncio.wait((self._following,))
        await self._server.close(_CLOSE_SECONDS)


async def open_port(
    told: StatusProvider, access: DelegatedAuthorizer, client: Client, config: ManagerConfig, clock: Clock
) -> SecurePort:
    """Listen as configured; the client fetches the CAs for client certificates."""
    tls = _tls(config, clock)
    pages = SecurePortHandler(told, access)
    try:
        server = await serve(pages.answer, config.bind_address, config.secure_port, tls, HttpLimits(), clock)
    except OSError as error:
        raise StartupError(
            f"cannot listen on {config.bind_address}:{config.secure_port}: {error.strerror or error}"
        ) from None
    authorities = ClientCAs(tls, client.with_timeout(_LOOKUP_TIMEOUT), config)
    await authorities.look()
    following = asyncio.create_task(authorities.follow(), name="trust in client certificates")
    return SecurePort(server, following)


def configz_of(
    config: ManagerConfig, running: Sequence[str], missing: Sequence[str], unused: Sequence[str]
) -> dict[str, Any]:
    """Return all flags with their values; and those without effect."""
    flags = {flag_of(name).removeprefix("--"): getattr(config, name) for name in config.__struct_fields__}
    kubeloop = {"running": running, "notYetAvailable": missing, "flagsWithoutEffect": unused}
    return {CONFIGZ: {"flags": flags, "kubeloop": kubeloop}}


def _tls(config: ManagerConfig, clock: Clock) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = (
        ssl.TLSVersion.TLSv1_3 if config.tls_min_version == "VersionTLS13" else ssl.TLSVersion.TLSv1_2
    )
    context.set_alpn_protocols(["http/1.1"])
    certificate, key = _pair(config, clock)
    try:
        context.load_cert_chain(certificate, key)
        if config.client_ca_file:
            context.load_verify_locations(config.client_ca_file)
            context.verify_mode = ssl.CERT_OPTIONAL
    except ssl.SSLError as error:
        raise StartupError(
            f"TLS cannot be set up from {certificate}, {key}, {config.client_ca_file}: {error.reason or error}"
        ) from None
    return context


def _pair(config: ManagerConfig, clock: Clock) -> tuple[Path, Path]:
    if bool(config.tls_cert_file) != bool(config.tls_private_key_file):
        raise StartupError("--tls-cert-file and --tls-private-key-file need each other")
    if config.tls_cert_file:
        return Path(config.tls_cert_file), Path(config.tls_private_key_file)
    folder = Path(config.cert_dir) if config.cert_dir else certificate_folder()
    return ensure_self_signed(folder, PAIR, ("localhost", "127.0.0.1", "::1"), clock.now())


class ClientCAs:
    """Client CAs of the API server, which the port trusts once they were fetched."""

    def __init__(self, tls: ssl.SSLContext, client: Client, config: ManagerConfig) -> None:
        self._tls = tls
        self._client = client
        self._is_given = bool(config.client_ca_file) or config.authentication_skip_lookup
        self._known = ""

    async def look(self) -> None:
        """Fetch once; failures are logged."""
        if self._is_given:
            return
        try:
            found = await self._client.get(ConfigMap, _AUTHENTICATION, "kube-system")
            self._trust(found.data.get("client-ca-file", ""))
        except (errors.ApiError, ClientError, ssl.SSLError, ValueError) as error:
            log.warning("client certificates are not accepted yet: %s", error)

    async def follow(self) -> None:
        """Fetch repeatedly, more often until the first success."""
        while not self._is_given:
            await asyncio.sleep(_LOOKUP_SECONDS if self._known else _LOOKUP_RETRY)
            await self.look()

    def _trust(self, authorities: str) -> None:
        if authorities and authorities != self._known:
            self._tls.load_verify_locations(cadata=authorities)
            self._tls.verify_mode = ssl.CERT_OPTIONAL
            self._known = authorities
