# SPDX-License-Identifier: Apache-2.0
"""Finds the pods of a Service and the Services of a pod through label indexes, without full scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubeloop.api.generated.core_v1 import Pod, Service
from kubeloop.controllers.shared.endpoints.pod_endpoints import endpoint_state
from kubeloop.controllers.shared.endpoints.sync_pacer import SyncPacer
from kubeloop.runtime.causes.cause import Event, Origin
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import depends_on
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.workqueue import WorkQueue

LABELS: Final = "labels"
SELECTOR: Final = "selector"


@depends_on(lambda pod: pod.metadata.labels)
def label_values_of(pod: Pod) -> list[str]:
    """Index a pod by each of its labels within the namespace."""
    return [_value(pod.metadata.namespace, *one) for one in pod.metadata.labels.items()]


def selector_value_of(service: Service) -> tuple[str, ...]:
    """Index a Service by one label that its selector requires."""
    selector = service.spec.selector
    return (_value(service.metadata.namespace, *min(selector.items())),) if selector else ()


def _value(namespace: str, key: str, value: str) -> str:
    return f"{namespace}/{key}={value}"


class ServiceSelectorIndex:
    """Maps Services to pods and pods to Services."""

    def __init__(self, services: Informer, pods: Informer) -> None:
        services.add_indexer(SELECTOR, selector_value_of)
        pods.add_indexer(LABELS, label_values_of)
        self._services = services
        self._pods = pods

    def pods_of(self, service: Service) -> list[Pod]:
        """Return the pods that a Service with a selector selects."""
        selector, namespace = service.spec.selector, service.metadata.namespace
        buckets = [self._pods.by_index(LABELS, _value(namespace, *one)) for one in selector.items()]
        fewest: Sequence[Pod] = min(buckets, key=len)
        if len(selector) == 1:
            return list(fewest)
        return [one for one in fewest if selects(selector, one.metadata.labels)]

    def services_of(self, namespace: str, labels: Mapping[str, str]) -> set[ObjectKey]:
        """Return the keys of the Services that select pods with these labels."""
        found: set[ObjectKey] = set()
        for one in labels.items():
            for service in self._services.by_index(SELECTOR, _value(namespace, *one)):
                if selects(service.spec.selector, labels):
                    found.add(key_of(service))
        return found


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return True if the selector matches the labels."""
    return selector.items() <= labels.items()


class ServicePodHandler:
    """Pod event handler that enqueues the Services whose endpoints the change affects."""

    def __init__(self, queue: WorkQueue[ObjectKey], selection: ServiceSelectorIndex, pace: SyncPacer) -> None:
        self._queue = queue
        self._selection = selection
        self._pace = pace

    def on_add(self, pod: Pod) -> None:
        """Enqueue the Services of a pod that can be an endpoint."""
        if endpoint_state(pod) is not None:
            self._wake(self._services_of(pod), pod, "ADDED")

    def on_update(self, old: Pod, new: Pod) -> None:
        """Enqueue the Services whose endpoints change; with changed labels also those that the pod leaves or joins."""
        before, after = endpoint_state(old), endpoint_state(new)
        if before is None and after is None:
            return
        if old.metadata.labels == new.metadata.labels:
            if before != after:
                self._wake(self._services_of(new), new, "MODIFIED")
            return
        left, joined = self._services_of(old), self._services_of(new)
        self._wake(left ^ joined if before == after else left | joined, new, "MODIFIED")

    def on_delete(self, pod: Pod) -> None:
        # The last known state may be stale: the pod may have ended unseen while Services still list it.
        """Enqueue the Services of a deleted pod."""
        self._wake(self._services_of(pod), pod, "DELETED")

    def _services_of(self, pod: Pod) -> set[ObjectKey]:
        return self._selection.services_of(pod.metadata.namespace, pod.metadata.labels)

    def _wake(self, keys: set[ObjectKey], pod: Pod, event: Event) -> None:
        if not keys:
            return
        meta = pod.metadata
        origins = (Origin("Pod", meta.namespace, meta.name, meta.resource_version, event),)
        for key in sorted(keys):
            self._queue.add_after(key, self._pace.delay(key), origins)
