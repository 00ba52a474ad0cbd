# SPDX-License-Identifier: Apache-2.0
"""Port of loopback with the health of the node's network: `kubeloop status` reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kubeloop.cli.local_clusters.network_status import PATH, NetworkComponent
from kubeloop.clock import Clock
from kubeloop.http import HttpLimits, HttpServer, Request, Response, serve

_HOST: Final = "127.0.0.1"
_TEXT: Final = "text/plain; charset=utf-8"


async def open_status_port(components: Callable[[], Sequence[NetworkComponent]], clock: Clock) -> HttpServer:
    """Listen at a free port. Raises OSError."""

    async def respond(request: Request) -> Response:
        if request.path != PATH:
            return Response(404, b"404 page not found\n", _TEXT)
        return Response(200, msgspec.json.encode({"components": components()}), "application/json")

    return await serve(respond, _HOST, 0, None, HttpLimits(), clock)
