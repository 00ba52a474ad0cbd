# SPDX-License-Identifier: Apache-2.0
"""Health check node ports: one HTTP server for each Service with the external traffic policy Local."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kubeloop.api.generated.core_v1 import ObjectReference
from kubeloop.clock import Clock
from kubeloop.http import HttpLimits, HttpServer, Request, Response, serve
from kubeloop.proxy.service_port import NamespacedName

_CLOSE_SECONDS: Final = 1.0
_BODY: Final = """{{
	"service": {{
		"namespace": "{namespace}",
		"name": "{name}"
	}},
	"localEndpoints": {count},
	"serviceProxyHealthy": {healthy}
}}
"""

log = logging.getLogger(__name__)


class HealthEvents(Protocol):
    """Recorder of events."""

    def event(self, obj: object, type: str, reason: str, message: str, *, action: str = "") -> None:
        """Record an event."""


class _HealthCheck:
    """Servers of one Service."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.servers: list[HttpServer] = []


class ServiceHealthServer:
    """Health checks of all Services of one IP family. Only the differences of a sync are applied."""

    def __init__(
        self,
        node_name: str,
        listen_addresses: Callable[[], Sequence[str]],
        is_proxy_healthy: Callable[[], bool],
        clock: Clock,
        events: HealthEvents | None = None,
    ) -> None:
        self._node_name = node_name
        self._listen_addresses = listen_addresses
        self._is_proxy_healthy = is_proxy_healthy
        self._clock = clock
        self._events = events
        self._checks: dict[NamespacedName, _HealthCheck] = {}
        self._counts: dict[NamespacedName, int] = {}
        self._failed: dict[NamespacedName, int] = {}  # ports that could not be opened

    async def set_service(self, service: NamespacedName, port: int, local_endpoints: int) -> None:
        """Set the port of a Service (0: none) and the number of its ready endpoints on this node."""
        if port and local_endpoints:
            self._counts[service] = local_endpoints
        else:
            self._counts.pop(service, None)
        self._failed.pop(service, None)
        known = self._checks.get(service)
        if known is not None and known.port != port:
            await self._close(self._checks.pop(service))
        if port and service not in self._checks:
            await self._open(service, port)

    async def retry_failed(self) -> None:
        """Open the ports again that could not be opened, without another event."""
        failed, self._failed = self._failed, {}
        for service, port in failed.items():
            await self._open(service, port, is_retry=True)

    async def close(self) -> None:
        """Close all ports."""
        checks, self._checks = list(self._checks.values()), {}
        await asyncio.gather(*map(self._close, checks))

    async def _open(self, service: NamespacedName, port: int, *, is_retry: bool = False) -> None:
        check = _HealthCheck(port)

        async def handle(request: Request) -> Response:
            return self._respond(service)

        try:
            for address in self._listen_addresses():
                check.servers.append(await serve(handle, address, port, None, HttpLimits(), self._clock))
        except OSError as error:
            await self._close(check)
            self._failed[service] = port
            reason = error.strerror or str(error)
            message = f'node {self._node_name} failed to start healthcheck "{service}" on port {port}: {reason}'
            log.error("%s", message)
            if self._events is not None and not is_retry:
                about = ObjectReference(
                    api_version="v1", kind="Service", namespace=service.namespace, name=service.name
                )
                self._events.event(about, "Warning", "FailedToStartServiceHealthcheck", message, action="Listen")
            return
        self._checks[service] = check

    async def _close(self, check: _HealthCheck) -> None:
        for server in check.servers:
            await server.close(_CLOSE_SECONDS)

    def _respond(self, service: NamespacedName) -> Response:
        count, healthy = self._counts.get(service, 0), self._is_proxy_healthy()
        body = _BODY.format(namespace=service.namespace, name=service.name, count=count, healthy=str(healthy).lower())
        headers = (("X-Content-Type-Options", "nosniff"), ("X-Load-Balancing-Endpoint-Weight", str(count)))
        return Response(200 if count and healthy else 503, body.encode(), "application/json", headers)
