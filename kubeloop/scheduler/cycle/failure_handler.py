# SPDX-License-Identifier: Apache-2.0
"""Failure handler: returns a pod to the queue after a failed attempt and reports the reason."""

from __future__ import annotations

from kubeloop.runtime.informer.informer import Informer
from kubeloop.scheduler.cache.pod_info import SignatureCache
from kubeloop.scheduler.framework.status import Diagnosis, Status
from kubeloop.scheduler.queue.nominator import Nominator
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue
from kubeloop.scheduler.status.reporter import ERROR, UNSCHEDULABLE, Reporter


class FailureHandler:
    """Handles the failures of scheduling and binding cycles."""

    def __init__(
        self,
        pods: Informer,
        signatures: SignatureCache,
        nominator: Nominator,
        queue: SchedulingQueue,
        reporter: Reporter,
    ) -> None:
        self._pods = pods
        self._signatures = signatures
        self._nominator = nominator
        self._queue = queue
        self._reporter = reporter

    def handle_failure_on_node(self, queued: QueuedPodInfo, refusal: Status) -> None:
        """Return a pod to the queue that was rejected after a node had been selected."""
        status, diagnosis = diagnose_on_node(refusal)
        self.handle_scheduling_failure(queued, status, diagnosis, "")

    def handle_scheduling_failure(
        self, queued: QueuedPodInfo, refusal: Status, diagnosis: Diagnosis | None, nominated: str | None
    ) -> None:
        """Return a pod to the queue and report the reason, unless it is deleted or assigned by now."""
        info = queued.info
        current = self._pods.get(info.key.namespace, info.key.name)
        if current is None or current.metadata.uid != info.uid or current.spec.node_name:
            self._queue.done(info.uid)
            return
        if current is not info.pod:
            info = self._signatures.pod_info(current)
            queued.update(info)
        if diagnosis is None:
            queued.set_rejectors((), ())
        else:
            queued.set_rejectors(diagnosis.unschedulable_plugins, diagnosis.pending_plugins)
        if nominated is not None:
            self._nominator.add_nominated_pod(info, nominated)
        self._queue.add_unschedulable_pod_if_not_present(queued, error=not refusal.is_rejected)
        reason = UNSCHEDULABLE if refusal.is_rejected else ERROR
        self._reporter.report_failure(current, reason, refusal.message, nominated)


def diagnose_on_node(refusal: Status) -> tuple[Status, Diagnosis | None]:
    """Return the status and the diagnosis of a pod that was rejected after a node had been selected."""
    if not refusal.is_rejected:
        return refusal, None
    diagnosis = Diagnosis(1, [(refusal, (0,))])
    diagnosis.add_plugin_status(refusal)
    return Status(refusal.code, (diagnosis.message,)), diagnosis
