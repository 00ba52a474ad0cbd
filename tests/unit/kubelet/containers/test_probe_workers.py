# SPDX-License-Identifier: Apache-2.0
"""Probes that run beside the syncs of their pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import Container, ExecAction, Pod, PodSpec, PodStatus, Probe
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time
from kubeloop.grpc.streams import UNAVAILABLE, RpcError
from kubeloop.kubelet.agent_metrics import NodeAgentMetrics
from kubeloop.kubelet.containers.probe_workers import ProbeWorkers
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.runtime import PodObservation, ProbeKind, ProbeResult
from kubeloop.kubelet.simulated.addresses import PodAddressAllocator
from kubeloop.kubelet.simulated.runtime import SimulatedRuntime
from kubeloop.kubelet.sync.pod_actions import PodSyncActions
from kubeloop.kubelet.sync.pod_state import PodState
from kubeloop.kubelet.sync.pod_syncer import PodSyncer, SyncOptions
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from tests.unit.kubelet.test_pod_lifecycle_properties import NoNodes, NoSources, NullRecorder

PROBE = Probe(exec=ExecAction(command=("true",)), period_seconds=5, timeout_seconds=1000, failure_threshold=1)
POD = Pod(
    metadata=ObjectMeta(name="p", namespace="ns", uid="u", generation=1),
    spec=PodSpec(
        node_name="n1",
        restart_policy="Always",
        termination_grace_period_seconds=30,
        containers=(Container(name="c", image="i", command=("server",), liveness_probe=PROBE, readiness_probe=PROBE),),
    ),
)


class ProbedRuntime(SimulatedRuntime):
    """Runtime whose probes end when the test says so."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.answers: dict[ProbeKind, asyncio.Future[ProbeResult]] = {}
        self.probes: list[ProbeKind] = []

    async def probe(self, pod: Pod, container: Container, kind: ProbeKind, probe: Probe) -> ProbeResult:
        self.probes.append(kind)
        answer = self.answers[kind] = asyncio.get_running_loop().create_future()
        return await answer


class Node:
    """Syncer of one pod, in virtual time."""

    def __init__(self, loop: VirtualLoop) -> None:
        clock = VirtualClock(loop)
        self.queued: list[ObjectKey] = []
        self.runtime = ProbedRuntime(clock, NoNodes(), PodAddressAllocator(lambda _: ()), (), lambda _: None)
        self.workers = ProbeWorkers(self.runtime, self.queued.append)
        options = SyncOptions(probe_workers=self.workers)
        events = PodEvents(NullRecorder(), "all")
        self.syncer = PodSyncer(self.runtime, events, clock, NoSources(), NodeAgentMetrics(), options)
        self.state = PodState(reported_status=PodStatus(phase="Pending"), first_seen=Time("2026-01-01T00:00:00Z"))
        self.pod = POD

    async def sync(self) -> tuple[PodSyncActions, PodObservation]:
        decision, seen, self.state = await self.syncer.sync_pod(self.pod, self.state)
        await asyncio.sleep(0)  # the tasks begin
        return decision, seen

    async def answer(self, kind: ProbeKind, *, ok: bool) -> None:
        self.runtime.answers[kind].set_result(ProbeResult(ok))
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def play(scenario: Callable[[Node], Awaitable[None]]) -> None:
    async def main() -> None:
        node = Node(loop)
        await scenario(node)
        await node.workers.close()

    loop = VirtualLoop()
    run_virtual(main(), loop=loop)


def test_a_hanging_probe_does_not_delay_the_stop_of_its_pod() -> None:
    async def scenario(node: Node) -> None:
        decision, _ = await node.sync()
        assert not decision.has_actions
        assert sorted(node.runtime.probes) == ["liveness", "readiness"]
        meta = msgspec.structs.replace(POD.metadata, deletion_timestamp=Time("2026-01-01T00:00:10Z"))
        node.pod = msgspec.structs.replace(POD, metadata=meta)
        _, seen = await node.sync()
        run = seen.last_run("c")
        assert run is not None
        assert run.is_stopping

    play(scenario)


def test_a_result_queues_the_pod_and_is_recorded_by_its_next_sync() -> None:
    async def scenario(node: Node) -> None:
        await node.sync()
        await node.sync()
        assert len(node.runtime.probes) == 2  # those under way are not started again
        await node.answer("readiness", ok=True)
        assert node.queued == [ObjectKey("ns", "p")]
        decision, _ = await node.sync()
        assert node.state.probes["c", "readiness"].result is True
        assert ("c", "liveness") not in node.state.probes
        assert decision.wake_at is not None  # the next readiness probe
        await asyncio.sleep(5)
        await node.sync()
        assert node.runtime.probes.count("readiness") == 2

    play(scenario)


def test_a_failed_liveness_probe_restarts_the_container() -> None:
    async def scenario(node: Node) -> None:
        await node.sync()
        await node.answer("liveness", ok=False)
        _, seen = await node.sync()
        run = seen.last_run("c")
        assert run is not None
        assert run.attempt == 1

    play(scenario)


def test_results_of_an_earlier_run_are_dropped() -> None:
    async def scenario(node: Node) -> None:
        await node.sync()
        await node.answer("readiness", ok=True)
        (finished,) = node.workers.take_finished("u")
        run = msgspec.structs.replace(finished.due.run, id="another")
        due = msgspec.structs.replace(finished.due, run=run)
        node.workers._finished["u"] = {("c", "readiness"): finished._replace(due=due)}
        await node.sync()
        assert ("c", "readiness") not in node.state.probes

    play(scenario)


def test_probes_of_a_pod_that_is_gone_are_cancelled() -> None:
    async def scenario(node: Node) -> None:
        await node.sync()
        await node.syncer.remove_pod("u")
        await asyncio.sleep(0)
        assert all(one.cancelled() for one in node.runtime.answers.values())
        assert not node.workers._tasks
        assert node.queued == []

    play(scenario)


def test_a_probe_that_cannot_be_run_is_tried_again_after_its_period() -> None:
    async def scenario(node: Node) -> None:
        await node.sync()
        node.runtime.answers["readiness"].set_exception(RpcError(UNAVAILABLE, "down"))
        await asyncio.sleep(4)
        assert node.queued == []
        await asyncio.sleep(2)
        assert node.queued == [ObjectKey("ns", "p")]
        await node.sync()
        assert node.runtime.probes.count("readiness") == 2
        assert ("c", "readiness") not in node.state.probes

    play(scenario)
