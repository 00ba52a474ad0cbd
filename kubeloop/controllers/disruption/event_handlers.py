# SPDX-License-Identifier: Apache-2.0
"""Maps a pod event to the budgets that select the pod, and to the pod if its eviction is announced."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.api.meta.field_path import quote
from kubeloop.api.selectors import SelectorError, label_selector_as_selector
from kubeloop.controllers.disruption.stale_targets import is_target
from kubeloop.controllers.shared.pods.batch_period import batch_period
from kubeloop.runtime.causes.cause import Event, Origin
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.queue.workqueue import WorkQueue


class DisruptionKey(NamedTuple):
    """Queue key: a budget or a pod."""

    kind: Literal["budget", "pod"]
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def budget_key(budget: Any) -> tuple[DisruptionKey]:
    """Return the key of a budget."""
    return (DisruptionKey("budget", budget.metadata.namespace, budget.metadata.name),)


class BudgetPodHandler:
    """Pod event handler that enqueues budgets and announced evictions."""

    def __init__(self, queue: WorkQueue[DisruptionKey], budgets: Informer, recorder: EventRecorder) -> None:
        self._queue = queue
        self._budgets = budgets
        self._recorder = recorder

    def on_add(self, pod: Pod) -> None:
        """Enqueue the budgets of a new pod, and the pod if its eviction is announced."""
        self._wake_budgets(pod, "ADDED")
        self._wake_target(pod, "ADDED")

    def on_update(self, old: Pod, new: Pod) -> None:
        """Enqueue the budgets of a changed pod, by its old and new labels."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if old.metadata.labels != new.metadata.labels:
            self._wake_budgets(old, "MODIFIED")
        self._wake_budgets(new, "MODIFIED")
        self._wake_target(new, "MODIFIED")

    def on_delete(self, pod: Pod) -> None:
        """Enqueue the budgets of a deleted pod."""
        self._wake_budgets(pod, "DELETED")

    def _wake_budgets(self, pod: Pod, event: Event) -> None:
        found = [one for one in self._budgets.list(pod.metadata.namespace) if selects(one, pod)]
        if len(found) > 1:
            self._warn(pod, min(one.metadata.name for one in found))
        for budget in found:
            wait = batch_period(budget.status.expected_pods)
            self._queue.add_after(*budget_key(budget), wait, (_origin(pod, event),))

    def _warn(self, pod: Pod, chosen: str) -> None:
        who = f"Pod {quote(pod.metadata.namespace)}/{quote(pod.metadata.name)}"
        said = f"{who} matches multiple PodDisruptionBudgets.  Chose {quote(chosen)} arbitrarily."
        self._recorder.event(pod, "Warning", "MultiplePodDisruptionBudgets", said)

    def _wake_target(self, pod: Pod, event: Event) -> None:
        if is_target(pod):
            self._queue.add(DisruptionKey("pod", pod.metadata.namespace, pod.metadata.name), (_origin(pod, event),))


def selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return True if the budget selects the pod; an invalid selector selects none."""
    try:
        return label_selector_as_selector(budget.spec.selector).matches(pod.metadata.labels)
    except SelectorError:
        return False


def _origin(pod: Pod, event: Event) -> Origin:
    meta = pod.metadata
    return Origin("Pod", meta.namespace, meta.name, meta.resource_version, event)
