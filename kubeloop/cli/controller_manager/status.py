# SPDX-License-Identifier: Apache-2.0
"""`kubeloop controller-manager status`: shows the status of a running manager's controllers."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubeloop.api.errors import ApiError
from kubeloop.cli.program.output import format_document, format_table
from kubeloop.client.config.server_config import Pem, ServerConfig, load_config
from kubeloop.client.errors import ClientError
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import SystemClock

_SECONDS = 10.0
_HEAD = ("LOOP", "STATE", "QUEUE", "ACTIVE", "RATE", "LATENCY", "DONE", "ERRORS", "RESTARTS", "REASON")


def run_status(options: argparse.Namespace) -> int:
    """Print the status; returns 0 if all controllers are healthy, 1 if not or without an answer."""
    try:
        found = asyncio.run(_ask(options))
    except (ApiError, ClientError, TimeoutError) as error:
        print(f"kubeloop: {options.server}: {str(error) or 'no response'}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader of a pipe may close it
    print(format_document(found, options.output) if options.output else format_status(found))
    return 0 if all(loop["healthy"] for loop in found["loops"]) else 1


async def _ask(options: argparse.Namespace) -> Any:
    config = config_for_manager(load_config(getattr(options, "kubeconfig", None) or None), options)
    transport = HttpTransport(config, SystemClock())
    try:
        async with asyncio.timeout(_SECONDS):
            return await transport.document("/loops")
    finally:
        await transport.close()


def config_for_manager(known: ServerConfig, options: argparse.Namespace) -> ServerConfig:
    """Return the kubeconfig's credentials for the manager's address."""
    authorities = [options.certificate_authority.read_bytes()] if options.certificate_authority.exists() else []
    authorities.append(known.authority.data or (Path(known.authority.file).read_bytes() if known.authority else b""))
    trusted = Pem(data=b"\n".join(authorities))
    return replace(known, server=options.server, authority=trusted, server_name="", insecure=False, proxy_url="")


def format_status(found: Any) -> str:
    """Format the status as a table."""
    leader = found["leader"] or "none"
    role = "this manager is the leader" if found["leading"] else "this manager is a standby"
    return f"{format_table([_HEAD, *map(_row, found['loops'])])}\nleader: {leader} ({role})"


def _row(loop: Any) -> tuple[str, ...]:
    latency = f"{loop['latency'] * 1000:.1f}ms" if loop["latency"] else "-"
    failed = f"{loop['lastErrorKey']}: {loop['lastError']}" if loop["lastError"] else loop["lastFailure"]
    return (
        loop["name"],
        loop["state"] if loop["healthy"] else f"{loop['state']}, unhealthy",
        str(loop["depth"] + loop["delayed"]),
        f"{loop['active']}/{loop['workers']}",
        f"{loop['rate']:.1f}/s",
        latency,
        str(loop["reconciles"]),
        str(loop["errors"]),
        str(loop["restarts"]),
        loop["why"] or failed or "-",
    )
