# SPDX-License-Identifier: Apache-2.0
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
from kubeloop.apiserver.nonresource.zpages import flagz_response, statusz_response
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import PageNotFound
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.controller_manager.flags import certificate_folder, flag_of
from kubeloop.cli.flags.tls import tls_options
from kubeloop.cli.pki.self_signed_certificate import ensure_self_signed
from kubeloop.cli.secure_port.authz import DelegatedAuthorizer
from kubeloop.client import Client
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.http import HttpLimits, HttpServer, Request, Response, serve
from kubeloop.http.tls import TlsOptionError, apply_tls_options
from kubeloop.metrics import HealthCheckMetrics, MetricRegistry
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
_SLIS = "/metrics/slis"

log = logging.getLogger(__name__)


class ManagerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Content of /loops."""

    identity: str
    leader: str
    leading: bool
    loops: tuple[LoopStatus, ...]


class StatusProvider(Protocol):
    """Content of the port's pages."""

    @property
    def component(self) -> str:
        """Upstream's name of the program."""

    def flags(self) -> Mapping[str, str]:
        """Return the values of the flags."""

    def checks(self) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
        """Return the process's checks, and one for each controller."""

    def metrics(self) -> str:
        """Return the metrics as text."""

    def metrics_pages(self) -> Mapping[str, MetricRegistry]:
        """Return the metrics of other paths."""

    def configz(self) -> Mapping[str, Any]:
        """Return the configuration."""

    def status(self) -> ManagerStatus:
        """Return the status of the controllers."""


class SecurePortHandler:
    """Handler of authorized requests."""

    def __init__(self, told: StatusProvider, access: DelegatedAuthorizer, clock: Clock) -> None:
        self._told = told
        self._clock = clock
        self._started = clock.now()
        self._access = access
        self._health_metrics = HealthCheckMetrics()
        self._pages: dict[str, Callable[[], Response]] = {
            "/metrics": lambda: Response(200, told.metrics().encode(), _METRICS),
            "/configz": lambda: Response(200, msgspec.json.encode(told.configz())),
            "/loops": lambda: Response(200, msgspec.json.encode(told.status())),
        }

    async def handle(self, request: Request) -> Response:
        """Authorize and answer a request."""
        try:
            await self._access.check(request)
            return self._page(request)
        except errors.ApiError as error:
            return Response(error.code, msgspec.json.encode(error.status()))
        except ClientError as error:
            log.warning("unable to authorize the request for %s: %s", request.path, error)
            return Response(500, b"the API server could not be asked whether this is allowed\n", _TEXT)

    def _page(self, request: Request) -> Response:
        if request.path == _SLIS:
            return Response(200, self._health_metrics.respond(request.method), _METRICS)
        if request.method not in ("GET", "HEAD"):
            raise errors.generic_server_response(405)
        if request.path.startswith(_HEALTH):
            return self._health(request)
        accept = request.headers.get("accept", "")
        if request.path == "/flagz":
            return flagz_response(self._told.component, self._told.flags(), accept)
        further = self._told.metrics_pages()
        if request.path in further:
            return Response(200, further[request.path].render().encode(), _METRICS)
        if request.path == "/statusz":
            paths = (*_HEALTH, *self._pages, *further, _SLIS, "/flagz", "/statusz")
            return statusz_response(self._told.component, self._started, self._clock.now(), paths, accept)
        page = self._pages.get(request.path)
        return page() if page is not None else Response(404, b"404 page not found\n", _TEXT)

    def _health(self, request: Request) -> Response:
        live, ready = self._told.checks()
        try:
            return HealthChecks(live, ready, metrics=self._health_metrics).handle(request.path, Query(request.query))
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
    pages = SecurePortHandler(told, access, clock)
    try:
        server = await serve(
            pages.handle,
            config.bind_address,
            config.secure_port,
            tls,
            HttpLimits(),
            clock,
            reuse_port=config.permit_port_sharing,
        )
    except OSError as error:
        raise StartupError(
            f"cannot listen on {config.bind_address}:{config.secure_port}: {error.strerror or error}"
        ) from None
    authorities = ClientCAs(tls, client.with_timeout(_LOOKUP_TIMEOUT), config)
    await authorities.refresh()
    following = asyncio.create_task(authorities.run(), name="trust in client certificates")
    return SecurePort(server, following)


def configz_of(config: ManagerConfig, running: Sequence[str], unused: Sequence[str]) -> dict[str, Any]:
    """Return all flags with their values; and those without effect."""
    flags = {flag_of(name).removeprefix("--"): getattr(config, name) for name in config.__struct_fields__}
    kubeloop = {"running": running, "flagsWithoutEffect": unused}
    return {CONFIGZ: {"flags": flags, "kubeloop": kubeloop}}


def _tls(config: ManagerConfig, clock: Clock) -> ssl.SSLContext:
    context = _new_tls_context()
    certificate, key = _pair(config, clock)
    try:
        context.load_cert_chain(certificate, key)
        if config.client_ca_file:
            context.load_verify_locations(config.client_ca_file)
            context.verify_mode = ssl.CERT_OPTIONAL
        options = tls_options(
            config.tls_min_version, config.tls_cipher_suites, config.tls_curve_preferences, config.tls_sni_cert_key
        )
        apply_tls_options(context, options, _new_tls_context)
    except TlsOptionError as error:
        raise StartupError(str(error)) from None
    except ssl.SSLError as error:
        raise StartupError(
            f"unable to load TLS files {certificate}, {key}, {config.client_ca_file}: {error.reason or error}"
        ) from None
    return context


def _new_tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _pair(config: ManagerConfig, clock: Clock) -> tuple[Path, Path]:
    if bool(config.tls_cert_file) != bool(config.tls_private_key_file):
        raise StartupError("--tls-cert-file and --tls-private-key-file must be given together")
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

    async def refresh(self) -> None:
        """Fetch once; failures are logged."""
        if self._is_given:
            return
        try:
            found = await self._client.get(ConfigMap, _AUTHENTICATION, "kube-system")
            self._trust(found.data.get("client-ca-file", ""))
        except (errors.ApiError, ClientError, ssl.SSLError, ValueError) as error:
            log.warning("unable to load the client CA; client certificates are rejected: %s", error)

    async def run(self) -> None:
        """Fetch repeatedly, more often until the first success."""
        while not self._is_given:
            await asyncio.sleep(_LOOKUP_SECONDS if self._known else _LOOKUP_RETRY)
            await self.refresh()

    def _trust(self, authorities: str) -> None:
        if authorities and authorities != self._known:
            self._tls.load_verify_locations(cadata=authorities)
            self._tls.verify_mode = ssl.CERT_OPTIONAL
            self._known = authorities
