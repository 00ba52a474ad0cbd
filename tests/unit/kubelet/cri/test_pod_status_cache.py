# SPDX-License-Identifier: Apache-2.0
"""The cache of pod statuses reads what changed, and nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.clock import SystemClock
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.messages.container import Container, ContainerState, ContainerStatus, ContainerStatusResponse
from kubeloop.kubelet.cri.messages.sandbox import PodSandbox, PodSandboxState, PodSandboxStatusResponse
from kubeloop.kubelet.cri.pleg import GenericPLEG
from kubeloop.kubelet.cri.pod_status_cache import KnownSandbox, PodParts, PodStatusCache
from kubeloop.kubelet.cri.runtime import CriRuntime
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from tests.unit.kubelet.cri.fake_runtime import FakeRuntime, labels_of

POD = Pod(metadata=ObjectMeta(name="pod-u", namespace="ns", uid="u"))
KEY = ObjectKey("ns", "pod-u")


class CountingRuntime(FakeRuntime):
    """Fake that records the reads."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    async def list_pod_sandboxes(self, labels: Mapping[str, str]) -> tuple[PodSandbox, ...]:
        self.calls.append("sandboxes")
        return await super().list_pod_sandboxes(labels)

    async def list_containers(self, labels: Mapping[str, str]) -> tuple[Container, ...]:
        self.calls.append("containers")
        return await super().list_containers(labels)

    async def pod_sandbox_status(self, id: str) -> PodSandboxStatusResponse:
        self.calls.append(f"sandbox {id}")
        return await super().pod_sandbox_status(id)

    async def container_status(self, id: str) -> ContainerStatusResponse:
        self.calls.append(f"container {id}")
        return await super().container_status(id)

    def take_calls(self) -> list[str]:
        """Return the reads since the last call."""
        calls, self.calls = self.calls, []
        return calls

    def run(self, id: str, state: ContainerState = ContainerState.RUNNING, sandbox: str = "s") -> None:
        """Add or change a container."""
        status = ContainerStatus(id=id, state=state, created_at=len(self.statuses) + 1, labels=labels_of("u", id))
        self.add_container(status, sandbox)


def test_the_start_of_a_new_pod_reads_each_part_once() -> None:
    async def scenario() -> None:
        assert (await cache.get("u")).addresses is None
        assert fake.take_calls() == []
        fake.add_sandbox("s", "u")
        assert await cache.sandboxes("u") == ()
        cache.add_sandbox("u", KnownSandbox("s", 0))
        assert (await cache.get("u")).addresses == ("10.0.0.1",)
        assert fake.take_calls() == ["sandbox s"]
        fake.run("c")
        cache.add_container("u", "s", "c")
        run = (await cache.get("u")).current_run("c")
        assert run is not None
        assert (run.state, fake.take_calls()) == ("running", ["container c"])
        assert cache.sandbox_of("u") == "s"

    fake = CountingRuntime()
    cache = PodStatusCache(fake.as_service(), "containerd", (), lambda _: True)
    asyncio.run(scenario())


def test_a_pod_that_was_invalidated_is_listed_again() -> None:
    async def scenario() -> None:
        await cache.get("u")
        cache.invalidate("u")
        await cache.get("u")
        assert fake.take_calls() == ["sandboxes", "containers", "sandbox s"]

    fake = CountingRuntime()
    fake.add_sandbox("s", "u")
    cache = PodStatusCache(fake.as_service(), "containerd", (), lambda _: True)
    asyncio.run(scenario())


def test_a_container_that_starts_during_a_read_is_not_lost() -> None:
    async def scenario() -> None:
        fake.gate, fake.asked = asyncio.Event(), asyncio.Event()
        reading = asyncio.create_task(cache.get("u"))
        await fake.asked.wait()
        fake.run("new")
        cache.add_container("u", "s", "new")
        fake.gate.set()
        assert set((await reading).runs) == {"old"}
        assert set((await cache.get("u")).runs) == {"old", "new"}

    fake = CountingRuntime()
    fake.add_sandbox("s", "u")
    fake.run("old")
    cache = PodStatusCache(fake.as_service(), "containerd", ())
    asyncio.run(scenario())


_STEPS = st.lists(st.sampled_from(["sandbox", "container", "exit", "remove", "read", "list"]), max_size=25)


@settings(max_examples=60, deadline=None)
@given(_STEPS)
def test_the_cache_agrees_with_a_fresh_read_after_any_sequence(steps: list[str]) -> None:
    async def scenario() -> None:
        for number, step in enumerate(steps):
            await _take_step(fake, cache, step, number)
            fresh = PodStatusCache(fake.as_service(), "containerd", ())
            assert await cache.get("u") == await fresh.get("u")
            assert cache.parts_of("u") == await _listed(fake)

    fake = CountingRuntime()
    cache = PodStatusCache(fake.as_service(), "containerd", (), lambda _: True)
    asyncio.run(scenario())


