# SPDX-License-Identifier: Apache-2.0
"""Process of the proxy: its client, informers, events, ports and proxiers."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import urlsplit

from kubeloop import __version__
from kubeloop.api.features.effects import PROXY
from kubeloop.api.generated.core_v1 import ObjectReference
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.flags.runtime_config import warn_ineffective_gates
from kubeloop.cli.program.announcement import Announce, print_line
from kubeloop.cli.proxy.flags import ProxyOptions
from kubeloop.cli.proxy.pages import COMPONENT, ProxyPages
from kubeloop.cli.proxy.startup import check_table_support, prepare_kernel, server_of, wait_file_changed
from kubeloop.client import Client
from kubeloop.client.config.server_config import ServerConfig
from kubeloop.client.errors import ConfigError
from kubeloop.client.http.rate_limit import TokenBucket
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import Clock
from kubeloop.http import Handler, HttpLimits, serve
from kubeloop.metrics import MetricRegistry
from kubeloop.nftables import Nftables, NftablesError
from kubeloop.nftables.library import open_nftables
from kubeloop.proxy.app import ProxyApp, ProxyContext, build_proxy
from kubeloop.proxy.health.proxy_health import HealthzHandler, ProxyHealth
from kubeloop.proxy.ip_family import IPFamily
from kubeloop.proxy.kernel.settings import KernelSettingsError, supported_families
from kubeloop.proxy.metrics import ProxyMetrics
from kubeloop.proxy.node_addresses import detect_node_ips
from kubeloop.proxy.node_manager import NodeError, NodeManager
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.standard_metrics import RestClientMetrics

_CLOSE_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 5.0
_FLUSH_SECONDS: Final = 1.0
_HEALTH_FACTOR: Final = 2  # sync periods after which a waiting change makes the proxy unhealthy

log = logging.getLogger(__name__)


class ProxyProgram:
    """Process with its ports and proxiers."""

    def __init__(
        self, options: ProxyOptions, flags: dict[str, str], clock: Clock, announce: Announce = print_line
    ) -> None:
        self._options = options
        self._config = options.config
        self._clock = clock
        self._flags = flags
        self._announce = announce
        self._registry = MetricRegistry()
        self._metrics = ProxyMetrics(self._registry)
        self._health = ProxyHealth(clock, _HEALTH_FACTOR * self._config.nftables.sync_period)
        self._manager: NodeManager | None = None
        self._parts = AsyncExitStack()
        self.has_failed = False

    @property
    def problem(self) -> str:
        """Reason why Services do not follow the API; empty if they do."""
        if not self._health.has_synced:
            return "the tables have not been written yet"
        return "" if self._health.is_healthy else "a change of the tables is late"

    async def start(self) -> None:
        """Check the machine, then continue in the background: the API server may not be available yet."""
        for text in self._options.warnings:
            log.warning("%s", text)
        gates = self._config.feature_gates
        warn_ineffective_gates((f"{name}={str(value).lower()}" for name, value in gates.items()), PROXY)
        try:
            server = server_of(self._options)
            prepare_kernel(self._config)
            nftables = await open_nftables()
        except (ConfigError, KernelSettingsError, NftablesError) as error:
            raise StartupError(str(error)) from None
        self._parts.push_async_callback(nftables.close)
        families = supported_families()
        try:
            await check_table_support(nftables, families)
        except NftablesError as error:
            await self._parts.aclose()
            raise StartupError(f"nftables cannot hold the proxy's tables: {error}") from None
        self._in_background(self._run_or_end(server, nftables, families), "proxy")

    async def close(self) -> None:
        """Stop; the tables stay, so that Services keep working."""
        await self._parts.aclose()

    async def _run_or_end(self, server: ServerConfig, nftables: Nftables, families: tuple[IPFamily, ...]) -> None:
        """Run the proxy; end the program on a failure, so that it is restarted by its supervisor."""
        try:
            await self._run(server, nftables, families)
        except* (NodeError, StartupError) as found:
            log.error("the proxy ends: %s", found.exceptions[0])
        except* Exception:
            log.exception("the proxy failed")
        self.has_failed = True
        signal.raise_signal(signal.SIGTERM)

    async def _run(self, server: ServerConfig, nftables: Nftables, families: tuple[IPFamily, ...]) -> None:
        async with AsyncExitStack() as parts:
            client = self._client(server, parts)
            recorder = EventRecorder(client, COMPONENT, self._clock, host=self._options.node_name, series=True)
            informers = SharedInformerFactory(client, self._clock)
            needs_pods = self._config.detect_local_mode == "NodeCIDR"
            self._manager = NodeManager(informers, self._options.node_name, needs_pod_cidrs=needs_pods)
            context = ProxyContext(
                self._config,
                self._options.node_name,
                informers,
                nftables,
                self._clock,
                self._metrics,
                self._health,
                recorder,
            )
            informers.start()
            parts.push_async_callback(informers.stop)
            async with asyncio.TaskGroup() as group:
                group.create_task(recorder.run(), name="events")
                parts.push_async_callback(recorder.flush, _FLUSH_SECONDS)
                group.create_task(self._serve_health(recorder), name="healthz")
                group.create_task(self._serve_metrics(recorder), name="metrics")
                await self._manager.settle()
                app = self._build(context, self._manager, families)
                parts.push_async_callback(app.close)
                recorder.event(
                    _node_reference(self._options.node_name), "Normal", "Starting", "", action="StartKubeProxy"
                )
                group.create_task(app.run(), name="proxiers")
                group.create_task(self._manager.watch(), name="node")
                group.create_task(self._watch_config(), name="configuration file")
                self._announce(f"kubeloop proxy {__version__} is running: node {self._options.node_name}")

    async def _watch_config(self) -> None:
        """End the program when its configuration file changes, so that it is started again with the new one."""
        if self._options.config_file is not None:
            await wait_file_changed(self._options.config_file)
            raise StartupError("content of the proxy server's configuration file was updated")

    def _client(self, server: ServerConfig, parts: AsyncExitStack) -> Client:
        connection = self._config.client_connection
        transport = HttpTransport(server, self._clock, on_warning=log.debug)
        parts.push_async_callback(transport.close)
        metrics = RestClientMetrics(self._registry, urlsplit(server.server).netloc)
        limiter = TokenBucket(connection.qps, connection.burst, self._clock) if connection.qps > 0 else None
        return Client(transport, user_agent=COMPONENT, limiter=limiter, metrics=metrics)

    def _build(self, context: ProxyContext, manager: NodeManager, families: tuple[IPFamily, ...]) -> ProxyApp:
        node_ips = detect_node_ips(manager.host_ips, self._config.bind_address)
        if node_ips.primary not in families:
            raise StartupError(f'no support for primary IP family "{node_ips.primary}"')
        log.info("node IPs %s, families %s", dict(node_ips.by_family), ", ".join(map(str, families)))
        return build_proxy(context, manager, node_ips, families)

    async def _serve_health(self, recorder: EventRecorder) -> None:
        handler = HealthzHandler(self._health, lambda: self._manager.node if self._manager else None, self._metrics)
        await self._serve(
            handler.handle, self._config.healthz_bind_address, recorder, "FailedToStartProxierHealthcheck"
        )

    async def _serve_metrics(self, recorder: EventRecorder) -> None:
        pages = ProxyPages(self._config, self._registry, self._flags, self._clock)
        await self._serve(pages.handle, self._config.metrics_bind_address, recorder, "FailedToStartMetricServer")

    async def _serve(self, handler: Handler, address: str, recorder: EventRecorder, reason: str) -> None:
        """Serve until cancelled; a port in use is tried again, or ends the program with bindAddressHardFail."""
        if not address:
            return
        host, _, port = address.rpartition(":")
        while True:
            try:
                server = await serve(handler, host.strip("[]"), int(port), None, HttpLimits(), self._clock)
                break
            except OSError as error:
                message = f"failed to listen at {address}: {error.strerror or error}"
                log.error("%s", message)
                if self._config.bind_address_hard_fail:
                    about = _node_reference(self._options.node_name)
                    recorder.event(about, "Warning", reason, message, action="StartKubeProxy")
                    raise StartupError(message) from None
            await asyncio.sleep(_RETRY_SECONDS)
        try:
            await asyncio.get_running_loop().create_future()  # until cancelled
        finally:
            await server.close(_CLOSE_SECONDS)

    def _in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)

        async def end() -> None:
            task.cancel()
            await asyncio.wait((task,))

        self._parts.push_async_callback(end)


def _node_reference(name: str) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Node", name=name)
