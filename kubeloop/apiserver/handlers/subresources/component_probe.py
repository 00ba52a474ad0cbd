# SPDX-License-Identifier: Apache-2.0
"""Probes of the health endpoints of other components on this machine, for componentstatuses."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from kubeloop.api.generated.core_v1 import ComponentCondition
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable, dial

_HOST: Final = "127.0.0.1"
_PATH: Final = "/healthz"
_SECONDS: Final = 20.0
_LONGEST_BODY: Final = 10 << 10


async def probe_component(port: int) -> ComponentCondition:
    """Return the condition of the component on a port of this machine; its certificate is not verified."""
    url = f"https://{_HOST}:{port}{_PATH}"
    try:
        async with asyncio.timeout(_SECONDS):
            status, body = await _get(port)
    except TimeoutError:
        return _unhealthy(f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)')
    except RemoteUnreachable as error:
        return _unhealthy(f'Get "{url}": {error}')
    if not 200 <= status < 400:
        return _unhealthy(f"HTTP probe failed with statuscode: {status}")
    return ComponentCondition(type="Healthy", status="True", message=body.decode(errors="replace"))


async def _get(port: int) -> tuple[int, bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = await dial(_HOST, port, context, "", _SECONDS)
    try:
        request = f"GET {_PATH} HTTP/1.1\r\nHost: {_HOST}:{port}\r\nUser-Agent: kube-probe/1.37\r\nAccept: */*\r\n\r\n"
        head = await connection.exchange(request.encode())
        return head.status, await connection.read_body(_LONGEST_BODY)
    finally:
        connection.abort()


def _unhealthy(why: str) -> ComponentCondition:
    return ComponentCondition(type="Healthy", status="False", message=why)