async def _take_step(fake: CountingRuntime, cache: PodStatusCache, step: str, number: int) -> None:
    """Do something by the kubelet itself, or by the containers, of which the PLEG tells."""
    running = [id for id, one in fake.statuses.items() if one.state == ContainerState.RUNNING]
    if step == "sandbox":
        for id, one in fake.sandboxes.items():
            fake.sandboxes[id] = PodSandbox(
                id=id, state=PodSandboxState.NOTREADY, created_at=one.created_at, labels=one.labels
            )
        fake.add_sandbox(f"s{number}", "u", number + 1)
        cache.add_sandbox("u", KnownSandbox(f"s{number}", number))
    elif step == "container" and fake.sandboxes:
        newest = max(fake.sandboxes.values(), key=lambda one: one.created_at).id
        fake.run(f"c{number}", sandbox=newest)
        cache.add_container("u", newest, f"c{number}")
    elif step == "exit" and running:
        fake.run(running[0], ContainerState.EXITED, fake.owners[running[0]])
        cache.invalidate("u")
    elif step == "remove" and running:
        del fake.statuses[running[0]]
        cache.invalidate("u")
    elif step == "list":
        cache.invalidate("u")


async def _listed(fake: FakeRuntime) -> PodParts:
    found: list[PodParts] = [frozenset()]
    pleg = GenericPLEG(fake.as_service(), SystemClock(), lambda uid, key, parts: found.append(parts) is None)
    await pleg.relist()
    return found[-1]


# The PLEG and the worker of a pod.


def new_runtime(fake: FakeRuntime, enqueued: list[ObjectKey]) -> CriRuntime:
    """Return a runtime whose other parts are not used."""
    facts: Any = SimpleNamespace(addresses=(), paths=NodePaths(), memory=None)
    actuated = SimpleNamespace(get=lambda uid: None)
    managers = SimpleNamespace(resource_statuses=lambda pod, name: ())
    parts: Any = SimpleNamespace(
        resources=SimpleNamespace(pods=None), managers=managers, actuated=actuated, is_absent=None
    )
    return CriRuntime(fake.as_service(), "containerd://1", facts, parts, enqueued.append)


def test_a_change_that_the_worker_has_seen_needs_no_sync() -> None:
    async def scenario() -> None:
        await runtime.get_pod_status(POD)
        parts = await _listed(fake)
        assert runtime.on_listed_change("u", KEY, parts)
        assert enqueued == []
        fake.run("c", ContainerState.EXITED)
        assert runtime.on_listed_change("u", KEY, await _listed(fake))
        assert enqueued == [KEY]
        run = (await runtime.get_pod_status(POD)).last_run("c")
        assert run is not None
        assert run.state == "exited"

    fake, enqueued = CountingRuntime(), list[ObjectKey]()
    fake.add_sandbox("s", "u")
    fake.run("c")
    runtime = new_runtime(fake, enqueued)
    asyncio.run(scenario())


def test_an_exit_that_only_another_reader_has_seen_is_synced() -> None:
    async def scenario() -> None:
        await runtime.get_pod_status(POD)
        fake.run("c", ContainerState.EXITED)
        cache.invalidate("u")
        await cache.get("u")  # as for a log
        assert runtime.on_listed_change("u", KEY, await _listed(fake))
        assert enqueued == [KEY]

    fake, enqueued = CountingRuntime(), list[ObjectKey]()
    fake.add_sandbox("s", "u")
    fake.run("c")
    runtime = new_runtime(fake, enqueued)
    cache = cast(Any, runtime)._cache
    asyncio.run(scenario())


def test_a_change_during_an_operation_is_reported_again() -> None:
    async def scenario() -> None:
        reports, is_busy = list[PodParts](), True

        def take(uid: str, key: ObjectKey, parts: PodParts) -> bool:
            reports.append(parts)
            return not is_busy

        fake.add_sandbox("s", "u")
        pleg = GenericPLEG(fake.as_service(), VirtualClock(loop), take)
        task = asyncio.create_task(pleg.run())
        await loop.advance(0.5)
        is_busy = False
        await loop.advance(2)
        assert reports == [frozenset({("s", PodSandboxState.READY)})] * 2
        task.cancel()

    fake, loop = FakeRuntime(), VirtualLoop()
    run_virtual(scenario(), loop=loop)
