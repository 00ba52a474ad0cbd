"""Allocates resources of nodes to pods at admission, and on later resizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import msgspec

from kubeloop.api.generated.core_v1 import Node, Pod, PodStatus
from kubeloop.api.quota.amounts import ZERO, Amounts
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.api.strategy.pods.qos import GUARANTEED, qos_class_of
from kubeloop.kubelet.admission.allocations import Ledger
from kubeloop.kubelet.admission.predicates import shortage_of
from kubeloop.kubelet.admission.resize import (
    DEFERRED,
    Allocation,
    Deferral,
    Resize,
    allocation_of,
    as_allocated,
    found_allocation,
    is_as_allocated,
    is_resizing,
    message_of,
)
from kubeloop.kubelet.events.recorder import Telling
from kubeloop.kubelet.runtime import Observation
from kubeloop.kubelet.status.resize_status import NO_SIZES, pod_sizes
from kubeloop.kubelet.sync.pod_state import Memory
from kubeloop.kubelet.sync.termination import TERMINAL, is_to_end
from kubeloop.runtime.objects.keys import ObjectKey, key_of

Turn = tuple[bool, int, bool]  # order of deferred resizes; of equals, the longest waiting comes first


class Allocator:
    """Allocations of the pods of all nodes; `wake` queues a pod for sync."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling
        self._ledgers: dict[str, Ledger] = defaultdict(Ledger)  # by node
        self._waiting: dict[str, dict[ObjectKey, Turn]] = defaultdict(dict)  # by node, pods with a deferred resize
        self.wake: Callable[[ObjectKey], None] = lambda _: None

    def ledger(self, node: str) -> Ledger:
        """Return the allocations of a node."""
        return self._ledgers[node]

    def take(self, pod: Pod) -> Allocation:
        """Add an admitted pod and return its allocation."""
        allocation = found_allocation(pod) if pod.status.container_statuses else allocation_of(pod)
        return self._counted(_unreported(as_allocated(pod, allocation)), allocation)

    def _counted(self, pod: Pod, allocation: Allocation) -> Allocation:
        """Add a pod with its allocation; return the allocation with pod-level resources."""
        requests = self._ledgers[pod.spec.node_name].take(pod)
        sizes = pod_sizes(pod, requests)
        return allocation if sizes is NO_SIZES else msgspec.structs.replace(allocation, sizes=sizes)

    def release(self, node: str, uid: str) -> None:
        """Remove a pod; pods with a deferred resize on the node are queued for sync."""
        ledger = self._ledgers[node]
        if uid not in ledger:
            return
        ledger.release(uid)
        waiting = self._waiting.pop(node, {})
        for key in sorted(waiting, key=waiting.__getitem__):
            self.wake(key)

    def size(self, pod: Pod, node: Node, memory: Memory) -> Memory:
        """Allocate a resize of the pod if it fits; else defer it."""
        allocation = memory.allocation
        if allocation is None or is_to_end(pod) or memory.verdict is not None:
            return memory
        if is_as_allocated(pod, allocation):
            if memory.resize.waiting is not None:  # the spec is back at the allocation
                resize = msgspec.structs.replace(memory.resize, waiting=None)
                memory = msgspec.structs.replace(memory, resize=resize)
            if pod.metadata.generation == allocation.generation:
                return memory
            same = msgspec.structs.replace(allocation, generation=pod.metadata.generation)
            return msgspec.structs.replace(memory, allocation=same)
        return self._resize(pod, node, memory, allocation)

    def _resize(self, pod: Pod, node: Node, memory: Memory, allocation: Allocation) -> Memory:
        ledger, uid, generation = self._ledgers[pod.spec.node_name], pod.metadata.uid, pod.metadata.generation
        wanted = _unreported(pod)
        ledger.release(uid)
        shortage = shortage_of(wanted, node, ledger)
        if shortage is None:
            given = self._counted(wanted, allocation_of(pod))
            self._telling.resize_began(pod, message_of("Pod resize started", pod, generation))
            return msgspec.structs.replace(memory, allocation=given, resize=Resize(generation=generation))
        held = ledger.take(_unreported(as_allocated(pod, allocation)))
        self._waiting[pod.spec.node_name][key_of(pod)] = _turn(wanted, held)
        before, message = memory.resize.waiting, shortage[1]
        if before is None or before.generation != generation:
            self._telling.resize_waits(pod, message_of(f"Pod resize {shortage[0]}", pod, generation, message))
        resize = msgspec.structs.replace(memory.resize, waiting=Deferral(DEFERRED, message, generation))
        return msgspec.structs.replace(memory, resize=resize)

    def settled(self, pod: Pod, seen: Observation, memory: Memory) -> Memory:
        """Update the resize progress by comparing what runs with the allocation; `pod` has its allocated resources."""
        generation = memory.resize.generation
        if memory.reported.phase in TERMINAL:
            return memory
        resizing = is_resizing(pod, seen)
        if resizing == (generation is not None):
            return memory
        if generation is not None:
            self._telling.resize_ended(pod, message_of("Pod resize completed", pod, generation))
        now = pod.metadata.generation if resizing else None
        return msgspec.structs.replace(memory, resize=msgspec.structs.replace(memory.resize, generation=now))


def _turn(pod: Pod, held: Amounts) -> Turn:
    """Return the priority of a deferred resize: no increase first, then higher priority, then Guaranteed pods."""
    asks_for_more = any(amount > held.get(name, ZERO) for name, amount in requests_of(pod).items())
    return asks_for_more, -(pod.spec.priority or 0), qos_class_of(pod.spec) != GUARANTEED


def _unreported(pod: Pod) -> Pod:
    """Return the pod without status, so that only its spec counts for requests."""
    return msgspec.structs.replace(pod, status=PodStatus()) if pod.status.container_statuses else pod
