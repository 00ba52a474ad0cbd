# SPDX-License-Identifier: Apache-2.0
"""Pod workers: sync each pod with the runtime, and report its status or delete it when it has terminated."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.clock import Clock
from kubeloop.kubelet.admission.admit_handler import PodAdmitHandler
from kubeloop.kubelet.admission.allocator import AllocationManager
from kubeloop.kubelet.admission.resize import RESIZE_RETRY_INTERVAL, with_allocation
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.status.generate import StatusInputs, generate_pod_status
from kubeloop.kubelet.status.status_manager import StatusManager
from kubeloop.kubelet.sync.pod_state import PodState
from kubeloop.kubelet.sync.pod_states import KnownPod, PodStates
from kubeloop.kubelet.sync.pod_syncer import PodSyncer
from kubeloop.kubelet.sync.termination import TERMINAL_PHASES
from kubeloop.runtime.controller import Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey


class PodVolumeManager(Protocol):
    """Volume manager, as far as pod workers need it."""

    async def check_attach_and_mount(self, pod: Pod, node: Node, memory: PodState) -> PodState:
        """Return the pod's state with its missing volumes, or marked as mounted."""


@dataclass(frozen=True, slots=True)
class PodManagers:
    """Managers that take part in the sync of a pod."""

    admit_handler: PodAdmitHandler
    allocator: AllocationManager
    volume_manager: PodVolumeManager
    status_manager: StatusManager


class PodWorkers:
    """Reconciles the pods of all nodes of an agent."""

    def __init__(
        self,
        pods: Informer,
        nodes: ServedNodes,
        states: PodStates,
        syncer: PodSyncer,
        managers: PodManagers,
        clock: Clock,
    ) -> None:
        self._pods = pods
        self._nodes = nodes
        self._states = states
        self._syncer = syncer
        self._admit_handler = managers.admit_handler
        self._allocator = managers.allocator
        self._volume_manager = managers.volume_manager
        self._status_manager = managers.status_manager
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Sync a pod; return the time of the next sync, if any."""
        pod: Pod | None = self._pods.get(*key)
        known = self._states.find(key)
        if known is not None and (pod is None or pod.metadata.uid != known.uid):
            await self._remove_pod(key, known)
        if pod is None or (node := self._nodes.get_reachable(pod.spec.node_name)) is None:
            return None
        uid = pod.metadata.uid
        state = self._states.get(uid)
        if state is None:
            state = await self._admit_handler.admit(pod, node, self._clock.now())
            state = self._states.add_pod(key, pod, state)
        if state.deleted:
            return None
        if (eviction := self._states.take_eviction(uid)) is not None:
            state = msgspec.structs.replace(state, termination_reason=eviction)
        state = self._allocator.handle_resize(pod, node, state)
        allocated = with_allocation(pod, state.allocation) if state.allocation is not None else pod
        if pod.spec.volumes and not state.volumes_mounted:
            state = await self._volume_manager.check_attach_and_mount(pod, node, state)
        return await self._sync_pod(allocated, node, state)

    async def _sync_pod(self, pod: Pod, node: Node, state: PodState) -> Result | None:
        uid = pod.metadata.uid
        decision, seen, state = await self._syncer.sync_pod(pod, state)
        state = self._states.put(uid, self._allocator.update_resize_progress(pod, seen, state))
        if decision.is_terminated:
            await self._syncer.unprepare_pod(pod)  # others may use the resources once the final status is written
        if not (decision.is_terminated and state.reported_status.phase in TERMINAL_PHASES):
            inputs = StatusInputs(_addresses_of(node), self._clock.now(), decision.is_terminated)
            await self._status_manager.write_status(pod, state, generate_pod_status(pod, seen, state, inputs))
        if decision.is_terminated:
            self._allocator.remove_pod(pod.spec.node_name, uid)
            await self._syncer.sync_terminated_pod(pod)
            if pod.metadata.deletion_timestamp is not None:
                await self._status_manager.delete_pod(pod)
            return None
        if state.resize.pending is not None:
            decision.wake_by(self._clock.now() + RESIZE_RETRY_INTERVAL)
        return Result(requeue_after=self._seconds_until(decision.wake_at)) if decision.wake_at is not None else None

    async def _remove_pod(self, key: ObjectKey, known: KnownPod) -> None:
        self._status_manager.remove_pod(known.uid)
        self._states.remove_pod(key)
        self._allocator.remove_pod(known.node, known.uid)
        await self._syncer.remove_pod(known.uid)

    def _seconds_until(self, moment: datetime) -> float:
        return max((moment - self._clock.now()).total_seconds(), 0.0)


def _addresses_of(node: Node) -> tuple[str, ...]:
    found = tuple(one.address for one in node.status.addresses if one.type == "InternalIP")
    return found or ("127.0.0.1",)
