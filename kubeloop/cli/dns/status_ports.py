# SPDX-License-Identifier: Apache-2.0
"""HTTP ports of the DNS server: /health, /ready and /metrics, as CoreDNS has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubeloop.clock import Clock
from kubeloop.dns.cluster_dns import ClusterDns
from kubeloop.http import Handler, HttpLimits, HttpServer, Request, Response, serve

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_CLOSE_SECONDS = 1.0

Page = Callable[[], Response]


class DnsStatusPorts:
    """Pages about a server, each on its own port; equal ports are opened once."""

    def __init__(self, server: ClusterDns, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._opened: list[HttpServer] = []
        self._is_ending = False

    async def open(self, host: str, ports: Mapping[str, int]) -> dict[str, int]:
        """Open ports by path; returns the ports, whose numbers were chosen if 0 was requested."""
        pages: dict[str, Page] = {"/health": self._health, "/ready": self._ready, "/metrics": self._metrics}
        found: dict[str, int] = {}
        for number in dict.fromkeys(ports.values()):
            paths = {path: pages[path] for path, port in ports.items() if port == number}
            server = await serve(_handler(paths), host, number, None, HttpLimits(), self._clock)
            self._opened.append(server)
            found.update(dict.fromkeys(paths, server.port))
        return found

    def begin_end(self) -> None:
        """Report the server as unhealthy: it is about to end."""
        self._is_ending = True

    async def close(self) -> None:
        """Close the ports."""
        for server in self._opened:
            await server.close(_CLOSE_SECONDS)

    def _health(self) -> Response:
        return Response(503, b"shutting down", _TEXT) if self._is_ending else Response(200, b"OK", _TEXT)

    def _ready(self) -> Response:
        reasons = self._server.unready_reasons
        return Response(503, ",".join(reasons).encode(), _TEXT) if reasons else Response(200, b"OK", _TEXT)

    def _metrics(self) -> Response:
        return Response(200, self._server.registry.render().encode(), _METRICS)


def _handler(pages: Mapping[str, Page]) -> Handler:
    async def handle(request: Request) -> Response:
        page = pages.get(request.path)
        if page is None:
            return Response(404, b"404 page not found\n", _TEXT)
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"method not allowed\n", _TEXT)
        return page()

    return handle
