"""Whether a server says that it is ready: a question that needs neither an identity nor trust."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

_QUESTION = b"GET /readyz HTTP/1.1\r\nHost: kubeloop\r\nConnection: close\r\n\r\n"


def trusting() -> ssl.SSLContext:
    """Believes everybody. Whoever is asked is told nothing that is secret."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def says_ready(address: tuple[str, int], context: ssl.SSLContext) -> bool:
    """Its answer; `OSError` when there is none. How long to wait for one is the caller's choice."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        await writer.start_tls(context)
        writer.write(_QUESTION)
        return b" 200 " in await reader.readline()
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()
