# SPDX-License-Identifier: Apache-2.0
"""Stops within grace periods, and hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kubeloop.api.generated.core_v1 import Container, ExecAction, Lifecycle, LifecycleHandler, Pod, PodSpec, SleepAction
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.grpc.streams import NOT_FOUND, UNAVAILABLE, RpcError
from kubeloop.kubelet.cri.lifecycle.hooks import HookRunner
from kubeloop.kubelet.cri.lifecycle.operations import ContainerOperations
from kubeloop.kubelet.cri.messages.streaming import ExecSyncResponse
from kubeloop.kubelet.runtime import ContainerRun, PodObservation
from kubeloop.sim.loop import START, VirtualLoop, run_virtual
from tests.unit.kubelet.cri.fake_runtime import FakeRuntime

HOOK = LifecycleHandler(exec=ExecAction(command=("false",)))
POD = Pod(
    metadata=ObjectMeta(name="p", namespace="ns", uid="u"),
    spec=PodSpec(containers=(Container(name="main", lifecycle=Lifecycle(post_start=HOOK)),)),
)


class Node:
    """Operations over a fake runtime, in virtual time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.runtime = FakeRuntime()
        self.ends = 0
        service = self.runtime.as_service()
        self.operations = ContainerOperations(service, HookRunner(service), self._count)

    def _count(self, pod: Pod) -> None:
        self.ends += 1

    def stop(self, grace: float, hook: float | None = None) -> None:
        handler = LifecycleHandler(sleep=SleepAction(seconds=int(hook))) if hook is not None else None
        self.operations.stop(POD, "main", "c", grace, handler)

    def run(self) -> ContainerRun:
        run = ContainerRun(
            container="main", id="x://c", attempt=0, image="", image_id="", state="running", created_at=START
        )
        found = self.operations.overlay(PodObservation(addresses=("1.1.1.1",), runs={"main": (run,)})).last_run("main")
        assert found is not None
        return found


def play(scenario: Callable[[Node], Awaitable[None]]) -> None:
    async def main() -> None:
        node = Node(loop)
        await scenario(node)
        await node.operations.close()

    loop = VirtualLoop()
    run_virtual(main(), loop=loop)


@pytest.mark.parametrize(
    ("grace", "hook", "stops"),
    [
        (30, None, [("c", 30, 0)]),
        (0, None, [("c", 2, 0)]),
        (1, None, [("c", 2, 0)]),
        (30, 10, [("c", 20, 10)]),
        (30, 100, [("c", 2, 30)]),
        (0, 100, [("c", 2, 0)]),
    ],
)
def test_grace_periods(grace: float, hook: float | None, stops: list[tuple[str, int, float]]) -> None:
    async def scenario(node: Node) -> None:
        node.stop(grace, hook)
        assert node.run().is_stopping
        await node.loop.advance(200)
        assert node.runtime.stops == stops

    play(scenario)


def test_a_shorter_grace_period_replaces_a_longer_one() -> None:
    async def scenario(node: Node) -> None:
        node.runtime.is_stubborn = True
        node.stop(100)
        await node.loop.advance(5)
        node.stop(100)
        node.stop(200)
        await node.loop.advance(5)
        node.stop(3)
        await node.loop.advance(5)
        assert node.runtime.stops == [("c", 100, 0), ("c", 3, 10)]
        assert node.ends == 1

    play(scenario)


@pytest.mark.parametrize(("code", "is_stopping"), [(UNAVAILABLE, False), (NOT_FOUND, True)])
def test_a_failed_stop_is_tried_again_by_the_next_sync(code: int, is_stopping: bool) -> None:
    async def scenario(node: Node) -> None:
        node.runtime.failure = RpcError(code, "no")
        node.stop(30)
        await node.loop.advance(1)
        assert (node.run().is_stopping, node.ends) == (is_stopping, 1)

    play(scenario)


def test_a_failed_post_start_hook_is_reported() -> None:
    async def scenario(node: Node) -> None:
        node.runtime.exec_answers = [ExecSyncResponse(exit_code=1, stderr=b"bad")]
        node.operations.start_post_start(POD, POD.spec.containers[0], "c")  # type: ignore[index]
        assert node.run().state == "created", "a container is not running before its hook has ended"
        await node.loop.advance(1)
        assert node.run().state == "running"
        assert node.run().hook_failure.startswith('Exec lifecycle hook ([false]) for Container "main" in Pod "p_ns(u)"')
        assert node.ends == 1

    play(scenario)


def test_progress_of_containers_that_the_runtime_has_no_more_is_forgotten() -> None:
    async def scenario(node: Node) -> None:
        for number in range(100):
            node.operations.stop(POD, "main", f"c{number}", 1, None)
        node.operations.mark_reset(f"c{number}" for number in range(50, 150))
        await asyncio.sleep(10)
        kept = {"c99"}
        node.operations.retain(kept)
        assert len(node.operations._containers) == 100  # some may be younger than the list
        node.operations.retain(kept)
        assert set(node.operations._containers) == kept
        assert node.operations._reset == kept

    play(scenario)


def test_a_container_that_is_younger_than_the_list_is_not_forgotten() -> None:
    async def scenario(node: Node) -> None:
        node.stop(1)
        node.operations.retain(set())
        node.operations.retain({"c"})
        node.operations.retain(set())
        assert "c" in node.operations._containers

    play(scenario)


def test_runs_of_a_reset_pod_only_count_as_attempts() -> None:
    async def scenario(node: Node) -> None:
        assert not node.run().is_reset
        node.operations.mark_reset(["c"])
        assert node.run().is_reset
        node.operations.forget({"c"})
        assert not node.run().is_reset

    play(scenario)
