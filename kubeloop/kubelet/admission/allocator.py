# SPDX-License-Identifier: Apache-2.0
"""Allocates resources of nodes to pods at admission, and on later resizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set

import msgspec

from kubeloop.api.generated.core_v1 import Node, Pod, PodStatus
from kubeloop.api.quota.amounts import ZERO, Amounts
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.api.strategy.pods.qos import GUARANTEED, qos_class_of
from kubeloop.kubelet.admission.allocations import NodeAllocations
from kubeloop.kubelet.admission.predicates import insufficient_resource_reason
from kubeloop.kubelet.admission.resize import (
    DEFERRED,
    INFEASIBLE,
    PendingResize,
    PodAllocation,
    ResizeState,
    allocation_from_spec,
    allocation_from_status,
    infeasible_resize,
    is_resize_in_progress,
    is_spec_allocated,
    resize_event_message,
    with_allocation,
)
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.runtime import PodObservation
from kubeloop.kubelet.status.resize_status import NO_POD_LEVEL_RESOURCES, pod_level_resources
from kubeloop.kubelet.sync.pod_state import PodState
from kubeloop.kubelet.sync.sync_queues import EnqueuePod
from kubeloop.kubelet.sync.termination import TERMINAL_PHASES, is_termination_requested
from kubeloop.runtime.objects.keys import ObjectKey, key_of

ResizePriority = tuple[bool, int, bool]  # order of deferred resizes; of equals, the longest waiting comes first


class AllocationManager:
    """Allocations of the pods of all nodes; `enqueue` queues a pod for sync.

    Resources with a static manager are allocated once.
    """

    def __init__(self, events: PodEvents, enqueue: EnqueuePod, *, static: Set[str] = frozenset()) -> None:
        self._static = static
        self._events = events
        self._enqueue = enqueue
        self._ledgers: dict[str, NodeAllocations] = defaultdict(NodeAllocations)  # by node
        self._waiting: dict[str, dict[ObjectKey, ResizePriority]] = defaultdict(
            dict
        )  # by node, pods with a deferred resize

    def node_allocations(self, node: str) -> NodeAllocations:
        """Return the allocations of a node."""
        return self._ledgers[node]

    def add_pod(self, pod: Pod) -> PodAllocation:
        """Add an admitted pod and return its allocation."""
        allocation = allocation_from_status(pod) if pod.status.container_statuses else allocation_from_spec(pod)
        return self._counted(_without_status(with_allocation(pod, allocation)), allocation)

    def _counted(self, pod: Pod, allocation: PodAllocation) -> PodAllocation:
        """Add a pod with its allocation; return the allocation with pod-level resources."""
        requests = self._ledgers[pod.spec.node_name].add_pod(pod)
        sizes = pod_level_resources(pod, requests)
        return (
            allocation
            if sizes is NO_POD_LEVEL_RESOURCES
            else msgspec.structs.replace(allocation, pod_level_status=sizes)
        )

    def remove_pod(self, node: str, uid: str) -> None:
        """Remove a pod; pods with a deferred resize on the node are queued for sync."""
        ledger = self._ledgers[node]
        if uid not in ledger:
            return
        ledger.remove_pod(uid)
        waiting = self._waiting.pop(node, {})
        for key in sorted(waiting, key=waiting.__getitem__):
            self._enqueue(key)

    def handle_resize(self, pod: Pod, node: Node, memory: PodState) -> PodState:
        """Allocate a resize of the pod if it fits; else defer it."""
        allocation = memory.allocation
        if allocation is None or is_termination_requested(pod) or memory.termination_reason is not None:
            return memory
        if is_spec_allocated(pod, allocation):
            if memory.resize.pending is not None:  # the spec is back at the allocation
                resize = msgspec.structs.replace(memory.resize, pending=None)
                memory = msgspec.structs.replace(memory, resize=resize)
            if pod.metadata.generation == allocation.generation:
                return memory
            same = msgspec.structs.replace(allocation, generation=pod.metadata.generation)
            return msgspec.structs.replace(memory, allocation=same)
        return self._resize(pod, node, memory, allocation)

    def _resize(self, pod: Pod, node: Node, memory: PodState, allocation: PodAllocation) -> PodState:
        ledger, uid, generation = self._ledgers[pod.spec.node_name], pod.metadata.uid, pod.metadata.generation
        if problem := infeasible_resize(pod, allocation, self._static):
            if memory.resize.pending is None or memory.resize.pending.generation != generation:
                said = resize_event_message(f"Pod resize {INFEASIBLE}", pod, generation, problem)
                self._events.record_resize_infeasible(pod, said)
            pending = PendingResize(INFEASIBLE, problem, generation)
            return msgspec.structs.replace(memory, resize=msgspec.structs.replace(memory.resize, pending=pending))
        wanted = _without_status(pod)
        ledger.remove_pod(uid)
        shortage = insufficient_resource_reason(wanted, node, ledger)
        if shortage is None:
            given = self._counted(wanted, allocation_from_spec(pod))
            self._events.record_resize_started(pod, resize_event_message("Pod resize started", pod, generation))
            return msgspec.structs.replace(
                memory, allocation=given, resize=ResizeState(in_progress_generation=generation)
            )
        held = ledger.add_pod(_without_status(with_allocation(pod, allocation)))
        self._waiting[pod.spec.node_name][key_of(pod)] = _resize_priority(wanted, held)
        before, message = memory.resize.pending, shortage[1]
        if before is None or before.generation != generation:
            self._events.record_resize_deferred(
                pod, resize_event_message(f"Pod resize {shortage[0]}", pod, generation, message)
            )
        resize = msgspec.structs.replace(memory.resize, pending=PendingResize(DEFERRED, message, generation))
        return msgspec.structs.replace(memory, resize=resize)

    def update_resize_progress(self, pod: Pod, seen: PodObservation, memory: PodState) -> PodState:
        """Update the resize progress by comparing what runs with the allocation; `pod` has its allocated resources."""
        generation = memory.resize.in_progress_generation
        if memory.reported_status.phase in TERMINAL_PHASES:
            return memory
        resizing = is_resize_in_progress(pod, seen)
        if resizing == (generation is not None):
            return memory
        if generation is not None:
            self._events.record_resize_completed(pod, resize_event_message("Pod resize completed", pod, generation))
        now = pod.metadata.generation if resizing else None
        progress = msgspec.structs.replace(memory.resize, in_progress_generation=now)
        if now is None and memory.resize.error:
            progress = msgspec.structs.replace(progress, error="", retry_at=None)
        return msgspec.structs.replace(memory, resize=progress)


def _resize_priority(pod: Pod, held: Amounts) -> ResizePriority:
    """Return the priority of a deferred resize: no increase first, then higher priority, then Guaranteed pods."""
    asks_for_more = any(amount > held.get(name, ZERO) for name, amount in requests_of(pod).items())
    return asks_for_more, -(pod.spec.priority or 0), qos_class_of(pod.spec) != GUARANTEED


def _without_status(pod: Pod) -> Pod:
    """Return the pod without status, so that only its spec counts for requests."""
    return msgspec.structs.replace(pod, status=PodStatus()) if pod.status.container_statuses else pod
