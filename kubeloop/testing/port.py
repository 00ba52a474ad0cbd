# SPDX-License-Identifier: Apache-2.0
"""Port of a cluster: TLS and an admin kubeconfig for external programs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.server import tls_context
from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.cli.pki.kubeconfig import admin_kubeconfig, server_url
from kubeloop.clock import Clock, SystemClock
from kubeloop.http import HttpHooks, serve
from kubeloop.testing.plane import CONFIG

HOST = "127.0.0.1"
_FINISH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """URL and kubeconfig of a cluster."""

    url: str
    port: int
    kubeconfig: Path


def keys_in(folder: Path) -> Pki:
    """Return certificates that are valid by the wall clock, whatever time it is in the cluster."""
    return ensure_pki(folder / "pki", ["localhost", HOST], SystemClock().now())


@asynccontextmanager
async def open_cluster_port(app: ApiServer, clock: Clock, pki: Pki, folder: Path) -> AsyncIterator[ClusterAddress]:
    """Listen on a free port of the loopback interface."""
    config = replace(
        CONFIG, certificate=pki.serving_certificate, key=pki.serving_key, client_authorities=(pki.ca,), port=0
    )
    hooks = HttpHooks(reject=app.rejection_response, on_error=app.internal_error_response, handles_large_bodies=True)
    listener = await serve(app.handle, HOST, 0, tls_context(config), config.limits, clock, hooks)
    try:
        url = server_url(HOST, listener.port)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(admin_kubeconfig(pki, pki.ca, url))
        yield ClusterAddress(url, listener.port, kubeconfig)
    finally:
        app.registry.close_watches()
        await listener.close(_FINISH_SECONDS)
