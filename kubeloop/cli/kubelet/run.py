# SPDX-License-Identifier: Apache-2.0
"""`kubeloop kubelet`: the node agent against any API server, for one node or for many simulated ones.

flags ─▶ ports listen, with a certificate ─▶ (no kubeconfig yet: TLS bootstrap) ─▶ fleet: registers, runs pods
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kubeloop import __version__
from kubeloop.api.generated.core_v1 import Taint
from kubeloop.api.kubelet_requests import SERVING_CERTIFICATE_ANNOTATION
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.flags.values import flag_values
from kubeloop.cli.kubelet.certificates import KubeletCertificates
from kubeloop.cli.kubelet.flags import NodeNames, names_of
from kubeloop.cli.kubelet.server import AccessRules, KubeletAccess, KubeletPorts
from kubeloop.cli.kubelet.zpages import kubelet_zpages
from kubeloop.cli.local_clusters.registry import state_dir
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
from kubeloop.kubelet.node_status.registration import KubeletEndpoint, NodeShape
from kubeloop.kubelet.simulated.stages import StageError, read_rules
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.manager import LoopManager

if TYPE_CHECKING:
    from kubeloop.kubelet.cri.node import CriNodeConfig

_QPS = 50  # the kubelet's; nodes by the hundred need more
_DRAIN_SECONDS = 0.5
_CLOSE_SECONDS = 1.0
_LOOKUP_TIMEOUT = 5.0
_TEXT = "text/plain; charset=utf-8"

log = logging.getLogger(__name__)


def _print(line: str) -> None:
    print(line, flush=True)


def run_kubelet(options: argparse.Namespace) -> int:
    """Run the kubelet; returns the exit code."""
    started: list[KubeletProgram] = []

    async def start() -> KubeletProgram:
        try:
            program = KubeletProgram(options, names_of(options), SystemClock())
            await program.start()
        except (ValueError, ConfigError, StageError) as error:
            raise StartupError(str(error)) from None
        started.append(program)
        return program

    code = run_in_foreground(start, logging_format=options.logging_format, verbosity=options.v)
    return code or int(any(program.has_failed for program in started))


@dataclass(frozen=True, slots=True)
class _Agent:
    """Components that run once the node has its credentials."""

    client: Client
    informers: SharedInformerFactory
    fleet: NodeAgent
    manager: LoopManager


class KubeletProgram:
    """Process with the ports of its nodes, and the nodes."""

    def __init__(
        self, options: argparse.Namespace, names: NodeNames, clock: Clock, announce: Callable[[str], None] = _print
    ) -> None:
        self._options = options
        self._names = names
        self._clock = clock
        self._announce = announce  # called with one line once all nodes are registered
        self._registered = asyncio.Event()
        self._parts = AsyncExitStack()
        self._ports = KubeletPorts()
        self._agent: _Agent | None = None
        self.has_failed = False
        self._zpages = kubelet_zpages(flag_values(options), clock)
        self._rules = tuple(read_rules(options.node_stages)) if options.node_stages is not None else ()
        folder = options.cert_dir or state_dir() / "kubelet" / names.all[0]
        self._serving = KubeletCertificates(options, names.all, folder, clock)

    async def start(self) -> None:
        """Listen, then continue in the background: the API server may not be available yet."""
        options = self._options
        self._check_identity()
        if options.container_runtime_endpoint and self._names.count:
            raise StartupError("--container-runtime-endpoint runs one real node: it excludes --nodes")
        self._parts.push_async_callback(self._ports.close)
        try:
            for number, name in enumerate(self._names.all):
                port = options.port + number if options.port else 0
                await self._ports.listen(name, options.address, port, self._serving.tls, self._clock)
        except StartupError:
            await self._parts.aclose()
            raise
        await self._open_health()
        self._in_background(self._run_or_end(), "nodes")

    def _check_identity(self) -> None:
        """Check that the kubeconfigs are readable; the connection is not tested."""
        options = self._options
        if options.bootstrap_kubeconfig is not None and self._names.count:
            raise StartupError("--bootstrap-kubeconfig requires a single node: every node has its own certificate")
        bootstraps = options.bootstrap_kubeconfig is not None and not options.kubeconfig.is_file()
        load_config(options.bootstrap_kubeconfig if bootstraps else options.kubeconfig)

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
        except Exception:
            log.exception("the nodes failed")
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
        qps = options.kube_api_qps if options.kube_api_qps is not None else 0 if self._names.count else _QPS
        limiter = TokenBucket(qps, options.kube_api_burst, clock) if qps else None
        client = Client(CauseTransport(transport), user_agent=COMPONENT, limiter=limiter)
        informers = SharedInformerFactory(client, clock)
        cri = await self._real_node()
        fleet = NodeAgent(client, informers, clock, self._config(cri))
        parts.push_async_callback(fleet.close)
        await fleet.start()
        self._ports.start_serving(fleet.dialer, fleet.get_pod, KubeletAccess(client, clock, _access_rules(options)))
        informers.start()
        parts.push_async_callback(informers.stop)
        return _Agent(client, informers, fleet, LoopManager(fleet.loops, clock, name=COMPONENT))

    async def _real_node(self) -> CriNodeConfig | None:
        """Connect to the container runtime, if one is given; waits until it answers."""
        if not self._options.container_runtime_endpoint:
            return None
        from kubeloop.cli.kubelet.real_node import real_node_config

        return await real_node_config(self._options, self._names.one, self._serving.address)

    def _shape(self, cri: CriNodeConfig | None) -> NodeShape:
        options = self._options
        shape = NodeShape(
            pods=str(options.max_pods),
            labels=options.node_labels,
            annotations={SERVING_CERTIFICATE_ANNOTATION: self._serving.fingerprint},
            taints=msgspec.convert(options.register_with_taints, tuple[Taint, ...]),
        )
        if cri is None:
            return shape
        from kubeloop.cli.kubelet.real_node import machine_shape

        return machine_shape(shape, cri)

    def _config(self, cri: CriNodeConfig | None) -> NodeAgentConfig:
        options = self._options
        address = self._serving.address
        return NodeAgentConfig(
            shape=self._shape(cri),
            cri=cri,
            event_level=options.node_events if cri is None else "all",
            rules=self._rules,
            static_pods=options.pod_manifest_path,
            pages=self._zpages,
            standalone=StandaloneConfig(
                {name: KubeletEndpoint(address, port) for name, port in self._ports.numbers.items()},
                has_node_rights_only=not self._names.count,
                register_nodes=options.register_node,
                max_heartbeat_seconds=options.node_status_update_frequency,
            ),
        )

    async def _tell_when_registered(self, fleet: NodeAgent) -> None:
        await fleet.wait_registered()
        names, ports = self._names.all, list(self._ports.numbers.values())
        which = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        where = f"{ports[0]}" if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
        self._announce(f"kubeloop kubelet {__version__} is ready: node {which} at port {where}")
        self._registered.set()

    async def _trust_clients(self, client: Client) -> None:
        given = self._options.client_ca_file
        config = ManagerConfig(client_ca_file=str(given) if given else "")
        authorities = ClientCAs(self._serving.tls, client.with_timeout(_LOOKUP_TIMEOUT), config)
        await authorities.refresh()
        await authorities.run()

    # Health.

    async def _open_health(self) -> None:
        """Open the healthz port; a second program on a machine does without it."""
        options = self._options
        if not options.healthz_port:
            return
        host, port = options.healthz_bind_address, options.healthz_port
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


def _access_rules(options: argparse.Namespace) -> AccessRules:
    return AccessRules(
        options.anonymous_auth,
        options.authentication_token_webhook,
        options.authorization_mode == "AlwaysAllow",
        options.authentication_token_webhook_cache_ttl,
        options.authorization_webhook_cache_authorized_ttl,
        options.authorization_webhook_cache_unauthorized_ttl,
    )
