# SPDX-License-Identifier: Apache-2.0
"""Cluster DNS server: wires zone, forwarder, handler and sockets, for the program and for use within a process."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from kubeloop.clock import Clock
from kubeloop.dns.forward.addresses import SocketAddress, check_loops
from kubeloop.dns.forward.answer_cache import DEFAULT_TTL, AnswerCache
from kubeloop.dns.forward.forwarder import DnsForwarder, ForwardSettings
from kubeloop.dns.forward.upstream import UpstreamResolver
from kubeloop.dns.listeners import DnsListeners, SocketPair, bind_sockets, close_sockets, socket_address
from kubeloop.dns.server.client_filter import ClientFilter
from kubeloop.dns.server.handler import DnsHandler
from kubeloop.dns.server.metrics import DnsMetrics
from kubeloop.dns.zone.addresses import pack_address
from kubeloop.dns.zone.cluster_zone import ClusterZone
from kubeloop.dns.zone.settings import ZoneSettings
from kubeloop.dns.zone_informers import ZoneInformers
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.informer.list_watch import ListWatchClient


@dataclass(frozen=True, slots=True)
class ClusterDnsSettings:
    """Settings of a server."""

    zone: ZoneSettings = field(default_factory=ZoneSettings)
    bind_addresses: tuple[str, ...] = ("0.0.0.0",)
    port: int = 53
    upstreams: tuple[SocketAddress, ...] = ()
    cache_ttl: int = DEFAULT_TTL  # seconds at most; 0 caches nothing
    forward: ForwardSettings = field(default_factory=ForwardSettings)
    is_logging: bool = False  # one line for every query
    clients: tuple[str, ...] = ()  # networks of the clients that are answered; without any, all are


class ClusterDns:
    """DNS server of a cluster: binds its sockets at construction, answers from `start` to `close`."""

    def __init__(
        self,
        client: ListWatchClient,
        clock: Clock,
        settings: ClusterDnsSettings,
        registry: MetricRegistry | None = None,
    ) -> None:
        self._sockets: list[SocketPair] = bind_sockets(settings.bind_addresses, settings.port)
        self.addresses: tuple[SocketAddress, ...] = tuple(map(socket_address, self._sockets))
        try:
            check_loops(settings.upstreams, self.addresses)
        except ValueError:
            close_sockets(self._sockets)
            raise
        self.registry = registry or MetricRegistry()
        self.zone = ClusterZone(_with_addresses(settings.zone, self.addresses), clock)
        self._informers = SharedInformerFactory(client, clock)
        self._source = ZoneInformers(self.zone, self._informers)
        metrics = DnsMetrics(self.registry, f"dns://:{self.addresses[0][1]}")
        handler = DnsHandler(self.zone, _new_forwarder(settings, clock, metrics), clock, is_logging=settings.is_logging)
        self.clients = ClientFilter(settings.clients)
        self._listeners = DnsListeners(handler, metrics, self.clients)
        self._syncing: asyncio.Task[None] | None = None

    @property
    def unready_reasons(self) -> list[str]:
        """Resources that are not known yet; empty when the server is ready."""
        return [] if self.zone.is_synced else self._source.unsynced or ["kubernetes"]

    async def start(self) -> None:
        """Listen. Until all objects are known, questions about the cluster are answered by SERVFAIL."""
        self._informers.start()
        self._syncing = asyncio.create_task(self._source.wait_synced(), name="sync of the cluster zone")
        await self._listeners.listen(self._sockets)
        self._sockets = []

    async def wait_ready(self) -> None:
        """Wait until all objects are known."""
        if self._syncing is None:
            raise RuntimeError("the DNS server has not been started")
        await asyncio.shield(self._syncing)

    async def close(self) -> None:
        """Close the sockets and stop the informers."""
        close_sockets(self._sockets)
        await self._listeners.close()
        if self._syncing is not None:
            self._syncing.cancel()
            with suppress(asyncio.CancelledError):
                await self._syncing
        await self._informers.stop()


def _with_addresses(settings: ZoneSettings, listening: Sequence[SocketAddress]) -> ZoneSettings:
    """Return the settings with the addresses of this server, unless they are given."""
    if settings.addresses:
        return settings
    own = [ipaddress.ip_address(host) for host, _ in listening]
    usable = [str(one) for one in own if not one.is_loopback and not one.is_unspecified]
    return replace(settings, addresses=tuple(packed for text in usable if (packed := pack_address(text)) is not None))


def _new_forwarder(settings: ClusterDnsSettings, clock: Clock, metrics: DnsMetrics) -> DnsForwarder | None:
    """Return the forwarder; None without upstreams: names outside of the cluster are refused."""
    if not settings.upstreams:
        return None
    cache = AnswerCache(clock, settings.cache_ttl)
    metrics.watch_cache(cache)
    upstreams = [UpstreamResolver(address, clock) for address in settings.upstreams]
    forwarder = DnsForwarder(upstreams, cache, clock, settings.forward, metrics.observe_exchange)
    metrics.watch_forwarder(forwarder)
    return forwarder
