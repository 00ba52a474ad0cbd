# SPDX-License-Identifier: Apache-2.0
"""Health and metrics of `kubeloop network`: /healthz, /livez, /readyz and /metrics."""

from __future__ import annotations

from kubeloop.clock import Clock
from kubeloop.http import HttpLimits, HttpServer, Request, Response, serve
from kubeloop.metrics import MetricRegistry
from kubeloop.network.app import NetworkApp

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class StatusPort:
    """Pages of the program."""

    def __init__(self, app: NetworkApp, registry: MetricRegistry) -> None:
        self._app = app
        self._registry = registry

    async def open(self, host: str, port: int, clock: Clock) -> HttpServer:
        """Listen. Raises OSError."""
        return await serve(self.respond, host, port, None, HttpLimits(), clock)

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        match request.path.rstrip("/"):
            case "/healthz" | "/livez":
                return self._health()
            case "/readyz":
                return Response(200, b"ok", _TEXT) if self._app.is_ready else Response(503, b"not ready\n", _TEXT)
            case "/metrics":
                return Response(200, self._registry.render().encode(), _METRICS)
        return Response(404, b"404 page not found\n", _TEXT)

    def _health(self) -> Response:
        problem = self._app.problem
        return Response(500, f"{problem}\n".encode(), _TEXT) if problem else Response(200, b"ok", _TEXT)
