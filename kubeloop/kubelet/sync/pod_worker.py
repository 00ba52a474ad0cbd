"""Pod worker: syncs one pod at a time, writes changed statuses, and deletes pods that have terminated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

import msgspec

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.admission.allocations import NodeAllocations
from kubeloop.kubelet.admission.allocator import AllocationManager
from kubeloop.kubelet.admission.predicates import (
    NODE_SHUTDOWN_REJECTION,
    admission_rejection,
    critical_admission_rejection,
    insufficient_amounts,
    readmission_rejection,
)
from kubeloop.kubelet.admission.preemption import PREEMPTED, NoVictimsError, get_pods_to_preempt
from kubeloop.kubelet.admission.resize import RESIZE_RETRY_INTERVAL, allocation_from_status, with_allocation
from kubeloop.kubelet.containers.env_sources import ApiEnvSources
from kubeloop.kubelet.containers.probes import initial_records
from kubeloop.kubelet.events.recorder import PodEvents
from kubeloop.kubelet.eviction.ranking import is_critical_pod, pressure_rejection
from kubeloop.kubelet.runtime import Runtime
from kubeloop.kubelet.status.generate import StatusInputs, generate_pod_status
from kubeloop.kubelet.status.patch import KubeletStatusPatch
from kubeloop.kubelet.sync.pod_state import PodState, TerminationReason, with_unknown_readiness
from kubeloop.kubelet.sync.pod_syncer import PodSyncer
from kubeloop.kubelet.sync.termination import TERMINAL_PHASES
from kubeloop.kubelet.volumes.mounter import VolumeManager
from kubeloop.runtime.controller import Result
from kubeloop.runtime.objects.keys import ObjectKey, key_of


class PodLister(Protocol):
    """Lister of pods, as far as the worker needs it."""

    def get(self, namespace: str, name: str) -> Any | None:
        """Return a pod, or None."""


class ServedNodesView(Protocol):
    """Nodes served by this agent."""

    def reachable(self, name: str) -> Node | None:
        """Return a node that runs and is reachable; None for any other."""

    def pressures_of(self, node: Node) -> list[str]:
        """Return the types of the pressure conditions that are true."""

    def is_shutting_down(self, node: Node) -> bool:
        """Return True if a node admits no pods because it is shutting down."""


class PodWorker:
    """Reconciles the pods of all nodes of an agent."""

    def __init__(
        self,
        client: Client,
        pods: PodLister,
        nodes: ServedNodesView,
        runtime: Runtime,
        telling: PodEvents,
        clock: Clock,
    ) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._runtime = runtime
        self._telling = telling
        self._clock = clock
        self._actor = PodSyncer(runtime, telling, clock, ApiEnvSources(client))
        self._memories: dict[str, PodState] = {}  # by uid
        self._known: dict[ObjectKey, tuple[str, str]] = {}  # uid and node of the pods with a state
        self.allocator = AllocationManager(telling)
        self._evicted: dict[str, TerminationReason] = {}  # by uid, until their next sync
        self.pods_on: Callable[[str], Iterable[Pod]] = lambda _: ()  # pods of a node
        self.mounting: VolumeManager | None = None  # None: no pod waits for volumes
        self._contradicted: set[str] = set()  # uids of pods whose status must be written again at their next sync

    @property
    def remembered(self) -> int:
        """Number of pods with a state."""
        return len(self._memories)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Sync a pod; return the time of the next sync, if any."""
        pod: Pod | None = self._pods.get(*key)
        known = self._known.get(key)
        if known is not None and (pod is None or pod.metadata.uid != known[0]):
            self._contradicted.discard(known[0])
            await self._forget(key, *known)
        if pod is None or (node := self._nodes.reachable(pod.spec.node_name)) is None:
            return None
        memory = self._memories.get(pod.metadata.uid) or self._meet(key, pod, node)
        if memory.deleted:
            return None
        if (verdict := self._evicted.pop(pod.metadata.uid, None)) is not None:
            memory = msgspec.structs.replace(memory, verdict=verdict)
        memory = self.allocator.size(pod, node, memory)
        given = with_allocation(pod, memory.allocation) if memory.allocation is not None else pod
        if pod.spec.volumes and self.mounting is not None and not memory.mounted:
            memory = await self.mounting.look(pod, node, memory)
        return await self._bring_on(given, node, memory)

    def as_reported(self, pod: Pod) -> Pod:
        """Return a pod with the status last reported, which a cache may not show yet."""
        memory = self._memories.get(pod.metadata.uid)
        return pod if memory is None else msgspec.structs.replace(pod, status=memory.reported)

    def contradict(self, pod: Pod) -> None:
        """Write the status of a pod again at its next sync, as another client may have changed it."""
        if pod.metadata.uid in self._memories:
            self._contradicted.add(pod.metadata.uid)

    def agrees(self, pod: Pod) -> bool:
        """Return True if no other client has changed the status that the agent reported; always for terminal pods."""
        uid, revision = pod.metadata.uid, pod.metadata.resource_version
        memory = self._memories.get(uid)
        if memory is None or memory.agreed == revision or memory.deleted or memory.reported.phase in TERMINAL_PHASES:
            return True
        if KubeletStatusPatch(uid, pod.status, memory.reported):
            return False
        self._memories[uid] = msgspec.structs.replace(memory, agreed=revision)
        return True

    def evict(self, pod: Pod, verdict: TerminationReason) -> bool:
        """Fail a pod at its next sync; return False if it is unknown, terminal, or failing already."""
        memory = self._memories.get(pod.metadata.uid)
        if memory is None or memory.verdict is not None or memory.reported.phase in TERMINAL_PHASES:
            return False
        self._evicted[pod.metadata.uid] = verdict
        return True

    def is_finished(self, uid: str) -> bool:
        """Return True if nothing of a pod runs any more and that was reported."""
        memory = self._memories.get(uid)
        return memory is None or memory.deleted or memory.reported.phase in TERMINAL_PHASES

    # Steps.

    def _meet(self, key: ObjectKey, pod: Pod, node: Node) -> PodState:
        """Admit or reject a pod that is seen for the first time."""
        uid = pod.metadata.uid
        met_at = pod.status.start_time or Time(format_time(self._clock.now()))
        memory = PodState(reported=pod.status, met_at=met_at)
        if pod.status.phase not in TERMINAL_PHASES and pod.metadata.deletion_timestamp is None:
            has_run = bool(pod.status.container_statuses)
            if has_run:
                memory = msgspec.structs.replace(memory, probes=initial_records(pod, self._clock.now()))
            verdict = self._refusal_anew(pod, node) if has_run else self._refusal(pod, node)
            if verdict is not None:
                self._telling.refused(pod, verdict.reason, verdict.message.removeprefix("Pod was rejected: "))
                memory = msgspec.structs.replace(memory, verdict=verdict)
            else:
                memory = msgspec.structs.replace(memory, allocation=self.allocator.take(pod))
        self._known[key] = uid, pod.spec.node_name
        self._memories[uid] = memory
        return memory

    def _refusal(self, pod: Pod, node: Node) -> TerminationReason | None:
        if self._nodes.is_shutting_down(node):
            return NODE_SHUTDOWN_REJECTION
        taken = self.allocator.ledger(pod.spec.node_name)
        if is_critical_pod(pod):
            return critical_admission_rejection(pod, node, taken) or self._make_room(pod, node, taken)
        return pressure_rejection(pod, self._nodes.pressures_of(node)) or admission_rejection(pod, node, taken)

    def _make_room(self, pod: Pod, node: Node, taken: NodeAllocations) -> TerminationReason | None:
        """Evict other pods for a critical one that does not fit; return the reason if that is impossible."""
        lacking = insufficient_amounts(pod, node, taken)
        if not lacking:
            return None
        others = [one for one in self.pods_on(pod.spec.node_name) if one is not pod and one.metadata.uid in taken]
        try:
            victims = get_pods_to_preempt(pod, others, lacking)
        except NoVictimsError as error:
            return TerminationReason("UnexpectedAdmissionError", str(error), rejected=True)
        for victim in victims:
            if self.evict(victim, PREEMPTED):
                self._telling.refused(victim, PREEMPTED.reason, PREEMPTED.message)
                self.allocator.wake(key_of(victim))
        return None

    def _refusal_anew(self, pod: Pod, node: Node) -> TerminationReason | None:
        """Return the reason for rejecting a pod that ran before this agent started."""
        if is_critical_pod(pod):
            return None
        given = with_allocation(pod, allocation_from_status(pod))
        return readmission_rejection(given, node, self.allocator.ledger(pod.spec.node_name))

    async def _bring_on(self, pod: Pod, node: Node, memory: PodState) -> Result | None:
        uid = pod.metadata.uid
        decision, seen, memory = await self._actor.bring_on(pod, memory)
        memory = self._memories[uid] = self.allocator.settled(pod, seen, memory)
        if not (decision.ended and memory.reported.phase in TERMINAL_PHASES):
            around = StatusInputs(_addresses_of(node), self._clock.now(), decision.ended)
            await self._report(pod, memory, generate_pod_status(pod, seen, memory, around))
        if decision.ended:
            self.allocator.release(pod.spec.node_name, uid)
            await self._runtime.release(pod)
            if pod.metadata.deletion_timestamp is not None:
                await self._delete(pod)
            return None
        if memory.resize.waiting is not None:
            decision.wake(self._clock.now() + RESIZE_RETRY_INTERVAL)
        return Result(requeue_after=self._seconds_until(decision.wake_at)) if decision.wake_at is not None else None

    async def _report(self, pod: Pod, memory: PodState, status: Any) -> None:
        meta = pod.metadata
        is_disputed = meta.uid in self._contradicted
        change = KubeletStatusPatch(
            meta.uid, with_unknown_readiness(pod.status) if is_disputed else memory.reported, status
        )
        if not change:
            return
        try:
            done: Pod = await self._client.patch(
                Pod, meta.name, change, meta.namespace, type=STRATEGIC_PATCH, subresource="status"
            )
        except NotFound:  # it is gone: the delete event follows
            return
        self._contradicted.discard(meta.uid)
        revision = done.metadata.resource_version
        written = msgspec.structs.replace(self._memories[meta.uid], reported=change.outcome, agreed=revision)
        self._memories[meta.uid] = written

    async def _delete(self, pod: Pod) -> None:
        """Send the final delete, as nothing runs any more."""
        meta = pod.metadata
        with suppress(NotFound, Conflict):
            await self._client.delete(
                Pod, meta.name, meta.namespace, grace_seconds=0, preconditions=Preconditions(uid=meta.uid)
            )
        if (memory := self._memories.get(meta.uid)) is not None:
            self._memories[meta.uid] = msgspec.structs.replace(memory, deleted=True)

    async def _forget(self, key: ObjectKey, uid: str, node: str) -> None:
        del self._known[key]
        self._memories.pop(uid, None)
        self._evicted.pop(uid, None)
        self.allocator.release(node, uid)
        await self._runtime.remove(uid)

    def _seconds_until(self, moment: datetime) -> float:
        return max((moment - self._clock.now()).total_seconds(), 0.0)


def _addresses_of(node: Node) -> tuple[str, ...]:
    found = tuple(one.address for one in node.status.addresses if one.type == "InternalIP")
    return found or ("127.0.0.1",)
