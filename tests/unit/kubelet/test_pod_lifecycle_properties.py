# SPDX-License-Identifier: Apache-2.0
"""Property tests of the pod lifecycle on the simulated runtime."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Container, Pod, PodSpec, PodStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.patch.strategic import apply_strategic_merge_patch
from kubeloop.api.scalars.wire import Time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.kubelet.agent_metrics import NodeAgentMetrics
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.simulated.addresses import PodAddressAllocator
from kubeloop.kubelet.simulated.runtime import SimulatedRuntime
from kubeloop.kubelet.status.generate import StatusInputs, build_status_patch, generate_pod_status
from kubeloop.kubelet.sync.pod_state import PodState
from kubeloop.kubelet.sync.pod_syncer import PodSyncer

START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.moment = START
        self._random = random.Random(1)

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return (self.moment - START).total_seconds()

    def random(self) -> random.Random:
        return self._random


class NullRecorder:
    def event(self, obj: object, type: str, reason: str, message: str, *, host: str) -> None: ...


class NoSources:
    async def resolve(self, pod: Pod, container: Container) -> None: ...


class NoNodes:
    def allocatable_of(self, name: str) -> dict[str, str]:
        return {}


def container(name: str, seconds: int | None, code: int, **fields: str) -> Container:
    script = "server" if seconds is None else f"sleep {seconds}; exit {code}"
    return Container(name=name, image="i", command=("sh", "-c", script), **fields)


SECONDS = st.one_of(st.none(), st.integers(0, 20))
CODES = st.sampled_from([0, 0, 1])


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    init = []
    for number in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            init.append(container(f"side{number}", draw(SECONDS), draw(CODES), restart_policy="Always"))
        else:
            init.append(container(f"init{number}", draw(st.integers(0, 20)), draw(CODES)))
    regular = [container(f"app{number}", draw(SECONDS), draw(CODES)) for number in range(draw(st.integers(1, 3)))]
    spec = PodSpec(
        node_name="n1",
        restart_policy=draw(st.sampled_from(["Always", "OnFailure", "Never"])),
        init_containers=tuple(init),
        containers=tuple(regular),
    )
    return Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u", generation=1), spec=spec)


def history_of(pod: Pod, moments: int = 25) -> list[PodStatus]:
    """The statuses that are reported of a pod, from one moment at which something is due to the next."""
    return asyncio.run(_history(pod, moments))


async def _history(pod: Pod, moments: int) -> list[PodStatus]:
    statuses: list[PodStatus] = []
    clock = ManualClock()
    runtime = SimulatedRuntime(clock, NoNodes(), PodAddressAllocator(lambda _: ()), (), lambda _: None)
    actor = PodSyncer(runtime, PodEvents(NullRecorder(), "all"), clock, NoSources(), NodeAgentMetrics())
    memory = PodState(reported_status=PodStatus(phase="Pending"), first_seen=Time("2026-01-01T00:00:00Z"))
    for _ in range(moments):
        decision, seen, memory = await actor.sync_pod(pod, memory)
        assert not decision.has_actions, "it was brought on as far as it goes"
        status = generate_pod_status(
            pod, seen, memory, StatusInputs(("10.0.0.1",), clock.now(), decision.is_terminated)
        )
        memory = PodState(
            reported_status=status,
            first_seen=memory.first_seen,
            backoffs=memory.backoffs,
            waiting_containers=memory.waiting_containers,
            probes=memory.probes,
        )
        statuses.append(status)
        if decision.is_terminated or decision.wake_at is None:
            break
        assert decision.wake_at > clock.moment
        clock.moment = decision.wake_at
    return statuses


RANKS = {"Pending": 0, "Running": 1, "Succeeded": 2, "Failed": 2}


@given(pods())
@settings(max_examples=60, deadline=None)
def test_phases_only_advance_and_counts_only_increase(pod: Pod) -> None:
    statuses = history_of(pod)
    ranks = [RANKS[status.phase] for status in statuses]
    assert ranks == sorted(ranks)
    for before, after in pairwise(statuses):
        old = {one.name: one.restart_count for one in (*before.container_statuses, *before.init_container_statuses)}
        new = {one.name: one.restart_count for one in (*after.container_statuses, *after.init_container_statuses)}
        assert all(new[name] >= count for name, count in old.items())


@given(pods())
@settings(max_examples=60, deadline=None)
def test_no_container_starts_before_all_init_containers_completed(pod: Pod) -> None:
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    for status in history_of(pod):
        begun = any(one.container_id for one in status.container_statuses)
        through = all(
            one.ready or (one.name in sidecars and one.container_id) for one in status.init_container_statuses
        )
        assert through or not begun


@given(pods())
@settings(max_examples=60, deadline=None)
def test_phase_without_restarts_follows_the_containers(pod: Pod) -> None:
    if pod.spec.restart_policy != "Never":
        return
    *_, last = history_of(pod, 200)
    codes = {one.name: one.command[2] for one in (*pod.spec.init_containers, *(pod.spec.containers or ()))}
    one_shots = [one.name for one in pod.spec.init_containers if one.restart_policy != "Always"]
    sidecars = [one.name for one in pod.spec.init_containers if one.restart_policy == "Always"]
    if any(codes[name].startswith("sleep 0") for name in sidecars):
        return  # a sidecar that ends as it begins keeps all others waiting
    regular = [one.name for one in pod.spec.containers or ()]
    starts = all(not codes[name].endswith("exit 1") for name in one_shots)
    ends = all("exit" in codes[name] for name in regular)
    if not starts:
        assert last.phase == "Failed"
    elif ends:
        well = all(codes[name].endswith("exit 0") for name in regular)
        assert last.phase == ("Succeeded" if well else "Failed")
    else:
        assert last.phase == "Running"


@given(pods())
@settings(max_examples=60, deadline=None)
def test_patches_transform_one_status_to_the_next(pod: Pod) -> None:
    written = codec.to_plain(Pod(metadata=pod.metadata, spec=pod.spec))
    before = PodStatus()
    for status in history_of(pod):
        patch = build_status_patch(before, status)
        assert build_status_patch(status, status) == {}
        if patch:
            written = apply_strategic_merge_patch(written, {"status": patch}, resource_of_class(Pod).schema_node)
        found = codec.from_plain(written, Pod).status
        assert {one.type: one for one in found.conditions} == {one.type: one for one in status.conditions}
        fields = ("phase", "container_statuses", "init_container_statuses", "pod_ips", "host_ips", "start_time")
        assert [getattr(found, name) for name in fields] == [getattr(status, name) for name in fields]
        before = status


def test_ready_transition_time_is_the_last_change() -> None:
    spec = PodSpec(node_name="n1", restart_policy="Always", containers=(container("app", 15, 1),))
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u", generation=1), spec=spec)
    first, *_ = history_of(pod)
    moment = next(one.last_transition_time for one in first.conditions if one.type == "Ready")
    assert moment == Time("2026-01-01T00:00:00Z")
