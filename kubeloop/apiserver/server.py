"""Running API server: starts and stops store, application, listener and background jobs in the right order."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kubeloop.api.features.resource_config import APIResourceConfig
from kubeloop.apiserver.admission import default_chain
from kubeloop.apiserver.admission.lookup import RegistryLookup
from kubeloop.apiserver.admission.plugins.quota.quota_ledger import StoreQuotaAccessor
from kubeloop.apiserver.aggregator.lazy import AggregatorConfig
from kubeloop.apiserver.app import ApiServer, rejection_response
from kubeloop.apiserver.authentication import (
    Authenticator,
    RequestHeaderAuthenticator,
    RequestHeaderConfig,
    TokenAuthenticator,
    read_token_file,
)
from kubeloop.apiserver.authentication.bootstrap_tokens import BootstrapTokenAuthenticator
from kubeloop.apiserver.authentication.service_accounts import lazy_token_authenticator
from kubeloop.apiserver.authorization import DEFAULT_MODES, authorizer_of
from kubeloop.apiserver.background.compaction import Compactor
from kubeloop.apiserver.background.event_expiry import EVENTS_PREFIX, EventExpiry
from kubeloop.apiserver.background.periodic import PeriodicJob
from kubeloop.apiserver.bootstrap import (
    BootstrapOptions,
    access_objects,
    essential_objects,
    extension_apiserver_authentication,
    remaining_objects,
)
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.measures import CounterFamily
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.peers.register import register_server
from kubeloop.apiserver.registry.allocation import DEFAULT_RANGES, ServiceRanges
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.auditing_tls import AuditingSSLContext
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.fault_injection import FaultInjector
from kubeloop.clock import Clock
from kubeloop.http import HttpHooks, HttpLimits, HttpServer, serve
from kubeloop.store import Store, open_store
from kubeloop.store.backup.formats import ensure_format

if TYPE_CHECKING:
    from kubeloop.apiserver.audit import Auditor
    from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens

log = logging.getLogger(__name__)

# Queue length: writes that wait for a seat, per seat.
_WAITING_PER_SEAT = 5
_FINISH_SECONDS = 3.0
# Prefix of encrypted values in a store: there may be some even without an encryption configuration.
_ENCRYPTED = b"k8s:enc:"
# Default roles and bindings (same names) of unauthenticated and authenticated users: discovery, public info.
_PUBLIC_BINDINGS = frozenset({"system:basic-user", "system:discovery", "system:public-info-viewer"})


class StartupError(Exception):
    """Error that prevents the server from starting; the message is one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class ServiceAccountTokenConfig:
    """Signing keys, issuers and audiences of service account tokens."""

    key: Path
    issuers: tuple[str, ...] = ("https://kubernetes.default.svc",)  # the first one signs, all are accepted
    audiences: tuple[str, ...] = ()  # default: the issuers
    keys_uri: str = ""
    further_keys: tuple[Path, ...] = ()  # public keys that are accepted besides the signing key


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """Audit policy file and log path (`-`: standard output); zero limits mean the log's defaults."""

    policy: Path
    path: str
    megabytes: int = 0
    backups: int = 0
    days: int = 0


@dataclass(frozen=True, slots=True)
class ApiServerConfig:
    """Configuration of an API server; times in seconds."""

    store: str = "memory"
    host: str = "127.0.0.1"
    port: int = 6443
    advertise_address: str = ""
    certificate: Path | None = None
    key: Path | None = None
    client_authorities: tuple[Path, ...] = ()
    token_file: Path | None = None
    anonymous: bool = True
    authorization_modes: tuple[str, ...] = DEFAULT_MODES
    accounts: ServiceAccountTokenConfig | None = None  # without it, service accounts have no tokens
    bootstrap_tokens: bool = False
    audit: AuditConfig | None = None
    writes_in_flight: int = 200
    reads_in_flight: int = 400  # reads + writes in flight are the total seats of priority and fairness
    fairness: bool = True
    compaction_interval: float = 300.0
    event_ttl: float = 3600.0
    shutdown_delay: float = 0.0
    services: ServiceRanges = DEFAULT_RANGES
    serving: APIResourceConfig = field(default_factory=APIResourceConfig)
    front_proxy: RequestHeaderConfig | None = None  # request-header authentication of the front proxy
    aggregator: AggregatorConfig = field(default_factory=AggregatorConfig)
    encryption: Path | None = None  # EncryptionConfiguration file
    encryption_reload: bool = False
    limits: HttpLimits = field(default_factory=HttpLimits)
    faults: FaultInjector | None = None  # fault injection


