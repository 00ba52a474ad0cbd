# SPDX-License-Identifier: Apache-2.0
"""Readiness probe of a server without credentials and without verifying its certificate."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

_REQUEST = b"GET /readyz HTTP/1.1\r\nHost: kubeloop\r\nConnection: close\r\n\r\n"


def insecure_context() -> ssl.SSLContext:
    """Return a TLS context that accepts any certificate; nothing secret is sent."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def is_ready(address: tuple[str, int], context: ssl.SSLContext) -> bool:
    """Return True if the server reports ready; raises `OSError` without an answer. The caller sets the timeout."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        await writer.start_tls(context)
        writer.write(_REQUEST)
        return b" 200 " in await reader.readline()
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()
