# SPDX-License-Identifier: Apache-2.0
"""`kubeloop dns`: serves the cluster's DNS until a signal, then for the lameduck time."""

from __future__ import annotations

import argparse
import asyncio

from kubeloop import __version__
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.dns.flags import settings_of
from kubeloop.cli.dns.status_ports import DnsStatusPorts
from kubeloop.cli.program.announcement import Announce, print_line
from kubeloop.cli.program.foreground import run_in_foreground
from kubeloop.client import Client
from kubeloop.client.config.server_config import load_config
from kubeloop.client.errors import ConfigError
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import SystemClock
from kubeloop.dns.cluster_dns import ClusterDns
from kubeloop.dns.forward.addresses import SocketAddress, UpstreamError
from kubeloop.dns.server.client_filter import ClientFilter
from kubeloop.metrics import MetricRegistry
from kubeloop.metrics.process import register_process_metrics

_USER_AGENT = "kubeloop-dns"
_QUERY_LOG_LEVEL = 2  # of --v, from which equal lines are not counted instead of written


def run_dns(options: argparse.Namespace) -> int:
    """Run the DNS server; returns the exit code."""

    async def start() -> DnsProgram:
        try:
            program = DnsProgram(options)
        except (ConfigError, UpstreamError) as error:
            raise StartupError(str(error)) from None
        try:
            await program.start()
        except BaseException:
            await program.close(lameduck=0)
            raise
        return program

    verbosity = max(options.v, _QUERY_LOG_LEVEL) if options.log_queries else options.v
    return run_in_foreground(start, logging_format=options.logging_format, verbosity=verbosity)


class DnsProgram:
    """DNS server with its client and status ports."""

    def __init__(self, options: argparse.Namespace, announce: Announce = print_line) -> None:
        clock = SystemClock()
        settings = settings_of(options)
        self._options = options
        self._announce = announce
        self._client = Client(HttpTransport(load_config(options.kubeconfig or None), clock), user_agent=_USER_AGENT)
        registry = MetricRegistry()
        register_process_metrics(registry)
        self._server = ClusterDns(self._client, clock, settings, registry)
        self._ports = DnsStatusPorts(self._server, clock)

    @property
    def addresses(self) -> tuple[SocketAddress, ...]:
        """Addresses and ports that the server listens at."""
        return self._server.addresses

    @property
    def clients(self) -> ClientFilter:
        """Filter of the clients, whose addresses can be replaced."""
        return self._server.clients

    @property
    def problem(self) -> str:
        """Reason why the server cannot answer yet; empty if it can."""
        missing = self._server.unready_reasons
        return f"waiting for {', '.join(missing)}" if missing else ""

    async def start(self) -> None:
        """Open all ports and announce where; the server is ready when it knows the cluster's objects."""
        options = self._options
        asked = {"/health": options.health_port, "/ready": options.ready_port, "/metrics": options.metrics_port}
        host = self._server.addresses[0][0]
        await self._ports.open(host, {path: port for path, port in asked.items() if port})
        await self._server.start()
        where = ", ".join(f"[{own}]:{port}" if ":" in own else f"{own}:{port}" for own, port in self._server.addresses)
        self._announce(f"kubeloop dns {__version__} is listening at {where}")

    async def close(self, lameduck: float | None = None) -> None:
        """Answer during the lameduck time, then close everything."""
        self._ports.begin_end()
        await asyncio.sleep(self._options.lameduck if lameduck is None else lameduck)
        await self._server.close()
        await self._ports.close()
        await self._client.close()
