# SPDX-License-Identifier: Apache-2.0
"""`kubeloop kubelet`: the node agent against any API server, for one node or for many simulated ones.

flags ─▶ ports listen, with a certificate ─▶ (no kubeconfig yet: TLS bootstrap) ─▶ fleet: registers, runs pods
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kubeloop import __version__
from kubeloop.api.generated.core_v1 import Taint
from kubeloop.api.kubelet_requests import SERVING_CERTIFICATE_ANNOTATION
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.flags.values import flag_values
from kubeloop.cli.kubelet.certificates import KubeletCertificates
from kubeloop.cli.kubelet.config_files import load_configuration
from kubeloop.cli.kubelet.config_flags import effective_values
from kubeloop.cli.kubelet.credential_providers import read_credential_plugins
from kubeloop.cli.kubelet.flags import NodeNames, names_of
from kubeloop.cli.kubelet.host_settings import check_host, limit_process
from kubeloop.cli.kubelet.server import AccessRules, KubeletAccess, KubeletPorts
from kubeloop.cli.kubelet.zpages import kubelet_zpages
from kubeloop.cli.local_clusters.registry import state_dir
from kubeloop.cli.program.announcement import Announce, print_line
from kubeloop.cli.program.foreground import run_in_foreground
from kubeloop.cli.secure_port.server import ClientCAs
from kubeloop.client import Client
from kubeloop.client.config.server_config import load_config
from kubeloop.client.errors import ConfigError
from kubeloop.client.http.rate_limit import TokenBucket
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import Clock, SystemClock
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.http import HttpLimits, Request, Response, serve
from kubeloop.kubelet.agent import COMPONENT, NodeAgent
from kubeloop.kubelet.agent_config import NodeAgentConfig, StandaloneConfig
from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError
from kubeloop.kubelet.config.decode import features_of
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
from kubeloop.kubelet.config.unsupported_fields import fields_without_effect
from kubeloop.kubelet.credentialprovider.provider_config import CredentialPlugins, ProviderConfigError
from kubeloop.kubelet.images.pull_records import PullRecordError
from kubeloop.kubelet.node_status.registration import KubeletEndpoint, NodeShape
from kubeloop.kubelet.simulated.stages import StageError, read_rules
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.runtime.component_config import ComponentConfigError, LoggingConfiguration
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.manager import LoopManager

if TYPE_CHECKING:
    from kubeloop.kubelet.cri.node import CriNodeConfig

_DRAIN_SECONDS = 0.5
_CLOSE_SECONDS = 1.0
_LOOKUP_TIMEOUT = 5.0
_UNINITIALIZED = Taint(key="node.cloudprovider.kubernetes.io/uninitialized", value="true", effect="NoSchedule")
_PROVIDED_IP = "alpha.kubernetes.io/provided-node-ip"
_TOKENS_GATE = "KubeletServiceAccountTokenForCredentialProviders"
_TEXT = "text/plain; charset=utf-8"

log = logging.getLogger(__name__)


def run_kubelet(options: argparse.Namespace) -> int:
    """Run the kubelet; returns the exit code."""
    started: list[KubeletProgram] = []

    async def start() -> KubeletProgram:
        try:
            if isinstance(settings, ComponentConfigError):
                raise settings
            _warn(settings, options)
            if settings.container_runtime_endpoint:
                _prepare_host(settings)
            program = KubeletProgram(KubeletOptions(options, settings, names_of(options)), SystemClock())
            await program.start()
        except (ValueError, ConfigError, StageError) as error:
            raise StartupError(str(error)) from None
        started.append(program)
        return program

    settings = _load(options)
    logs = settings.logging if isinstance(settings, KubeletConfiguration) else LoggingConfiguration()
    code = run_in_foreground(start, logging_format=logs.format, verbosity=logs.verbosity)
    return code or int(any(program.has_failed for program in started))


def _load(options: argparse.Namespace) -> KubeletConfiguration | ComponentConfigError:
    """Return the configuration, which has the settings of the log, or the error to be reported."""
    try:
        return load_configuration(options)
    except ComponentConfigError as error:
        return error


def _warn(settings: KubeletConfiguration, options: argparse.Namespace) -> None:
    if fields := fields_without_effect(settings):
        log.warning("fields of the configuration without effect: %s", ", ".join(fields))
    if options.without_effect:
        log.warning("flags without effect: %s", ", ".join(options.without_effect))


def _prepare_host(settings: KubeletConfiguration) -> None:
    """Check the machine of a real node and set the limits of this process. Raises ValueError."""
    if problems := check_host(settings):
        raise ValueError(", ".join(problems))
    limit_process(settings)


class KubeletOptions(NamedTuple):
    """Flags, configuration and node names of a kubelet."""

    flags: argparse.Namespace
    settings: KubeletConfiguration
    names: NodeNames


@dataclass(frozen=True, slots=True)
class _Agent:
    """Components that run once the node has its credentials."""

    client: Client
    informers: SharedInformerFactory
    fleet: NodeAgent
    manager: LoopManager


class KubeletProgram:
    """Process with the ports of its nodes, and the nodes."""

    def __init__(self, options: KubeletOptions, clock: Clock, announce: Announce = print_line) -> None:
        flags, settings, names = self._options, self._settings, self._names = options
        self._clock = clock
        self._announce = announce  # called with one line once all nodes are registered
        self._registered = asyncio.Event()
        self._parts = AsyncExitStack()
        self._ports = KubeletPorts()
        self._agent: _Agent | None = None
        self._plugins = CredentialPlugins()
        self.has_failed = False
        self._zpages = kubelet_zpages({**flag_values(flags), **effective_values(settings)}, clock, settings)
        self._rules = tuple(read_rules(flags.node_stages)) if flags.node_stages is not None else ()
        folder = flags.cert_dir or state_dir() / "kubelet" / names.all[0]
        self._serving = KubeletCertificates(flags, settings, names.all, folder, clock)

    async def start(self) -> None:
        """Listen, then continue in the background: the API server may not be available yet."""
        self._check_identity()
        if self._settings.container_runtime_endpoint and self._names.count:
            raise StartupError("--container-runtime-endpoint runs one real node: it excludes --nodes")
        self._plugins = self._read_plugins()
        self._parts.push_async_callback(self._ports.close)
        try:
            await self._listen()
        except StartupError:
            await self._parts.aclose()
            raise
        await self._open_health()
        self._in_background(self._run_or_end(), "nodes")

    async def _listen(self) -> None:
        settings, clock = self._settings, self._clock
        if settings.enable_server:
            for number, name in enumerate(self._names.all):
                port = settings.port + number if settings.port else 0
                await self._ports.listen(name, settings.address, port, self._serving.tls, clock)
        if settings.read_only_port:
            if self._names.count:
                raise StartupError("--read-only-port requires a single node")
            await self._ports.listen_read_only(self._names.one, settings.address, settings.read_only_port, clock)

    def _check_identity(self) -> None:
        """Check that the kubeconfigs are readable; the connection is not tested."""
        options = self._options
        if options.bootstrap_kubeconfig is not None and self._names.count:
            raise StartupError("--bootstrap-kubeconfig requires a single node: every node has its own certificate")
        bootstraps = options.bootstrap_kubeconfig is not None and not options.kubeconfig.is_file()
        load_config(options.bootstrap_kubeconfig if bootstraps else options.kubeconfig)

    def _read_plugins(self) -> CredentialPlugins:
        """Return the credential provider plugins of a real node."""
        options, settings = self._options, self._settings
        if not settings.container_runtime_endpoint:
            return CredentialPlugins()
        try:
            return read_credential_plugins(
                options.image_credential_provider_config,
                options.image_credential_provider_bin_dir,
                allows_tokens=features_of(settings.feature_gates).is_enabled(_TOKENS_GATE),
            )
        except ProviderConfigError as error:
            raise StartupError(str(error)) from None

    async def wait_registered(self) -> None:
        """Wait until all nodes are registered."""
        await self._registered.wait()

    async def close(self) -> None:
        """Stop the nodes; pods continue when it is started again."""
        await self._parts.aclose()

    async def _run_or_end(self) -> None:
        """Run the nodes; end the program on a failure, so that it is restarted by its supervisor."""
        try:
            await self._run()
        except StartupError as error:
            log.error("the node cannot start: %s", error)
        except Exception:
            log.exception("the nodes failed")
        else:
            return
        self.has_failed = True
        signal.raise_signal(signal.SIGTERM)

    async def _run(self) -> None:
        async with AsyncExitStack() as parts:
            agent = self._agent = await self._begin(parts)
            async with asyncio.TaskGroup() as group:
                group.create_task(agent.fleet.recorder.run(), name="events of nodes")
                group.create_task(agent.manager.run(lambda: _DRAIN_SECONDS), name="loops of nodes")
                group.create_task(self._tell_when_registered(agent.fleet))
                group.create_task(self._trust_clients(agent.client), name="trust in client certificates")
                for work in agent.fleet.background_tasks():
                    group.create_task(work, name="real node")
                for work in self._serving.rotation_tasks(agent.client):
                    group.create_task(work, name="certificates")

    async def _begin(self, parts: AsyncExitStack) -> _Agent:
        options, clock = self._options, self._clock
        await self._serving.ensure_identity()
        transport = HttpTransport(load_config(options.kubeconfig), clock, on_warning=log.debug)
        parts.push_async_callback(transport.close)
        limiter = self._new_limiter()
        client = Client(CauseTransport(transport), user_agent=COMPONENT, limiter=limiter)
        informers = SharedInformerFactory(client, clock)
        cri = await self._real_node()
        fleet = NodeAgent(client, informers, clock, self._config(cri))
        parts.push_async_callback(fleet.close)
        try:
            await fleet.start()
        except (CgroupError, PullRecordError, ValueError) as error:  # settings or state that it cannot start with
            raise StartupError(str(error)) from None
        access = KubeletAccess(client, clock, _access_rules(self._settings))
        self._ports.start_serving(fleet.dialer, fleet.get_pod, access)
        informers.start()
        parts.push_async_callback(informers.stop)
        return _Agent(client, informers, fleet, LoopManager(fleet.loops, clock, name=COMPONENT))

    def _new_limiter(self) -> TokenBucket | None:
        """Return the limit of requests to the API server; many simulated nodes have one only if it is set."""
        settings = self._settings
        is_default = settings.kube_api_qps == KubeletConfiguration().kube_api_qps
        if self._names.count and is_default and not hasattr(self._options, "kube_api_qps"):
            return None
        burst = settings.kube_api_burst or 2 * settings.kube_api_qps
        return TokenBucket(settings.kube_api_qps, burst, self._clock) if settings.kube_api_qps else None

    async def _real_node(self) -> CriNodeConfig | None:
        """Connect to the container runtime, if one is given; waits until it answers."""
        if not self._settings.container_runtime_endpoint:
            return None
        from kubeloop.cli.kubelet.real_node import RealNodeFlags, real_node_config

        flags = RealNodeFlags(self._options.root_dir, self._names.one, self._serving.address, self._plugins)
        return await real_node_config(self._settings, flags, self._clock)

    def _shape(self, cri: CriNodeConfig | None) -> NodeShape:
        options, settings = self._options, self._settings
        taints = [Taint(key=one.key, value=one.value, effect=one.effect) for one in settings.register_with_taints]
        annotations = {SERVING_CERTIFICATE_ANNOTATION: self._serving.fingerprint}
        if options.cloud_provider == "external":
            taints.append(_UNINITIALIZED)
            annotations |= {_PROVIDED_IP: options.node_ip} if options.node_ip else {}
        shape = NodeShape(
            pods=str(settings.max_pods),
            labels=options.node_labels,
            annotations=annotations,
            taints=tuple(taints),
            provider_id=settings.provider_id,
        )
        if cri is None:
            return shape
        from kubeloop.cli.kubelet.real_node import machine_shape

        return machine_shape(shape, cri)

    def _config(self, cri: CriNodeConfig | None) -> NodeAgentConfig:
        options, settings = self._options, self._settings
        address, ports = self._serving.address, self._ports.numbers
        return NodeAgentConfig(
            shape=self._shape(cri),
            cri=cri,
            event_level=options.node_events if cri is None else "all",
            rules=self._rules,
            static_pods=Path(settings.static_pod_path) if settings.static_pod_path else None,
            pages=self._zpages,
            settings=settings,
            standalone=StandaloneConfig(
                {name: KubeletEndpoint(address, ports.get(name, 0)) for name in self._names.all},
                has_node_rights_only=not self._names.count,
                register_nodes=settings.register_node,
                max_heartbeat_seconds=settings.node_status_update_frequency,
            ),
        )

    async def _tell_when_registered(self, fleet: NodeAgent) -> None:
        await fleet.wait_registered()
        names, ports = self._names.all, list(self._ports.numbers.values()) or [0]
        which = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        where = f"{ports[0]}" if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
        self._announce(f"kubeloop kubelet {__version__} is ready: node {which} at port {where}")
        self._registered.set()

    async def _trust_clients(self, client: Client) -> None:
        config = ManagerConfig(client_ca_file=self._settings.authentication.x509.client_ca_file)
        authorities = ClientCAs(self._serving.tls, client.with_timeout(_LOOKUP_TIMEOUT), config)
        await authorities.refresh()
        await authorities.run()

    # Health.

    async def _open_health(self) -> None:
        """Open the healthz port; a second program on a machine does without it."""
        host, port = self._settings.healthz_bind_address, self._settings.healthz_port
        if not port:
            return
        try:
            server = await serve(self._health, host, port, None, HttpLimits(), self._clock)
        except OSError as error:
            log.warning("no /healthz at %s:%s: %s", host, port, error.strerror or error)
            return
        self._parts.push_async_callback(server.close, _CLOSE_SECONDS)

    async def _health(self, request: Request) -> Response:
        if request.path.rstrip("/") != "/healthz":
            return Response(404, b"404 page not found\n", _TEXT)
        agent = self._agent
        whys = [one.reason for one in map(agent.manager.health, _loops_of(agent.fleet)) if one.reason] if agent else []
        return Response(500, f"{whys[0]}\n".encode(), _TEXT) if whys else Response(200, b"ok", _TEXT)

    def _in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)

        async def end() -> None:
            task.cancel()
            await asyncio.wait((task,))

        self._parts.push_async_callback(end)


def _loops_of(fleet: NodeAgent) -> tuple[str, ...]:
    return tuple(loop.name for loop in fleet.loops)


def _access_rules(settings: KubeletConfiguration) -> AccessRules:
    authentication, authorization = settings.authentication, settings.authorization
    return AccessRules(
        authentication.anonymous.enabled,
        authentication.webhook.enabled,
        authorization.mode == "AlwaysAllow",
        authentication.webhook.cache_ttl,
        authorization.webhook.cache_authorized_ttl,
        authorization.webhook.cache_unauthorized_ttl,
        settings.enable_debugging_handlers,
    )
