# SPDX-License-Identifier: Apache-2.0
"""Evicts pods from a node whose NoExecute taints they don't tolerate, at once or when the toleration expires.

nodes, pods ──▶ policy: duration of tolerance ──▶ evictions that are due later ──▶ condition, then deletion

Watches: nodes and pods.
Owns: nothing.
Writes: the condition DisruptionTarget of pods to be evicted; deletes them.
Wakes itself: when a pod's toleration expires.
Differs from upstream: the deletion of a pod is retried until it is gone, not five times; the deletion requires the UID
  of the evaluated pod.
"""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Node, ObjectReference, Pod
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.pods.pod_disruption import disruption_patch
from kubeloop.controllers.taint_eviction.policy import (
    TaintEviction,
    eviction_of,
    eviction_taints,
    min_toleration_seconds,
)
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE, node_name_of
from kubeloop.runtime.objects.keys import key_of
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "taint-eviction-controller"
QUEUE = "noexec_taint_pod"
WORKERS = 16  # concurrent deletions: two requests each, mostly waiting
REASON = "TaintManagerEviction"
MESSAGE = "Taint manager: deleting due to NoExecute taint"
# Upstream's buckets, from 5 ms to 4 minutes.
_BOUNDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0)


class TaintEvictionKey(NamedTuple):
    """Queue key: a pod, or without a namespace a node."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else f"node {self.name}"


def wire(context: ControllerContext) -> Controller[TaintEvictionKey]:
    """Build the controller and register its event handlers."""
    pods = context.informers.for_resource(resource_of_class(Pod))
    nodes = context.informers.for_resource(resource_of_class(Node))
    pods.add_indexer(NODE, node_name_of)
    queue: WorkQueue[TaintEvictionKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    recorder = context.recorder.with_component(NAME)
    deleter = PodDeleter(context.client, context.clock, recorder, context.telemetry.registry)
    reconciler = Reconciler(pods, nodes, deleter, queue, context.clock)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(nodes, lambda node: (TaintEvictionKey("", node.metadata.name),), taints_changed)
    controller.watches(pods, reconciler.keys_of_pod, affects_eviction)
    return controller


class Reconciler:
    """Schedules and executes evictions.

    Invariant of `_evictions`: it holds only pods that existed in their last sync, each with one due time.
    """

    def __init__(
        self, pods: Informer, nodes: Informer, deleter: PodDeleter, queue: WorkQueue[TaintEvictionKey], clock: Clock
    ) -> None:
        self._pods = pods
        self._nodes = nodes
        self._deleter = deleter
        self._queue = queue
        self._clock = clock
        self._evictions: dict[TaintEvictionKey, TaintEviction] = {}

    def keys_of_pod(self, pod: Pod) -> tuple[TaintEvictionKey, ...]:
        """Return the pod's key, unless no eviction is planned and its node has no NoExecute taints.

        As soon as the node has some, all its pods are evaluated.
        """
        key, node = TaintEvictionKey(*key_of(pod)), self._nodes.get("", pod.spec.node_name)
        return (key,) if key in self._evictions or (node is not None and eviction_taints(node)) else ()

    async def reconcile(self, key: TaintEvictionKey) -> Result | None:
        """Sync one pod or one node."""
        if key.namespace:
            return await self._reconcile_pod(key)
        self._reconcile_node(key.name)
        return None

    def _reconcile_node(self, name: str) -> None:
        """Evaluate all pods of a node at the same time; immediate evictions are enqueued separately."""
        node = self._nodes.get("", name)
        if node is None:
            return
        now = self._clock.monotonic()
        for pod in self._pods.by_index(NODE, name):
            key = TaintEvictionKey(*key_of(pod))
            self._judge(key, pod, now)
            if (eviction := self._evictions.get(key)) is not None:
                self._queue.add_after(key, eviction.due - now)

    async def _reconcile_pod(self, key: TaintEvictionKey) -> Result | None:
        pod, now = self._pods.get(*key), self._clock.monotonic()
        if pod is None:
            self._drop(key, None)
            return None
        self._judge(key, pod, now)
        if (eviction := self._evictions.get(key)) is None:
            return None
        if (left := eviction.due - now) > 0:
            return Result(requeue_after=left)
        if not self._queue.num_requeues(key):
            self._deleter.record_event(key, f"Marking for deletion Pod {key}")
        await self._deleter.delete(key, eviction)
        if self._evictions.get(key) is eviction:
            del self._evictions[key]
        return None

    def _judge(self, key: TaintEvictionKey, pod: Pod, now: float) -> None:
        node: Node | None = self._nodes.get("", pod.spec.node_name) if pod.spec.node_name else None
        before = self._evictions.get(key)
        if before is not None and before.uid != pod.metadata.uid:
            self._drop(key, None)
            before = None
        if node is None:
            return  # if the node is gone, the decision stands
        seconds = min_toleration_seconds(eviction_taints(node), pod.spec.tolerations)
        after = eviction_of(pod.metadata.uid, seconds, before, now)
        if after is not before:
            self._drop(key, after)

    def _drop(self, key: TaintEvictionKey, successor: TaintEviction | None) -> None:
        """Replace or cancel an eviction; a planned one that had not been immediate is cancelled with an event."""
        before = self._evictions.pop(key, None)
        if before is not None and not before.is_immediate:
            self._deleter.record_event(key, f"Cancelling deletion of Pod {key}")
        if successor is not None:
            self._evictions[key] = successor


class PodDeleter:
    """Deletes pods, with a condition and an event."""

    def __init__(self, client: Client, clock: Clock, recorder: EventRecorder, registry: MetricRegistry) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._deleted = registry.counter("taint_eviction_controller_pod_deletions_total").with_labels()
        self._lateness = registry.histogram(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            bounds=_BOUNDS,
        ).with_labels()

    async def delete(self, key: TaintEvictionKey, eviction: TaintEviction) -> None:
        """Delete the pod with this UID; returns when it is deleted or replaced."""
        try:
            pod = await self._client.get(Pod, key.name, key.namespace)
            if pod.metadata.uid != eviction.uid:
                return
            await self._say_why(pod)
            same = Preconditions(uid=eviction.uid)
            await self._client.delete(Pod, key.name, key.namespace, preconditions=same)
        except NotFound:
            return
        self._deleted.value += 1
        self._lateness.observe(max(0.0, self._clock.monotonic() - eviction.due))

    async def _say_why(self, pod: Pod) -> None:
        now, generation = format_time(self._clock.now()), pod.metadata.generation or 0
        patch = disruption_patch(pod, "DeletionByTaintManager", MESSAGE, now, generation)
        if patch is not None:
            meta = pod.metadata
            await self._client.patch(
                Pod, meta.name, patch, meta.namespace, type=STRATEGIC_PATCH, subresource="status"
            )  # fmt: skip

    def record_event(self, key: TaintEvictionKey, message: str) -> None:
        """Record an event on the pod."""
        about = ObjectReference(api_version="v1", kind="Pod", name=key.name, namespace=key.namespace)
        self._recorder.event(about, "Normal", REASON, message)


def taints_changed(old: Node | None, new: Node | None) -> bool:
    """Return True if the node's NoExecute taints have changed."""
    if old is None or new is None:
        return new is not None and bool(eviction_taints(new))
    return eviction_taints(old) != eviction_taints(new)


def affects_eviction(old: Pod | None, new: Pod | None) -> bool:
    """Return True if a change of a pod may affect its eviction."""
    if old is None or new is None:
        return bool((new or old).spec.node_name)  # type: ignore[union-attr]  # one of them is there
    return old.spec.node_name != new.spec.node_name or old.spec.tolerations != new.spec.tolerations
