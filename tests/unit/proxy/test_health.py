# SPDX-License-Identifier: Apache-2.0
"""Health of the proxy and of Services: status, body and headers as upstream's."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from kubeloop.api.generated.core_v1 import Node, NodeSpec, Taint
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.clock import SystemClock
from kubeloop.http import Request
from kubeloop.metrics import MetricRegistry
from kubeloop.proxy.health.proxy_health import TO_BE_DELETED_TAINT, HealthzHandler, ProxyHealth, is_eligible
from kubeloop.proxy.health.service_health import ServiceHealthServer
from kubeloop.proxy.metrics import ProxyMetrics
from kubeloop.proxy.service_port import NamespacedName

NODE = Node(metadata=ObjectMeta(name="n1"))
WEB = NamespacedName("ns", "web")


class Clock(SystemClock):
    """Clock that tests set."""

    time = datetime.fromisoformat("2026-01-02T03:04:05.500000+00:00")

    def now(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def ask(handler: HealthzHandler, path: str) -> tuple[int, Any]:
    response = asyncio.run(handler.handle(Request("GET", path)))
    assert response.headers == (("X-Content-Type-Options", "nosniff"),)
    assert isinstance(response.body, bytes)
    return response.status, json.loads(response.body)


def test_pages_of_a_healthy_and_a_late_proxy() -> None:
    clock, registry = Clock(), MetricRegistry()
    health = ProxyHealth(clock, 60.0)
    handler = HealthzHandler(health, lambda: NODE, ProxyMetrics(registry))
    health.mark_updated("IPv4")
    clock.advance(5)
    now, before = "2026-01-02T03:04:10.5Z", "2026-01-02T03:04:05.5Z"
    status = {"IPv4": {"lastUpdated": before, "healthy": True}}
    page = {"lastUpdated": now, "currentTime": now, "nodeEligible": True, "healthy": True, "status": status}
    assert ask(handler, "/healthz") == (200, page)
    assert list(ask(handler, "/healthz")[1]) == list(page)
    assert "nodeEligible" not in ask(handler, "/livez")[1]
    health.mark_queued("IPv4")
    clock.advance(59)
    assert ask(handler, "/healthz")[0] == 200
    health.mark_queued("IPv4")  # a later change does not extend the time
    clock.advance(1)
    code, found = ask(handler, "/healthz")
    assert (code, found["healthy"], found["lastUpdated"], found["status"]["IPv4"]["healthy"]) == (
        503,
        False,
        before,
        False,
    )
    assert ask(handler, "/livez")[0] == 503
    health.mark_updated("IPv4")
    assert ask(handler, "/livez")[0] == 200
    assert 'kubeproxy_proxy_healthz_total{code="503"} 1' in registry.render()


def test_node_about_to_be_deleted_fails_healthz_only() -> None:
    health = ProxyHealth(Clock(), 60.0)
    tainted = Node(spec=NodeSpec(taints=(Taint(key=TO_BE_DELETED_TAINT, effect="NoSchedule"),)))
    deleted = msgspec.structs.replace(NODE, metadata=ObjectMeta(deletion_timestamp="2026-01-01T00:00:00Z"))
    for node in (tainted, deleted, None):
        assert not is_eligible(node)
        handler = HealthzHandler(health, lambda node=node: node, ProxyMetrics(MetricRegistry()))
        assert ask(handler, "/healthz")[0] == 503
        assert ask(handler, "/livez")[0] == 200


def test_other_paths_are_not_found() -> None:
    handler = HealthzHandler(ProxyHealth(Clock(), 60.0), lambda: NODE, ProxyMetrics(MetricRegistry()))
    assert asyncio.run(handler.handle(Request("GET", "/"))).status == 404


async def get(port: int) -> tuple[int, dict[str, str], str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    lines = head.split("\r\n")
    return int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:]), body


async def free_port() -> int:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = int(server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()
    return port


class Events:
    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def event(self, obj: Any, type: str, reason: str, message: str, *, action: str = "") -> None:
        self.found.append((reason, message))


def test_service_health_check() -> None:
    async def main() -> None:
        healthy = [True]
        port, events = await free_port(), Events()
        server = ServiceHealthServer("n1", lambda: ("127.0.0.1",), lambda: healthy[0], SystemClock(), events)
        await server.set_service(WEB, port, 2)
        status, headers, body = await get(port)
        assert (status, headers["x-load-balancing-endpoint-weight"]) == (200, "2")
        assert json.loads(body) == {
            "service": {"namespace": "ns", "name": "web"},
            "localEndpoints": 2,
            "serviceProxyHealthy": True,
        }
        healthy[0] = False
        assert (await get(port))[0] == 503
        healthy[0] = True
        await server.set_service(WEB, port, 0)
        assert (await get(port))[0] == 503
        await server.set_service(NamespacedName("ns", "other"), port, 1)  # the port is in use
        ((reason, message),) = events.found
        assert reason == "FailedToStartServiceHealthcheck"
        assert message.startswith(f'node n1 failed to start healthcheck "ns/other" on port {port}:')
        await server.set_service(WEB, 0, 0)
        with pytest.raises(ConnectionRefusedError):
            await get(port)
        await server.retry_failed()  # at the next sync
        assert (await get(port))[0] == 200
        assert len(events.found) == 1
        await server.close()

    asyncio.run(main())
