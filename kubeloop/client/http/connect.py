# SPDX-License-Identifier: Apache-2.0
"""Factory for clients over HTTP."""

from __future__ import annotations

from kubeloop.client.client import DEFAULT_TIMEOUT, Client
from kubeloop.client.config.server_config import ServerConfig, load_config
from kubeloop.client.http.rate_limit import DEFAULT_BURST, DEFAULT_QPS, TokenBucket
from kubeloop.client.http.transport import HttpTransport
from kubeloop.client.metrics import ClientMetrics
from kubeloop.clock import Clock, SystemClock


def connect(
    config: ServerConfig | None = None,
    *,
    qps: float = DEFAULT_QPS,
    burst: int = DEFAULT_BURST,
    user_agent: str = "kubeloop",
    clock: Clock | None = None,
    metrics: ClientMetrics | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
) -> Client:
    """Return a client limited to `qps` calls per second (0: unlimited); connects on first use."""
    clock = clock or SystemClock()
    transport = HttpTransport(config or load_config(), clock, metrics=metrics)
    limiter = TokenBucket(qps, burst, clock) if qps > 0 else None
    return Client(transport, user_agent=user_agent, limiter=limiter, metrics=metrics, timeout=timeout)
