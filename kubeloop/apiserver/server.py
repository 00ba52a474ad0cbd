# SPDX-License-Identifier: Apache-2.0
"""Running API server: starts and stops store, application, listener and background jobs in the right order."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kubeloop.api.features.resource_config import APIResourceConfig
from kubeloop.apiserver.admission import AdmissionChain, default_chain
from kubeloop.apiserver.admission.lookup import RegistryLookup
from kubeloop.apiserver.admission.plugin_names import AdmissionConfigError, AdmissionOptions
from kubeloop.apiserver.admission.plugins.quota.quota_accessor import StoreQuotaAccessor
from kubeloop.apiserver.admission.setup import PluginContext, set_up_admission
from kubeloop.apiserver.aggregator.lazy import AggregatorConfig
from kubeloop.apiserver.app import ApiServer, ApiServerDependencies
from kubeloop.apiserver.audit.backends import LOG_BATCHES, BatchConfig, TruncateConfig
from kubeloop.apiserver.authentication import (
    Authenticator,
    RequestHeaderAuthenticator,
    RequestHeaderConfig,
    TokenAuthenticator,
    lazy_token_authenticator,
    read_token_file,
)
from kubeloop.apiserver.authentication.bootstrap_tokens import BootstrapTokenAuthenticator
from kubeloop.apiserver.authorization import DEFAULT_MODES, UnionAuthorizer
from kubeloop.apiserver.authorization.factory import AuthorizerFactory, configs_of_modes
from kubeloop.apiserver.background.compaction import Compactor
from kubeloop.apiserver.background.event_expiry import EVENTS_PREFIX, EventExpiry
from kubeloop.apiserver.background.file_reloader import CHECK_SECONDS, Contents, FileReloader
from kubeloop.apiserver.background.memory_trim import trim_memory_periodically
from kubeloop.apiserver.background.periodic import PeriodicJob
from kubeloop.apiserver.bootstrap import BootstrapOptions, config_map_objects, extension_apiserver_authentication
from kubeloop.apiserver.bootstrap.system_objects import SystemObjects
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.encryption.kms.envelope_metrics import EnvelopeMetrics
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.metrics.admission import AdmissionStepMetrics
from kubeloop.apiserver.metrics.tokens import ServiceAccountTokenMetrics, TokenCacheMetrics
from kubeloop.apiserver.nonresource.health import Check, HealthChecks
from kubeloop.apiserver.nonresource.post_start_hooks import PostStartHooks, hook_names
from kubeloop.apiserver.peers.register import identity_of, register_server
from kubeloop.apiserver.registry.allocation import DEFAULT_RANGES, ServiceRanges
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.auditing_tls import AuditingSSLContext, ReloadableSSLContext
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.fault_injection import FaultInjector
from kubeloop.apiserver.request.run_options import DEFAULT_RUN_OPTIONS, ServerRunOptions
from kubeloop.clock import Clock
from kubeloop.http import Handler, HttpHooks, HttpLimits, HttpServer, serve
from kubeloop.http.tls import TlsOptionError, TlsOptions, apply_tls_options
from kubeloop.metrics import MetricRegistry
from kubeloop.store import Store, open_store
from kubeloop.store.backup.formats import ensure_format

if TYPE_CHECKING:
    from kubeloop.apiserver.audit import Auditor
    from kubeloop.apiserver.audit.backends import AuditBackend, AuditWebhookConfig
    from kubeloop.apiserver.authentication.oidc.authentication_config import (
        StructuredAuthentication,
        StructuredAuthenticationConfig,
    )
    from kubeloop.apiserver.authentication.remote_tokens import RemoteTokenAuthenticator, RemoteTokenUnion
    from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens
    from kubeloop.apiserver.authentication.webhook import WebhookAuthenticatorConfig
    from kubeloop.apiserver.authorization.configuration import AuthorizationReloader
    from kubeloop.apiserver.authorization.webhook import WebhookAuthorizerConfig
    from kubeloop.apiserver.encryption.configuration import ResourceTransformers
    from kubeloop.apiserver.encryption.store import EncryptedStore
    from kubeloop.apiserver.kubelet_client.kubelet_tls import KubeletClientConfig
    from kubeloop.apiserver.webhook_client.review_client import KubeconfigReader

log = logging.getLogger(__name__)

# Queue length: writes that wait for a seat, per seat.
_WAITING_PER_SEAT = 5
_FINISH_SECONDS = 3.0
# Prefix of encrypted values in a store: there may be some even without an encryption configuration.
_ENCRYPTED = b"k8s:enc:"


class StartupError(Exception):
    """Error that prevents the server from starting; the message is one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class ServiceAccountTokenConfig:
    """Signing keys, issuers and audiences of service account tokens."""

    key: Path
    issuers: tuple[str, ...] = ("https://kubernetes.default.svc",)  # the first one signs, all are accepted
    audiences: tuple[str, ...] = ()  # default: the issuers
    jwks_uri: str = ""
    extra_verification_keys: tuple[Path, ...] = ()  # public keys that are accepted besides the signing key


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """Audit policy file and log path (`-`: standard output); zero limits mean the log's defaults."""

    policy: Path
    path: str = ""  # empty for no log
    megabytes: int = 0
    backups: int = 0
    days: int = 0
    format: str = "json"
    mode: str = "blocking"
    batch: BatchConfig = LOG_BATCHES
    truncate: TruncateConfig | None = None
    webhook: AuditWebhookConfig | None = None


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
    anonymous_paths: frozenset[str] | None = None  # for which anonymous requests are let in; None for all
    authentication: StructuredAuthenticationConfig | None = None  # JWT authenticators
    authentication_file: Path | None = None  # from which that was read, to be reloaded
    token_webhook: WebhookAuthenticatorConfig | None = None
    authorization_modes: tuple[str, ...] = DEFAULT_MODES
    authorization_webhook: WebhookAuthorizerConfig | None = None  # needed for the mode Webhook
    authorization_file: Path | None = None  # AuthorizationConfiguration, instead of the modes
    kubeconfigs: KubeconfigReader | None = None  # reads the kubeconfig files of webhooks
    service_account_tokens: ServiceAccountTokenConfig | None = None  # without it, service accounts have no tokens
    bootstrap_tokens: bool = False
    audit: AuditConfig | None = None
    admission: AdmissionOptions = field(default_factory=AdmissionOptions)
    max_mutating_requests_inflight: int = 200
    max_requests_inflight: int = 400  # reads + writes in flight are the total seats of priority and fairness
    flowcontrol: bool = True
    compaction_interval: float = 300.0
    event_ttl: float = 3600.0
    shutdown_delay: float = 0.0
    livez_grace_period: float = 0.0  # in which livez ignores unfinished post-start hooks
    external_hostname: str = ""  # in URLs that the server returns; default: the advertised address
    endpoint_reconciler: bool = True  # maintains the endpoints of the kubernetes Service
    service_node_port: int = 0  # of the kubernetes Service; 0: it has none
    tls: TlsOptions = field(default_factory=TlsOptions)
    reuse_port: bool = False
    run_options: ServerRunOptions = DEFAULT_RUN_OPTIONS
    service_ranges: ServiceRanges = DEFAULT_RANGES
    resource_config: APIResourceConfig = field(default_factory=APIResourceConfig)
    front_proxy: RequestHeaderConfig | None = None  # request-header authentication of the front proxy
    aggregator: AggregatorConfig = field(default_factory=AggregatorConfig)
    encryption: Path | None = None  # EncryptionConfiguration file
    encryption_reload: bool = False
    limits: HttpLimits = field(default_factory=HttpLimits)
    fault_injector: FaultInjector | None = None  # fault injection
    flags: Mapping[str, str] | None = None  # of the program, for /flagz
    kubelet_client: KubeletClientConfig | None = None  # access to the nodes of other processes
    kubelet_client_user: str = ""  # this server's user for kubelets, if it has to be given permissions