class RunningServer:
    """API server with its store, listener and background jobs; made by `start_server`."""

    def __init__(self, config: ApiServerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._parts = AsyncExitStack()
        self._waiting_for = "the server is starting"
        self._closing = False
        self._app: ApiServer | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """Advertised address of the server, as host:port."""
        host = self._config.advertise_address or self._config.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def app(self) -> ApiServer:
        """Application, for in-process callers; raises RuntimeError before the server has started."""
        if self._app is None:
            raise RuntimeError("the server has not been started")
        return self._app

    async def start(self) -> None:
        """Open the store, listen, start the background jobs, and create the bootstrap objects."""
        config = self._config
        async with AsyncExitStack() as parts:
            store = open_store(config.store)
            await store.start()
            parts.push_async_callback(store.close)
            await ensure_format(store)
            store = self._encrypting(store, parts)
            auditor = self._auditor(parts)
            app = self._app = self._application(store, auditor)
            if isinstance(operations := getattr(store, "operations", None), CounterFamily):
                app.metrics.also(operations.lines)
            listener = await self._listen(app, auditor)
            self.port = listener.port
            app.aside.start()
            parts.callback(app.aside.close)
            parts.push_async_callback(self._stop_listening, app, listener)
            self._share_fairly(app, parts)
            self._keep_house(store, parts)
            if config.faults is not None:
                app.faults = config.faults
                _in_background(config.faults.run(), "what goes wrong on purpose", parts)
            await self._ensure_own_objects(app.registry, parts)
            await register_server(
                app.registry, self._clock, (config.advertise_address or config.host, self.port), parts
            )
            app.registration.catch_up()
            self._waiting_for = ""
            self._parts = parts.pop_all()

    async def start_without_port(self, store: Store, *, complete: bool = False) -> ApiServer:
        """Serve in-process callers only, from a store that the caller opens, maintains and closes.

        A complete store already holds the bootstrap objects.
        """
        async with AsyncExitStack() as parts:
            app = self._app = self._application(store)
            parts.callback(app.close)
            if not complete:
                await self._ensure_own_objects(app.registry, parts)
            self._waiting_for = ""
            self._parts = parts.pop_all()
        return app

    def before_closing(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Register a coroutine function to be awaited before the server closes."""
        self._parts.push_async_callback(work)

    async def close(self) -> None:
        """Report not ready, continue serving for the shutdown delay, then close."""
        if not self._closing:
            self._closing = True
            if self._config.shutdown_delay:
                await asyncio.sleep(self._config.shutdown_delay)
            await self.close_now()

    async def close_now(self) -> None:
        """End streams, let requests finish, flush the store."""
        await self._parts.aclose()

    async def _ensure_own_objects(self, registry: StorageRegistry, parts: AsyncExitStack) -> None:
        config = self._config
        authorities = "".join(path.read_text() for path in config.client_authorities)
        options = BootstrapOptions(
            now=self._clock.now(),
            # When servers share a store, the endpoints are those of all of them.
            advertise_address="" if registry.store.shared else config.advertise_address or config.host,
            secure_port=self.port,
            service_cidr=config.services.networks[0],
            client_ca_pem=authorities,
            front_proxy=_request_header_entries(config.front_proxy),
            serving=config.serving,
        )
        own = BootstrapWriter(registry, self._clock)
        await own.ensure(essential_objects(options))
        _maintain_authentication_config_map(registry, own, options, self._clock, parts)
        await _ensure_public_bindings(registry, own)
        remaining = chain(access_objects(config.serving.features), remaining_objects(options))
        _in_background(own.ensure_by_and_by(remaining), "making the server's own objects", parts)

    def _application(self, store: Store, auditor: Auditor | None = None) -> ApiServer:
        config = self._config
        writes = InFlightLimiter(config.writes_in_flight, config.writes_in_flight * _WAITING_PER_SEAT)
        registry = StorageRegistry(store, config.serving.kept(), config.services)
        lookup = RegistryLookup(registry)
        authorizer = authorizer_of(config.authorization_modes, registry, lookup)
        accounts = _account_tokens(config.accounts, lookup, self._clock) if config.accounts else None
        recognizers: list[TokenAuthenticator] = []
        if config.bootstrap_tokens:
            recognizers.append(BootstrapTokenAuthenticator(lookup, self._clock).authenticate)
        if accounts is not None:
            recognizers.append(lazy_token_authenticator(accounts))
        front_proxy = (
            RequestHeaderAuthenticator(config.front_proxy, config.client_authorities) if config.front_proxy else None
        )
        authenticator = Authenticator(_tokens(config), config.anonymous, recognizers, front_proxy)
        admission = default_chain(lookup, StoreQuotaAccessor(registry, lookup), authorizer, config.serving.features)
        return ApiServer(
            registry,
            self._clock,
            authenticator,
            admission,
            writes,
            self._health(store),
            lambda: self.address,
            accounts,
            authorizer,
            config.accounts.keys_uri if config.accounts else "",
            auditor,
            config.aggregator,
            config.serving,
        )

    def _share_fairly(self, app: ApiServer, parts: AsyncExitStack) -> None:
        if self._config.fairness:
            from kubeloop.apiserver.flowcontrol.controller import ADJUST_SECONDS

            control = app.share_fairly(self._config.writes_in_flight + self._config.reads_in_flight)
            parts.callback(PeriodicJob(ADJUST_SECONDS, control.adjust).cancel)

    def _encrypting(self, store: Store, parts: AsyncExitStack) -> Store:
        """Return the store wrapped for encryption at rest, if configured or if it holds encrypted values."""
        path = self._config.encryption
        if path is None and not any(one.value.startswith(_ENCRYPTED) for one in store.range("").records):
            return store
        from kubeloop.apiserver.encryption.configuration import EncryptionConfigError, read_configuration
        from kubeloop.apiserver.encryption.reloading import CHECK_SECONDS, EncryptionConfigReloader
        from kubeloop.apiserver.encryption.store import EncryptedStore

        try:
            seen = EncryptedStore(store, read_configuration(path) if path is not None else None)
        except EncryptionConfigError as error:
            raise StartupError(str(error)) from None
        if path is not None and self._config.encryption_reload:
            parts.callback(PeriodicJob(CHECK_SECONDS, EncryptionConfigReloader(path, seen).look).cancel)
        return seen

    def _auditor(self, parts: AsyncExitStack) -> Auditor | None:
        audit = self._config.audit
        if audit is None:
            return None
        from kubeloop.apiserver.audit import Auditor
        from kubeloop.apiserver.audit.log import AuditLog, LogLimits
        from kubeloop.apiserver.audit.policy import AuditPolicyError, read_policy

        try:
            policy = read_policy(audit.policy)
        except AuditPolicyError as error:
            raise StartupError(str(error)) from None
        log_file = AuditLog(audit.path, LogLimits(audit.megabytes, audit.backups, audit.days), self._clock)
        parts.callback(log_file.close)
        return Auditor(policy, log_file, self._clock)

    def _health(self, store: Store) -> HealthChecks:
        live = {
            "ping": _no_health_check,
            "log": _no_health_check,
            "etcd": lambda: store.trouble if store.shared else "",
        }
        ready = {
            "etcd-readiness": lambda: store.trouble,
            "poststarthook/start-system-namespaces-controller": lambda: self._waiting_for,
            "shutdown": lambda: "process is shutting down" if self._closing else "",
        }
        return HealthChecks(live, ready)

    async def _listen(self, app: ApiServer, auditor: Auditor | None) -> HttpServer:
        config = self._config
        hooks = HttpHooks(reject=rejection_response, on_error=app.failed, on_overflow=app.metrics.count_cut_watcher)
        tls = tls_context(config)
        if tls is not None and auditor is not None:
            tls.refused = auditor.refused_certificate
        try:
            return await serve(app.handle, config.host, config.port, tls, config.limits, self._clock, hooks)
        except OSError as error:
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            raise StartupError(f"cannot listen on {config.host}:{config.port}: {why}") from None

    async def _stop_listening(self, app: ApiServer, listener: HttpServer) -> None:
        app.close()
        await listener.close(_FINISH_SECONDS)

    def _keep_house(self, store: Store, parts: AsyncExitStack) -> None:
        config = self._config
        if config.compaction_interval:
            parts.callback(PeriodicJob(config.compaction_interval, Compactor(store).compact).cancel)
        if store.expires(EVENTS_PREFIX, config.event_ttl):
            return
        expiry = EventExpiry(store, self._clock, config.event_ttl)
        parts.callback(expiry.close)
        expiry.start()


async def start_server(config: ApiServerConfig, clock: Clock) -> RunningServer:
    """Start a server and return when it is ready.

    Raises CannotStart, StoreError, or OSError for files that can't be read.
    """
    server = RunningServer(config, clock)
    await server.start()
    return server


def _maintain_authentication_config_map(
    registry: StorageRegistry, own: BootstrapWriter, options: BootstrapOptions, clock: Clock, parts: AsyncExitStack
) -> None:
    trust = next(
        (obj for _, obj in essential_objects(options) if obj.metadata.name == extension_apiserver_authentication.NAME),
        None,
    )
    if trust is not None:
        keeper = extension_apiserver_authentication.AuthenticationConfigMap(registry, own, trust, clock)
        keeper.look()
        parts.callback(keeper.close)
        parts.callback(PeriodicJob(extension_apiserver_authentication.SYNC_SECONDS, keeper.look).cancel)


def tls_context(config: ApiServerConfig) -> AuditingSSLContext | None:
    """Return the server's TLS context (1.2 or newer).

    Client certificates are optional; one that is sent must be signed by one of the configured authorities.
    """
    if config.certificate is None:
        return None
    context = AuditingSSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    authorities = config.client_authorities
    if config.front_proxy is not None:
        authorities = (*authorities, config.front_proxy.authorities)
    try:
        context.load_cert_chain(config.certificate, config.key)
        for authority in authorities:
            context.load_verify_locations(authority)
            context.verify_mode = ssl.CERT_OPTIONAL
    except ssl.SSLError as error:
        files = ", ".join(map(str, (config.certificate, config.key, *authorities)))
        raise StartupError(f"TLS cannot be set up from {files}: {error.reason or error}") from None
    return context


def _request_header_entries(config: RequestHeaderConfig | None) -> tuple[tuple[str, str], ...]:
    """Return the request-header entries of the extension-apiserver-authentication ConfigMap."""
    if config is None:
        return ()
    lists = {
        "requestheader-allowed-names": config.allowed_names,
        "requestheader-extra-headers-prefix": config.extra_prefixes,
        "requestheader-group-headers": config.group_headers,
        "requestheader-uid-headers": config.uid_headers,
        "requestheader-username-headers": config.username_headers,
    }
    written = {name: msgspec.json.encode(values).decode() for name, values in lists.items()}
    return (("requestheader-client-ca-file", config.authorities.read_text()), *written.items())


def _tokens(config: ApiServerConfig) -> dict[str, User]:
    if config.token_file is None:
        return {}
    try:
        return read_token_file(config.token_file)
    except ValueError as error:
        raise StartupError(str(error)) from None


def _account_tokens(
    config: ServiceAccountTokenConfig, lookup: RegistryLookup, clock: Clock
) -> Callable[[], ServiceAccountTokens]:
    """Return a factory of the token issuer; it is called lazily because the crypto modules load slowly."""
    pem, further = config.key.read_bytes(), [path.read_bytes() for path in config.further_keys]

    @cache
    def make() -> ServiceAccountTokens:
        from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens, token_keys

        keys = token_keys(pem, further)
        return ServiceAccountTokens(keys, config.issuers, config.audiences or config.issuers, lookup, clock)

    return make


async def _ensure_public_bindings(registry: StorageRegistry, own: BootstrapWriter) -> None:
    """Create the discovery and public-info role bindings, which probes need once the server is ready."""
    bindings = registry.named("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
    if any(bindings.peek("", name) is None for name in _PUBLIC_BINDINGS):
        await own.ensure(made for made in access_objects() if made[1].metadata.name in _PUBLIC_BINDINGS)


def _no_health_check() -> str:
    return ""


def _in_background(work: Coroutine[Any, Any, None], what: str, parts: AsyncExitStack) -> None:
    """Run a coroutine until the server closes; log its failure, and continue without it."""

    def report(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            log.error("%s failed", what, exc_info=task.exception())

    async def end() -> None:
        task.cancel()
        await asyncio.wait([task])

    task = asyncio.create_task(work, name=what)
    task.add_done_callback(report)
    parts.push_async_callback(end)
