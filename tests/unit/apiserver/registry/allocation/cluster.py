# SPDX-License-Identifier: Apache-2.0
"""In-memory API server whose service writes can run concurrently, fail, and be inspected."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.admission import AdmissionChain
from kubeloop.apiserver.app import ApiServer, ApiServerDependencies
from kubeloop.apiserver.authentication import Authenticator
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.registry.allocation import ServiceRanges
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.context import User
from kubeloop.http import Request
from kubeloop.store import StoreError, StoreEvent
from kubeloop.store.engine import LoggedStore
from kubeloop.store.log import Appended, LoadedLog

SERVICES = "/api/v1/namespaces/shop/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
NETWORKS = "/apis/networking.k8s.io/v1/servicecidrs"
_ADMIN = User("admin", ("system:masters", "system:authenticated"))


class ManualClock:
    def __init__(self) -> None:
        self._random = random.Random(5)

    def now(self) -> datetime:
        return datetime(2026, 5, 10, 12, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    def random(self) -> random.Random:
        return self._random


class FailingLog:
    """Store log that keeps nothing, fails batches on request, and can be slow."""

    def __init__(self) -> None:
        self.fails: Callable[[], bool] = lambda: False
        self.slow = False
        self._waiting: Appended | None = None

    async def open(self) -> LoadedLog:
        return LoadedLog()

    def append(self, events: Sequence[StoreEvent], after: int, appended: Appended) -> None:
        if self.slow:
            self._waiting = appended
        else:
            appended(StoreError("the disk is full") if self.fails() else None)

    def finish(self) -> None:
        """Be quick again, and done with what waited."""
        self.slow = False
        assert self._waiting is not None
        self._waiting(None)

    def compact(self, revision: int, garbage: Sequence[int]) -> None:
        pass

    async def close(self) -> None:
        pass


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def spec(self) -> Any:
        assert self.status < 300, self.body
        return self.body["spec"]

    @property
    def refusal(self) -> tuple[int, str]:
        return self.status, self.body.get("message", "")


class Cluster:
    """Sequence of servers on one store."""

    def __init__(self, runner: asyncio.Runner, ranges: ServiceRanges) -> None:
        self._runner = runner
        self.log = FailingLog()
        self.ranges = ranges
        self.clock = ManualClock()
        runner.run(self._start())

    async def _start(self) -> None:
        self.store = LoggedStore(self.log)
        await self.store.start()
        self.restart(self.ranges)

    def restart(self, ranges: ServiceRanges) -> None:
        """Start another server on the stored state."""
        self.registry = StorageRegistry(self.store, RESOURCES, ranges)
        tokens = Authenticator({"admin": _ADMIN})
        self.server = ApiServer(
            ApiServerDependencies(
                self.registry,
                self.clock,
                tokens,
                AdmissionChain(),
                InFlightLimiter(200, 200),
                HealthChecks({}, {}),
                lambda: "127.0.0.1:6443",
            )
        )

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    async def send(self, method: str, path: str, body: Any = None) -> Answer:
        path, _, query = path.partition("?")
        request = Request(method, path, query)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request.headers = {"authorization": "Bearer admin", "content-type": kind}
        request.body = json.dumps(body).encode() if body is not None else b""
        response = await self.server.handle(request)
        raw = response.body if isinstance(response.body, bytes) else b"".join(response.body)
        return Answer(response.status, json.loads(raw))

    async def make(self, name: str, query: str = "", **spec: Any) -> Answer:
        spec = {"ports": [{"port": 80}], **spec}
        return await self.send("POST", SERVICES + query, {"metadata": {"name": name}, "spec": spec})

    def create(self, name: str, query: str = "", **spec: Any) -> Answer:
        answer: Answer = self.run(self.make(name, query, **spec))
        return answer

    def patch(self, name: str, query: str = "", **spec: Any) -> Answer:
        return self.ask("PATCH", f"{SERVICES}/{name}{query}", {"spec": spec})

    def delete(self, name: str) -> Answer:
        return self.ask("DELETE", f"{SERVICES}/{name}")

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        answer: Answer = self.run(self.send(method, path, body))
        return answer

    def services(self) -> dict[str, Any]:
        return {item["metadata"]["name"]: item["spec"] for item in self.ask("GET", SERVICES).body["items"]}

    def recorded(self) -> dict[str, str]:
        """Return the services by address from IPAddress objects."""
        items = self.ask("GET", ADDRESSES).body["items"]
        return {item["metadata"]["name"]: item["spec"]["parentRef"]["name"] for item in items}


def held_addresses(spec: Any) -> list[str]:
    return [address for address in spec.get("clusterIPs", []) if address != "None"]


def node_ports(spec: Any) -> set[int]:
    """The ports that a service keeps others from having; protocols of one service may share."""
    if spec["type"] not in ("NodePort", "LoadBalancer"):
        return set()
    ports = {port["nodePort"] for port in spec.get("ports", []) if "nodePort" in port}
    return ports | ({spec["healthCheckNodePort"]} if "healthCheckNodePort" in spec else set())


def assert_exact(cluster: Cluster) -> None:
    """Check that nothing is allocated twice, leaked, or still reserved."""
    services = cluster.services()
    owners = {address: name for name, spec in services.items() for address in held_addresses(spec)}
    assert len(owners) == sum(len(held_addresses(spec)) for spec in services.values())
    assert cluster.recorded() == owners
    ports = [port for spec in services.values() for port in node_ports(spec)]
    assert len(ports) == len(set(ports))
    taken = cluster.registry.storage_named("", "v1", "services").allocator._allocated
    assert not taken.reserved
    assert len(taken.by_services) == len(owners) + len(ports)
