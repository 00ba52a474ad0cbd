# SPDX-License-Identifier: Apache-2.0
"""Force-deletes pods that no other component will remove.

These are: terminated pods above a threshold, evicted and oldest first; pods of nodes that are gone; unscheduled pods
that are being deleted; pods that are being deleted on a node that is out of service.

Watches: pods and nodes.
Owns: nothing.
Writes: sets the phase Failed of pods that had not ended, with a condition if their node is gone; deletes pods without
  grace.
Wakes itself: every 20 seconds.
Differs from upstream: a node that returns ends its quarantine; a pod is handled once per pass; a deletion requires the
  UID of the evaluated pod.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from kubeloop.api import codec
from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.core_v1 import Node, Pod, PodCondition
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.meta.conditions import find_condition, set_condition
from kubeloop.api.pods.pod import is_terminal
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.errors import ClientError
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE, node_name_of
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "pod-garbage-collector-controller"
QUEUE = "orphaned_pods_nodes"  # upstream's queue name, though for other keys
PERIOD = 20.0
QUARANTINE = 40.0  # seconds for which a node may be missing before the server is asked
CONCURRENCY = 32  # pods deleted concurrently
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
ACTIVE_PHASES = ("Pending", "Running", "Unknown")

INDEX = "pod-gc"
ENDED, DELETED, DELETED_UNBOUND = "ended", "being deleted", "being deleted without a node"

log = logging.getLogger(__name__)


def wire(context: ControllerContext) -> Controller[str]:
    """Build the controller; it only reads the informers, and is driven by time."""
    pods = context.informers.for_resource(resource_of_class(Pod))
    nodes = context.informers.for_resource(resource_of_class(Node))
    pods.add_indexer(NODE, node_name_of)
    pods.add_indexer(INDEX, states_of)
    sweeper = PodGC(context, pods, nodes)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(NAME, sweeper.reconcile, context.clock, workers=1, queue=queue, telemetry=context.telemetry)
    controller.require_synced(pods)  # the controller is driven by time
    controller.require_synced(nodes)
    queue.add("pods")
    return controller


class PodGCMetrics:
    """Metrics of deleted pods by reason."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._removed = registry.counter("pod_gc_collector_force_delete_pods_total", "namespace", "reason")
        self._failed = registry.counter("pod_gc_collector_force_delete_pod_errors_total", "namespace", "reason")

    def record_deleted(self, namespace: str, reason: str) -> None:
        """Count a deleted pod."""
        self._removed.with_labels(namespace, reason).value += 1

    def record_failure(self, namespace: str, reason: str) -> None:
        """Count a failed deletion."""
        self._failed.with_labels(namespace, reason).value += 1


class DeletionCandidate(NamedTuple):
    """A pod to delete, the reason for metrics, and the condition to set."""

    pod: Pod
    reason: str
    condition: PodCondition | None = None


