# SPDX-License-Identifier: Apache-2.0
"""`kubeloop network`: the pod network and the network policies of one node."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

from kubeloop import __version__
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.network.status_port import StatusPort
from kubeloop.cli.program.announcement import Announce, print_line
from kubeloop.cli.program.foreground import run_in_foreground
from kubeloop.client import Client
from kubeloop.client.config.server_config import ServerConfig, in_cluster, load_config
from kubeloop.client.errors import ConfigError
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import Clock, SystemClock
from kubeloop.metrics import MetricRegistry
from kubeloop.network.agent import PodNetworkConfig
from kubeloop.network.app import COMPONENT, NetworkApp, NetworkConfig, NodeInterfaces
from kubeloop.network.backends import HostGatewayBackend, NetworkBackend, VxlanBackend
from kubeloop.network.cni.cni_config import CniSettings
from kubeloop.network.desired_state import BGP, HOST_GW, VxlanSettings
from kubeloop.network.netlink.kernel import NetlinkKernel
from kubeloop.nftables import NftablesUnavailable
from kubeloop.nftables.library import open_nftables
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.runtime.controller import Telemetry

_CLOSE_SECONDS = 1.0
_SOCKET = "cni.sock"

log = logging.getLogger(__name__)


def run_network(options: argparse.Namespace) -> int:
    """Run the program; returns the exit code."""
    started: list[NetworkProgram] = []

    async def start() -> NetworkProgram:
        check_requirements()
        program = NetworkProgram(options, SystemClock())
        await program.start()
        started.append(program)
        return program

    code = run_in_foreground(start, logging_format=options.logging_format, verbosity=options.v)
    return code or int(any(program.has_failed for program in started))


def check_requirements() -> None:
    """Check the user and the libraries. Raises StartupError."""
    if os.geteuid() != 0:
        raise StartupError("kubeloop network changes the kernel's network: it must run as root")
    try:
        import pyroute2  # noqa: F401
    except ImportError:
        raise StartupError("kubeloop network needs pyroute2: pip install 'kubeloop[node]'") from None


class NetworkProgram:
    """Process of one node."""

    def __init__(self, options: argparse.Namespace, clock: Clock, announce: Announce = print_line) -> None:
        self._options = options
        self._clock = clock
        self._announce = announce
        self._parts = AsyncExitStack()
        self._app: NetworkApp | None = None
        self.has_failed = False

    @property
    def problem(self) -> str:
        """Reason why the pod network or its policies are not in force; empty if they are."""
        if self._app is None:
            return "it has not started"
        return self._app.problem or ("" if self._app.is_ready else "the pod network is not complete")

    async def start(self) -> None:
        """Listen and start the loops; the API server may not be available yet. Raises StartupError."""
        options, clock, telemetry = self._options, self._clock, Telemetry()
        try:
            transport = HttpTransport(_server_of(options.kubeconfig), clock, on_warning=log.debug)
            backend = _backend_of(options, telemetry.registry)
            nftables = await open_nftables()
        except (ConfigError, ValueError, NftablesUnavailable) as error:
            raise StartupError(str(error)) from None
        self._parts.push_async_callback(transport.close)
        self._parts.push_async_callback(nftables.close)
        client = Client(CauseTransport(transport), user_agent=COMPONENT)
        kernel = NetlinkKernel()
        self._parts.callback(kernel.close)
        interfaces = NodeInterfaces(backend, kernel, nftables)
        app = self._app = NetworkApp(client, clock, telemetry, interfaces, config_of(options))
        if options.healthz_port:
            pages = StatusPort(app, telemetry.registry)
            server = await pages.open(options.healthz_bind_address, options.healthz_port, clock)
            self._parts.push_async_callback(server.close, _CLOSE_SECONDS)
        self._run_in_background(app)
        self._announce(f"kubeloop network {__version__} is running: node {options.node_name}, {options.backend}")

    async def close(self) -> None:
        """Stop the loops. Routes, rules and files stay: pods keep their network."""
        await self._parts.aclose()

    def _run_in_background(self, app: NetworkApp) -> None:
        task = asyncio.create_task(self._run(app), name=COMPONENT)

        async def end() -> None:
            task.cancel()
            await asyncio.wait((task,))

        self._parts.push_async_callback(end)

    async def _run(self, app: NetworkApp) -> None:
        """Run the loops; end the program on a failure, so that its supervisor restarts it."""
        try:
            await app.run()
        except Exception:
            log.exception("the network agent failed")
            self.has_failed = True
            signal.raise_signal(signal.SIGTERM)


def _server_of(kubeconfig: str) -> ServerConfig:
    if kubeconfig:
        return load_config(kubeconfig)
    try:
        return in_cluster(os.environ)
    except ConfigError as error:
        raise ConfigError(f"--kubeconfig is required outside of a cluster: {error}") from None


def _backend_of(options: argparse.Namespace, registry: MetricRegistry) -> NetworkBackend:
    if options.backend == HOST_GW:
        return HostGatewayBackend()
    if options.backend == BGP:
        from kubeloop.cli.network.bgp import bgp_backend

        return bgp_backend(options, registry)
    return VxlanBackend(VxlanSettings(options.vxlan_vni, options.vxlan_port))


def config_of(options: argparse.Namespace) -> NetworkConfig:
    """Build the settings from flags."""
    reports = options.network_policy and bool(options.cni_bin_dir) and bool(options.cni_conf_dir)
    cni = CniSettings(
        main_plugin=options.cni_plugin,
        chain=options.cni_chain,
        data_dir=options.cni_data_dir,
        report_socket=str(options.run_dir / _SOCKET) if reports else "",
    )
    pod_network = PodNetworkConfig(
        node_name=options.node_name,
        cni=cni,
        cni_folder=Path(options.cni_conf_dir) if options.cni_conf_dir else None,
        mtu=options.mtu,
        node_ips=options.node_ip,
        masquerades=options.masquerade,
        internal_networks=options.cluster_cidr,
    )
    sandboxes = None
    if options.container_runtime_endpoint:
        from kubeloop.cli.network.sandboxes import sandbox_lister

        sandboxes = sandbox_lister(options.container_runtime_endpoint)
    plugins = Path(options.cni_bin_dir) if reports else None
    return NetworkConfig(pod_network, options.network_policy, plugins, sandboxes)
