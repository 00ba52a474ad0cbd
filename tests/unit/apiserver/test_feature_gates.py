# SPDX-License-Identifier: Apache-2.0
"""Two API servers in one process: each write obeys the gates of the server that handles it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from kubeloop.api.features.resource_config import parse_resource_config
from kubeloop.apiserver.app import ApiServer, ApiServerDependencies
from kubeloop.apiserver.authentication import Authenticator
from kubeloop.apiserver.background.offload import WorkerThread
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.registry.storage import StorageRegistry
from tests.unit.apiserver.conftest import ADMIN, Answer, Api, ManualClock

T = TypeVar("T")

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
SERVED = {"scheduling.k8s.io/v1beta1": "true"}
WITHOUT_POLICY = ("GenericWorkload=true",)
WITH_POLICY = (*WITHOUT_POLICY, "PodGroupPreemptionPolicy=true")
MANY = {f"example.com/{number}": "x" for number in range(5000)}


class GatedApi(Api):
    """A server with its own gates, on a store that it may share with another one."""

    def __init__(self, runner: asyncio.Runner, gates: tuple[str, ...], shared: Api | None = None) -> None:
        self._gates = gates
        super().__init__(runner, ManualClock())
        if shared is not None:
            self.store = shared.store
            self.server = self._serve()

    def _serve(self) -> ApiServer:
        config = parse_resource_config(SERVED, self._gates)
        self.registry = StorageRegistry(self.store, config.stored_resources())
        return ApiServer(
            ApiServerDependencies(
                self.registry,
                self.clock,
                Authenticator({"admin": ADMIN}),
                self.admission(),
                InFlightLimiter(10, 100),
                HealthChecks({}, {}),
                lambda: "127.0.0.1:6443",
                serving=config,
            )
        )

    async def send(self, method: str, path: str, body: Any) -> Answer:
        return await self._answer(method, path, body, {})


class InterruptedThread(WorkerThread):
    """A worker thread that lets another server write before each of its jobs."""

    def __init__(self, interrupt: Callable[[], Awaitable[object]]) -> None:
        super().__init__()
        self._interrupt = interrupt
        self.jobs = 0

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        self.jobs += 1
        await self._interrupt()
        return await super().run(work, *args)


@pytest.fixture
def servers() -> Iterator[tuple[GatedApi, GatedApi]]:
    with asyncio.Runner() as runner:
        enabled = GatedApi(runner, WITH_POLICY)
        yield enabled, GatedApi(runner, WITHOUT_POLICY, enabled)


def group(name: str, policy: str = "Never", annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"schedulingPolicy": {"basic": {}}, "preemptionPolicy": policy},
    }


def send_interrupted(api: GatedApi, other: GatedApi, method: str, path: str, body: Any) -> Answer:
    """Send a large body; the other server handles a small write before each step in the worker thread."""
    small = group("")

    async def write_elsewhere() -> None:
        answer = await other.send("POST", GROUPS, {**small, "metadata": {"generateName": "small-"}})
        assert answer.status == 201, answer.body

    thread = InterruptedThread(write_elsewhere)
    api.server.object_store.worker_thread = thread
    thread.start()
    try:
        answer = api._runner.run(api.send(method, path, body))
    finally:
        thread.close()
    assert thread.jobs > 1, "the field manager and validation both run in the thread"
    return answer


def test_interleaved_small_writes_use_the_gates_of_their_server(servers: tuple[GatedApi, GatedApi]) -> None:
    enabled, disabled = servers

    async def write_all() -> list[Answer]:
        writes = [
            api.send("POST", GROUPS, group(f"{name}-{number}"))
            for number in range(3)
            for name, api in (("on", enabled), ("off", disabled))
        ]
        return await asyncio.gather(*writes)

    answers = enabled._runner.run(write_all())
    assert [answer.status for answer in answers] == [201] * 6
    assert [answer.body["spec"].get("preemptionPolicy") for answer in answers] == ["Never", None] * 3


def test_large_create_uses_the_gates_of_its_server(servers: tuple[GatedApi, GatedApi]) -> None:
    enabled, disabled = servers
    answer = send_interrupted(enabled, disabled, "POST", GROUPS, group("large", annotations=MANY))
    assert answer.status == 201, answer.body
    assert answer.body["spec"]["preemptionPolicy"] == "Never"
    again = send_interrupted(disabled, enabled, "POST", GROUPS, group("large-too", annotations=MANY))
    assert again.status == 201, again.body
    assert "preemptionPolicy" not in again.body["spec"]


def test_large_update_uses_the_gates_of_its_server(servers: tuple[GatedApi, GatedApi]) -> None:
    enabled, disabled = servers
    made = enabled.made(GROUPS, group("g"))
    changed = {**made, "spec": {**made["spec"], "preemptionPolicy": "PreemptLowerPriority"}}
    changed["metadata"] = {**made["metadata"], "annotations": MANY}
    answer = send_interrupted(disabled, enabled, "PUT", f"{GROUPS}/g", changed)
    assert answer.status == 422
    reasons = [cause["reason"] for cause in answer.body["details"]["causes"]]
    assert reasons == ["FieldValueForbidden", "FieldValueInvalid"]


CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
NODES = "/apis/storage.k8s.io/v1/csinodes"
HEALTH = [{"status": "Degraded", "reason": "Slow"}]


@pytest.mark.parametrize(("gates", "is_kept"), [((), False), (("CSIVolumeHealth=true",), True)])
def test_the_health_of_volumes_is_kept_only_behind_its_gate(gates: tuple[str, ...], is_kept: bool) -> None:
    claim = {
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
    }
    with asyncio.Runner() as runner:
        api = GatedApi(runner, gates)
        api.made(CLAIMS, claim)
        written = api.patch("merge", f"{CLAIMS}/c/status", {"status": {"healthStatus": {"healthConditions": HEALTH}}})
        assert (written.status, "healthStatus" in written.body["status"]) == (200, is_kept)