class PodGC:
    """Finds and deletes such pods."""

    def __init__(self, context: ControllerContext, pods: Informer, nodes: Informer) -> None:
        self._client = context.client
        self._pods = pods
        self._nodes = nodes
        self._clock = context.clock
        self._counts = PodGCMetrics(context.telemetry.registry)
        self._threshold = context.config.terminated_pod_gc_threshold
        self._missing: dict[str, float] = {}  # missing nodes that pods are bound to, and the end of their quarantine

    async def reconcile(self, _: str) -> Result:
        """Delete all such pods once, and repeat after the period."""
        found = [*self._ended(), *self._out_of_service(), *await self._orphaned(), *self._unbound()]
        once = {finding.pod.metadata.uid: finding for finding in reversed(found)}
        limit = asyncio.Semaphore(CONCURRENCY)

        async def remove(finding: DeletionCandidate) -> None:
            async with limit:
                await self._remove(finding)

        await asyncio.gather(*map(remove, reversed(once.values())))
        return Result(requeue_after=PERIOD)

    # Candidates

    def _ended(self) -> Iterable[DeletionCandidate]:
        pods = self._pods.by_index(INDEX, ENDED)
        if self._threshold <= 0 or len(pods) <= self._threshold:
            return ()
        first = sorted(pods, key=removal_order)[: len(pods) - self._threshold]
        return [DeletionCandidate(pod, "terminated") for pod in first]

    def _out_of_service(self) -> Iterable[DeletionCandidate]:
        for pod in self._pods.by_index(INDEX, DELETED):
            if is_out_of_service(self._nodes.get("", pod.spec.node_name)):
                yield DeletionCandidate(pod, "out-of-service")

    def _unbound(self) -> Iterable[DeletionCandidate]:
        for pod in self._pods.by_index(INDEX, DELETED_UNBOUND):
            yield DeletionCandidate(pod, "unscheduled")

    async def _orphaned(self) -> Iterable[DeletionCandidate]:
        return [
            DeletionCandidate(pod, "orphaned", node_gone_condition(pod))
            for name in await self._gone_nodes()
            for pod in self._pods.by_index(NODE, name)
        ]

    async def _gone_nodes(self) -> list[str]:
        """Return the nodes that have been missing for long enough, and that the server does not have either."""
        now = self._clock.monotonic()
        missing = [name for name in self._pods.index_values(NODE) if self._nodes.get("", name) is None]
        self._missing = {name: self._missing.get(name, now + QUARANTINE) for name in missing}
        return [name for name, until in self._missing.items() if until <= now and await self._is_gone(name)]

    async def _is_gone(self, node: str) -> bool:
        try:
            await self._client.get(Node, node)
        except NotFound:
            return True
        except (ApiError, ClientError) as error:
            log.warning("%s: failed to get node %s: %s", NAME, node, error)
        return False

    # Deletion

    async def _remove(self, finding: DeletionCandidate) -> None:
        pod, reason, _ = finding
        meta = pod.metadata
        self._counts.record_deleted(meta.namespace, reason)
        try:
            await self._fail(finding)
            await self._client.delete(
                Pod, meta.name, meta.namespace, grace_seconds=0, preconditions=Preconditions(uid=meta.uid)
            )
        except NotFound:
            return
        except (ApiError, ClientError) as error:
            self._counts.record_failure(meta.namespace, reason)
            log.warning("%s: failed to delete pod %s/%s (%s): %s", NAME, meta.namespace, meta.name, reason, error)

    async def _fail(self, finding: DeletionCandidate) -> None:
        """Set the phase Failed before a forced deletion, since no kubelet will."""
        pod = finding.pod
        if is_terminal(pod):
            return
        meta = pod.metadata
        patch = failure_patch(pod, finding.condition, format_time(self._clock.now()))
        await self._client.patch(
            Pod, meta.name, patch, meta.namespace, type=STRATEGIC_PATCH, subresource="status"
        )  # fmt: skip


def states_of(pod: Pod) -> tuple[str, ...]:
    """Index pods by the states that may be a reason to delete them."""
    ended = () if pod.status.phase in ACTIVE_PHASES else (ENDED,)
    if pod.metadata.deletion_timestamp is None:
        return ended
    return (*ended, DELETED if pod.spec.node_name else DELETED_UNBOUND)


def removal_order(pod: Pod) -> tuple[bool, str, str]:
    """Return a sort key: evicted pods first, then by age and name."""
    evicted = pod.status.phase == "Failed" and pod.status.reason == "Evicted"
    return (not evicted, str(pod.metadata.creation_timestamp or ""), pod.metadata.name)


def is_out_of_service(node: Node | None) -> bool:
    """Return True if an unready node has the out-of-service taint."""
    if node is None or not any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints):
        return False
    ready = find_condition(node.status.conditions, "Ready")
    return ready is None or ready.status != "True"


def node_gone_condition(pod: Pod) -> PodCondition:
    """Build the DisruptionTarget condition of a pod whose node is gone."""
    return PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="DeletionByPodGC",
        message="PodGC: node no longer exists",
        observed_generation=pod.metadata.generation,
    )


def failure_patch(pod: Pod, condition: PodCondition | None, now: Any) -> dict[str, Any]:
    """Build a strategic merge patch that sets the phase Failed."""
    status: dict[str, Any] = {"phase": "Failed", "observedGeneration": pod.metadata.generation}
    if condition is not None:
        updated = find_condition(set_condition(pod.status.conditions, condition, now), condition.type)
        status["conditions"] = [codec.to_plain(updated)]
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}