class RunningServer:
    """API server with its store, listener and background jobs; made by `start_server`."""

    def __init__(self, config: ApiServerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._exit_stack = AsyncExitStack()
        self._hooks = PostStartHooks(hook_names(config.flowcontrol))
        self._started = clock.monotonic()
        self._closing = False
        self._metrics = MetricRegistry()
        identity = identity_of(socket.gethostname(), f"{config.advertise_address or config.host}:{config.port}")
        self._envelope = EnvelopeMetrics(self._metrics, clock, identity)
        self._app: ApiServer | None = None
        self._tls: ReloadableSSLContext | None = None
        self._trust: extension_apiserver_authentication.AuthenticationConfigMap | None = None
        self._structured: StructuredAuthentication | None = None
        self._authorization_reloader: AuthorizationReloader | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """Advertised address of the server, as host:port."""
        host = self._config.external_hostname or self._config.advertise_address or self._config.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def app(self) -> ApiServer:
        """Application, for in-process callers; raises RuntimeError before the server has started."""
        if self._app is None:
            raise RuntimeError("the server has not been started")
        return self._app

    async def start(self, before_ready: Callable[[RunningServer], None] | None = None) -> None:
        """Open the store, listen, start the background jobs, create the system objects, and become ready.

        The port is known when `before_ready` is called.
        """
        config = self._config
        async with AsyncExitStack() as parts:
            store = open_store(config.store)
            await store.start()
            parts.push_async_callback(store.close)
            await ensure_format(store)
            store = await self._with_encryption(store, parts)
            auditor = self._auditor(parts)
            app = self._app = self._build_app(store, auditor, is_listening=True)
            listener = await self._listen(app, auditor)
            self.port = listener.port
            app.worker_thread.start()
            parts.callback(app.worker_thread.close)
            parts.push_async_callback(self._stop_listening, app, listener)
            self._start_flowcontrol(app, parts)
            self._start_background_jobs(store, parts)
            _in_background(trim_memory_periodically(), "returning freed memory", parts)
            if config.fault_injector is not None:
                app.inject_faults(config.fault_injector)
                _in_background(config.fault_injector.run(), "chaos plan", parts)
            own = BootstrapWriter(app.registry, self._clock, config.resource_config.features)
            objects = await self._ensure_system_objects(app.registry, own, parts)
            await register_server(
                app.registry, own, self._clock, (config.advertise_address or config.host, self.port), parts
            )
            self._start_reloaders(app, parts)
            objects.start_reconcilers(parts)
            app.registration.catch_up()
            if before_ready is not None:
                before_ready(self)
            self._hooks.finish_all()
            self._exit_stack = parts.pop_all()

    async def start_without_port(self, store: Store, *, complete: bool = False) -> ApiServer:
        """Serve in-process callers only, from a store that the caller opens, maintains and closes.

        A complete store already holds the bootstrap objects.
        """
        async with AsyncExitStack() as parts:
            app = self._app = self._build_app(store)
            parts.callback(app.close)
            if not complete:
                own = BootstrapWriter(app.registry, self._clock, self._config.resource_config.features)
                await self._ensure_system_objects(app.registry, own, parts)
            self._hooks.finish_all()
            self._exit_stack = parts.pop_all()
        return app

    def before_closing(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Register a coroutine function to be awaited before the server closes."""
        self._exit_stack.push_async_callback(work)

    async def close(self) -> None:
        """Report not ready, continue serving for the shutdown delay, then close."""
        if not self._closing:
            self._closing = True
            if self._config.shutdown_delay:
                await asyncio.sleep(self._config.shutdown_delay)
            await self.close_now()

    async def close_now(self) -> None:
        """End streams, let requests finish, flush the store."""
        await self._exit_stack.aclose()

    async def _ensure_system_objects(
        self, registry: StorageRegistry, own: BootstrapWriter, parts: AsyncExitStack
    ) -> SystemObjects:
        options = self._bootstrap_options(registry)
        objects = SystemObjects(registry, own, options, self._clock)
        await objects.ensure_all(self._hooks)
        self._trust = _maintain_authentication_config_map(registry, own, options, self._clock, parts)
        return objects

    def _bootstrap_options(self, registry: StorageRegistry) -> BootstrapOptions:
        config = self._config
        authorities = "".join(path.read_text() for path in config.client_authorities)
        return BootstrapOptions(
            now=self._clock.now(),
            advertise_address=self._endpoint_address(registry.store),
            secure_port=self.port,
            service_cidrs=config.service_ranges.networks,
            service_node_port=config.service_node_port,
            client_ca_pem=authorities,
            front_proxy=_request_header_entries(config.front_proxy),
            resource_config=config.resource_config,
            kubelet_client_user=config.kubelet_client_user,
        )

    def _endpoint_address(self, store: Store) -> str:
        """Return the address of the only endpoint; in a shared store, the endpoints are those of all servers."""
        if store.is_shared or not self.port or not self._config.endpoint_reconciler:
            return ""
        return self._config.advertise_address or self._config.host

    def _build_app(self, store: Store, auditor: Auditor | None = None, *, is_listening: bool = False) -> ApiServer:
        config = self._config
        seats = config.max_mutating_requests_inflight + config.max_requests_inflight
        writes = InFlightLimiter(
            config.max_mutating_requests_inflight, config.max_mutating_requests_inflight * _WAITING_PER_SEAT
        )
        registry = StorageRegistry(store, config.resource_config.stored_resources(), config.service_ranges)
        lookup = RegistryLookup(registry)
        authorizer = self._authorizer(registry, lookup)
        accounts = (
            _account_tokens(
                config.service_account_tokens, lookup, self._clock, ServiceAccountTokenMetrics(self._metrics)
            )
            if config.service_account_tokens
            else None
        )
        return ApiServer(
            ApiServerDependencies(
                registry,
                self._clock,
                self._authenticator(lookup, accounts),
                self._admission(registry, lookup, authorizer),
                writes,
                self._health(store),
                lambda: self.address,
                accounts,
                authorizer,
                config.service_account_tokens.jwks_uri if config.service_account_tokens else "",
                auditor,
                config.aggregator,
                config.resource_config,
                config.run_options,
                config.flags,
                self._metrics,
                seats if is_listening and config.flowcontrol else 0,
                config.kubelet_client,
            )
        )

    def _authenticator(
        self, lookup: RegistryLookup, accounts: Callable[[], ServiceAccountTokens] | None
    ) -> Authenticator:
        config = self._config
        recognizers: list[TokenAuthenticator] = []
        if config.bootstrap_tokens:
            recognizers.append(BootstrapTokenAuthenticator(lookup, self._clock).authenticate)
        if accounts is not None:
            recognizers.append(lazy_token_authenticator(accounts))
        front_proxy = (
            RequestHeaderAuthenticator(config.front_proxy, config.client_authorities, self._clock.now)
            if config.front_proxy
            else None
        )
        return Authenticator(
            _tokens(config), config.anonymous, recognizers, front_proxy, self._remote_tokens(), config.anonymous_paths
        )

    def _admission(
        self, registry: StorageRegistry, lookup: RegistryLookup, authorizer: UnionAuthorizer
    ) -> AdmissionChain:
        config, features = self._config, self._config.resource_config.features
        try:
            writer = BootstrapWriter(registry, self._clock, features)
            setup = set_up_admission(config.admission, registry, self._clock, writer, config.kubeconfigs)
        except AdmissionConfigError as error:
            raise StartupError(str(error)) from None
        setup = replace(setup, run_options=config.run_options)
        accessor = StoreQuotaAccessor(registry, lookup)
        context = PluginContext(lookup, accessor, authorizer, features, setup, self._metrics)
        return default_chain(context, AdmissionStepMetrics(self._metrics, self._clock))

    def _authorizer(self, registry: StorageRegistry, lookup: RegistryLookup) -> UnionAuthorizer:
        config = self._config
        builder = None
        if config.kubeconfigs is not None:
            from kubeloop.apiserver.webhook_builders import webhook_builder

            builder = webhook_builder(config.kubeconfigs, self._clock)
        factory = AuthorizerFactory(registry, lookup, builder)
        try:
            if config.authorization_file is None:
                return factory.union(configs_of_modes(config.authorization_modes, config.authorization_webhook))
            from kubeloop.apiserver.authorization.configuration import (
                AuthorizationReloader,
                parse_authorization_configuration,
            )

            configs = parse_authorization_configuration(config.authorization_file.read_bytes())
            union = factory.union(configs)
        except (ValueError, OSError) as error:
            raise StartupError(str(error)) from None
        self._authorization_reloader = AuthorizationReloader(union, factory, configs)
        return union

    def _remote_tokens(self) -> RemoteTokenUnion | None:
        """Return the authenticators of tokens that other servers are asked about, if any are configured."""
        config = self._config
        accounts = config.service_account_tokens
        audiences = (accounts.audiences or accounts.issuers) if accounts is not None else ()
        authenticators: list[RemoteTokenAuthenticator] = []
        try:
            if config.authentication is not None:
                from kubeloop.apiserver.authentication.oidc.authentication_config import StructuredAuthentication

                issuers = accounts.issuers if accounts is not None else ()
                self._structured = StructuredAuthentication(config.authentication, audiences, issuers, self._clock)
                authenticators.append(self._structured.authenticators)
            if config.token_webhook is not None and config.kubeconfigs is not None:
                from kubeloop.apiserver.webhook_builders import token_webhook

                authenticators.append(token_webhook(config.token_webhook, config.kubeconfigs, audiences, self._clock))
        except ValueError as error:
            raise StartupError(str(error)) from None
        metrics = TokenCacheMetrics(self._metrics, self._clock)
        if not authenticators:
            return None
        from kubeloop.apiserver.authentication.remote_tokens import RemoteTokenUnion

        return RemoteTokenUnion(authenticators, audiences, self._clock, metrics)

    def _start_flowcontrol(self, app: ApiServer, parts: AsyncExitStack) -> None:
        if (control := app.flowcontrol) is not None:
            from kubeloop.apiserver.flowcontrol.controller import ADJUST_SECONDS

            parts.callback(PeriodicJob(ADJUST_SECONDS, control.adjust_seats).cancel)
            parts.callback(PeriodicJob(1.0, control.begin_second).cancel)

    async def _with_encryption(self, store: Store, parts: AsyncExitStack) -> Store:
        """Return the store wrapped for encryption at rest, if configured or if it holds encrypted values."""
        path = self._config.encryption
        if path is None and not any(one.value.startswith(_ENCRYPTED) for one in store.range("").records):
            return store
        from kubeloop.apiserver.encryption.configuration import EncryptionConfigError, read_configuration
        from kubeloop.apiserver.encryption.store import EncryptedStore

        read = partial(read_configuration, clock=self._clock, metrics=self._envelope)
        try:
            transformers = read(path) if path is not None else None
        except EncryptionConfigError as error:
            raise StartupError(str(error)) from None
        seen = EncryptedStore(store, transformers, self._metrics)
        if transformers is not None:
            parts.push_async_callback(seen.close_providers)
            await transformers.start()
            await seen.resolve_keys()
        if path is not None and self._config.encryption_reload:
            _reload("encryption configuration", [path], partial(_reload_encryption, seen, partial(read, path)), parts)
        return seen

    def _auditor(self, parts: AsyncExitStack) -> Auditor | None:
        audit = self._config.audit
        if audit is None:
            return None
        from kubeloop.apiserver.audit import Auditor
        from kubeloop.apiserver.audit.backends import LogBackend, UnionBackend, with_mode, with_truncation
        from kubeloop.apiserver.audit.log import AuditLog, LogLimits
        from kubeloop.apiserver.audit.policy import AuditPolicyError, read_policy

        try:
            policy = read_policy(audit.policy)
        except AuditPolicyError as error:
            raise StartupError(str(error)) from None
        backends: list[AuditBackend] = []
        if audit.path:
            log_file = AuditLog(audit.path, LogLimits(audit.megabytes, audit.backups, audit.days), self._clock)
            blocking = LogBackend(log_file, audit.format)
            backend = with_mode(blocking, audit.mode, audit.batch, self._clock)
            backends.append(with_truncation(backend, audit.truncate))
        if audit.webhook is not None:
            backends.append(self._audit_webhook(audit.webhook))
        backend = backends[0] if len(backends) == 1 else UnionBackend(backends)
        auditor = Auditor(policy, backend, self._clock, self._metrics)
        parts.push_async_callback(auditor.close)
        return auditor

    def _audit_webhook(self, config: AuditWebhookConfig) -> AuditBackend:
        from kubeloop.apiserver.audit.backends import WebhookBackend, with_mode, with_truncation
        from kubeloop.apiserver.webhook_client.review_client import ReviewClient

        assert self._config.kubeconfigs is not None, "a webhook needs a reader of kubeconfig files"
        try:
            endpoint = self._config.kubeconfigs.endpoint(config.kubeconfig)
        except ValueError as error:
            raise StartupError(f"initializing audit webhook: {error}") from None
        client = ReviewClient(endpoint, self._clock, retry_seconds=config.initial_backoff)
        backend = with_mode(WebhookBackend(client), config.mode, config.batch, self._clock)
        return with_truncation(backend, config.truncate)

    def _health(self, store: Store) -> HealthChecks:
        general = {
            "ping": _no_health_check,
            "log": _no_health_check,
            "etcd": lambda: store.last_error if store.is_shared else "",
        }
        if problems := getattr(store, "kms_problems", None):
            general |= _kms_checks(cast("EncryptedStore", store), len(problems), self._config.encryption_reload)
        hooks = self._hooks.checks()
        ready = {
            **general,
            "etcd-readiness": lambda: store.last_error,
            "informer-sync": _no_health_check,
            **hooks,
            "shutdown": lambda: "process is shutting down" if self._closing else "",
        }
        live = {**general, **{name: self._after_grace_period(check) for name, check in hooks.items()}}
        return HealthChecks(live, ready, {**general, **hooks})

    def _after_grace_period(self, check: Check) -> Check:
        """Return the check, which passes until the grace period of livez has elapsed."""

        def delayed() -> str:
            elapsed = self._clock.monotonic() - self._started
            return "" if elapsed < self._config.livez_grace_period else check()

        return delayed

    async def _listen(self, app: ApiServer, auditor: Auditor | None) -> HttpServer:
        config = self._config
        hooks = HttpHooks(
            reject=app.rejection_response,
            on_error=app.internal_error_response,
            on_overflow=app.count_terminated_watch,
            on_timeout=app.timeout_response,
            on_handshake_error=app.metrics.tls_handshake_errors.increment,
            handles_large_bodies=True,
        )
        tls = None
        if (context := tls_context(config)) is not None:
            tls = self._tls = ReloadableSSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.use(context)
            if auditor is not None:
                tls.on_client_rejected = auditor.log_rejected_certificate
        try:
            handler = _filtered(app.handle, config.run_options)
            return await serve(
                handler, config.host, config.port, tls, config.limits, self._clock, hooks, reuse_port=config.reuse_port
            )
        except OSError as error:
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            raise StartupError(f"cannot listen on {config.host}:{config.port}: {why}") from None

    async def _stop_listening(self, app: ApiServer, listener: HttpServer) -> None:
        app.close()
        await listener.close(_FINISH_SECONDS)

    def _start_background_jobs(self, store: Store, parts: AsyncExitStack) -> None:
        config = self._config
        if config.compaction_interval:
            parts.callback(PeriodicJob(config.compaction_interval, Compactor(store).compact).cancel)
        if store.set_ttl(EVENTS_PREFIX, config.event_ttl):
            return
        expiry = EventExpiry(store, self._clock, config.event_ttl)
        parts.callback(expiry.close)
        expiry.start()

    def _start_reloaders(self, app: ApiServer, parts: AsyncExitStack) -> None:
        """Reload certificates, authorities and configuration files when they change."""
        config = self._config
        if self._tls is not None and config.certificate is not None:
            paths = [config.certificate, *([config.key] if config.key is not None else ())]
            paths += [path for one in config.tls.sni_certificates for path in (one.certificate, one.key)]
            _reload("serving certificate", paths, self._reload_tls, parts)
        authorities = list(config.client_authorities)
        if config.front_proxy is not None:
            authorities.append(config.front_proxy.authorities)
        if authorities:
            _reload("authorities of clients", authorities, partial(self._reload_authorities, app), parts)
        if self._structured is not None:
            self._structured.authenticators.start()
            if config.authentication_file is not None:
                _reload("authentication configuration", [config.authentication_file], self._structured.reload, parts)
        if self._authorization_reloader is not None and config.authorization_file is not None:
            reload = self._authorization_reloader.reload
            _reload("authorization configuration", [config.authorization_file], reload, parts)

    def _reload_tls(self, contents: Contents) -> None:
        """Use the changed files for new connections; raises ValueError."""
        assert self._tls is not None
        try:
            context = tls_context(self._config)
        except StartupError as error:
            raise ValueError(str(error)) from None
        assert context is not None
        self._tls.use(context)

    def _reload_authorities(self, app: ApiServer, contents: Contents) -> None:
        """Use changed authorities for new connections and request headers, and publish them; raises ValueError."""
        config = self._config
        if self._tls is not None:
            self._reload_tls(contents)
        if config.front_proxy is not None:
            front_proxy = RequestHeaderAuthenticator(config.front_proxy, config.client_authorities, self._clock.now)
            app.authenticator.set_front_proxy(front_proxy)
        if self._trust is not None:
            self._trust.set_wanted(_authentication_config_map(self._bootstrap_options(app.registry)))


async def start_server(
    config: ApiServerConfig, clock: Clock, before_ready: Callable[[RunningServer], None] | None = None
) -> RunningServer:
    """Start a server and return when it is ready; `before_ready` is called when it listens but is not ready.

    Raises StartupError, StoreError, or OSError for files that can't be read.
    """
    server = RunningServer(config, clock)
    await server.start(before_ready)
    return server


def _maintain_authentication_config_map(
    registry: StorageRegistry, own: BootstrapWriter, options: BootstrapOptions, clock: Clock, parts: AsyncExitStack
) -> extension_apiserver_authentication.AuthenticationConfigMap | None:
    trust = _authentication_config_map(options)
    if trust is None:
        return None
    config_map = extension_apiserver_authentication.AuthenticationConfigMap(registry, own, trust, clock)
    config_map.sync()
    parts.callback(config_map.close)
    parts.callback(PeriodicJob(extension_apiserver_authentication.SYNC_SECONDS, config_map.sync).cancel)
    return config_map


def _authentication_config_map(options: BootstrapOptions) -> Any | None:
    """Return the ConfigMap extension-apiserver-authentication, if the server has authorities to publish."""
    name = extension_apiserver_authentication.NAME
    return next((obj for _, obj in config_map_objects(options) if obj.metadata.name == name), None)


def tls_context(config: ApiServerConfig) -> AuditingSSLContext | None:
    """Return the server's TLS context (1.2 or newer).

    Client certificates are optional; one that is sent must be signed by one of the configured authorities.
    """
    if config.certificate is None:
        return None
    authorities = config.client_authorities
    if config.front_proxy is not None:
        authorities = (*authorities, config.front_proxy.authorities)
    try:
        context = _new_tls_context(authorities)
        context.load_cert_chain(config.certificate, config.key)
        apply_tls_options(context, config.tls, partial(_sni_context, context, authorities))
    except TlsOptionError as error:
        raise StartupError(str(error)) from None
    except ssl.SSLError as error:
        files = ", ".join(map(str, (config.certificate, config.key, *authorities)))
        raise StartupError(f"unable to load TLS files {files}: {error.reason or error}") from None
    return context


def _sni_context(main: AuditingSSLContext, authorities: Sequence[Path]) -> AuditingSSLContext:
    """Return a context for further server names, which verifies clients and reports rejected ones as the main one."""
    context = _new_tls_context(authorities)
    context.on_client_rejected = lambda why: main.on_client_rejected(why)
    return context


def _new_tls_context(authorities: Sequence[Path]) -> AuditingSSLContext:
    context = AuditingSSLContext(ssl.PROTOCOL_TLS_SERVER)
    for authority in authorities:
        context.load_verify_locations(authority)
        context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    # A ticket carries a client's certificate without the intermediate ones, which are needed to verify it.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return context


def _filtered(handler: Handler, options: ServerRunOptions) -> Handler:
    """Return the handler with the filters of the options."""
    if not options.cors_allowed_origins and not options.hsts_directives:
        return handler
    from kubeloop.apiserver.request.filters import with_filters

    return with_filters(handler, options)


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
    config: ServiceAccountTokenConfig, lookup: RegistryLookup, clock: Clock, metrics: ServiceAccountTokenMetrics
) -> Callable[[], ServiceAccountTokens]:
    """Return a factory of the token issuer; it is called lazily because the crypto modules load slowly."""
    pem, further = config.key.read_bytes(), [path.read_bytes() for path in config.extra_verification_keys]

    @cache
    def make() -> ServiceAccountTokens:
        from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens, token_keys

        keys = token_keys(pem, further)
        return ServiceAccountTokens(keys, config.issuers, config.audiences or config.issuers, lookup, clock, metrics)

    return make


def _reload(
    what: str, paths: Sequence[Path], apply: Callable[[Contents], Awaitable[None] | None], parts: AsyncExitStack
) -> None:
    """Check files for changes until the server closes."""
    reloader = FileReloader(what, paths, apply)
    parts.callback(reloader.close)
    parts.callback(PeriodicJob(CHECK_SECONDS, reloader.check).cancel)


def _kms_checks(store: EncryptedStore, count: int, is_reloaded: bool) -> dict[str, Callable[[], str]]:
    """Return a health check for each KMS provider; one for all if the configuration may change."""
    if is_reloaded:
        return {"kms-providers": lambda: "; ".join(filter(None, store.kms_problems))}
    return {f"kms-provider-{index}": partial(_kms_problem, store, index) for index in range(count)}


def _kms_problem(store: EncryptedStore, index: int) -> str:
    return store.kms_problems[index]


async def _reload_encryption(
    store: EncryptedStore, read: Callable[[], ResourceTransformers], contents: Contents
) -> None:
    await store.reload(read())


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
