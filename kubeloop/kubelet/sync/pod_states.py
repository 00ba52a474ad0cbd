# SPDX-License-Identifier: Apache-2.0
"""States of all pods of an agent between their syncs, and the evictions that wait for the next sync."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.kubelet.sync.pod_state import PodState, TerminationReason
from kubeloop.kubelet.sync.sync_queues import EnqueuePod
from kubeloop.kubelet.sync.termination import TERMINAL_PHASES
from kubeloop.runtime.objects.keys import ObjectKey, key_of


class KnownPod(NamedTuple):
    """Identity of a pod with a state."""

    uid: str
    node: str


class PodStates:
    """Pod states by uid; `enqueue` queues a pod for sync."""

    def __init__(self, enqueue: EnqueuePod) -> None:
        self._enqueue = enqueue
        self._states: dict[str, PodState] = {}
        self._known: dict[ObjectKey, KnownPod] = {}
        self._pending_evictions: dict[str, TerminationReason] = {}

    def __len__(self) -> int:
        return len(self._states)

    def get(self, uid: str) -> PodState | None:
        """Return the state of a pod, or None."""
        return self._states.get(uid)

    def put(self, uid: str, state: PodState) -> PodState:
        """Set the state of a pod and return it."""
        self._states[uid] = state
        return state

    def find(self, key: ObjectKey) -> KnownPod | None:
        """Return the identity of the pod with a state under this key, or None."""
        return self._known.get(key)

    def add_pod(self, key: ObjectKey, pod: Pod, state: PodState) -> PodState:
        """Add the state of a pod that is seen for the first time and return it."""
        self._known[key] = KnownPod(pod.metadata.uid, pod.spec.node_name)
        return self.put(pod.metadata.uid, state)

    def remove_pod(self, key: ObjectKey) -> None:
        """Remove the state of a pod."""
        uid = self._known.pop(key).uid
        self._states.pop(uid, None)
        self._pending_evictions.pop(uid, None)

    def evict(self, pod: Pod, reason: TerminationReason) -> bool:
        """Queue a pod to fail at its next sync; return False if it is unknown, terminal, or failing already."""
        state = self._states.get(pod.metadata.uid)
        if state is None or state.termination_reason is not None or state.reported_status.phase in TERMINAL_PHASES:
            return False
        self._pending_evictions[pod.metadata.uid] = reason
        self._enqueue(key_of(pod))
        return True

    def take_eviction(self, uid: str) -> TerminationReason | None:
        """Return and remove the pending eviction of a pod, if any."""
        return self._pending_evictions.pop(uid, None)

    def is_terminated(self, uid: str) -> bool:
        """Return True if nothing of a pod runs any more and that was reported."""
        state = self._states.get(uid)
        return state is None or state.deleted or state.reported_status.phase in TERMINAL_PHASES
