# SPDX-License-Identifier: Apache-2.0
"""Syncs one Service: compares its Endpoints object with the desired one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.core_v1 import Endpoints, Service
from kubeloop.api.generated.meta_v1 import ObjectMeta, Preconditions
from kubeloop.client import Client
from kubeloop.controllers.endpoints.subsets import Subsets, address_count, are_equal, subsets_of, truncate_endpoints
from kubeloop.controllers.shared.endpoints.pod_endpoints import has_cluster_ip, has_selected_endpoints
from kubeloop.controllers.shared.endpoints.selection import ServiceSelectorIndex
from kubeloop.controllers.shared.endpoints.sync_pacer import SyncPacer
from kubeloop.controllers.shared.endpoints.trigger_times import ANNOTATION, TriggerTimeTracker
from kubeloop.controllers.shared.ownership.namespaces import is_terminating
from kubeloop.runtime.consistency_store import ConsistencyStore
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate, map_patch
from kubeloop.runtime.queue.workqueue import WorkQueue

COMPONENT: Final = "endpoint-controller"
ORPHAN_CHECK: Final = ObjectKey("", "endpoints without a service")  # not a Service key: those have a namespace
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
HEADLESS: Final = "service.kubernetes.io/headless"
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"  # such endpoints are leader election locks without a Service


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """Reconciles Endpoints by the key of their Service."""

    client: Client
    services: Informer
    endpoints: Informer
    selection: ServiceSelectorIndex
    writer: PatchOrUpdate
    consistency: ConsistencyStore
    pacer: SyncPacer
    recorder: EventRecorder
    queue: WorkQueue[ObjectKey]
    _trigger_times: TriggerTimeTracker = field(default_factory=TriggerTimeTracker)

    async def reconcile(self, key: ObjectKey) -> None:
        """Sync the Endpoints of one Service; a special key checks all for a missing Service."""
        if key == ORPHAN_CHECK:
            self._check_leftover_endpoints()
            return
        await self.consistency.wait_ready(key)
        service: Service | None = self.services.get(*key)
        current: Endpoints | None = self.endpoints.get(*key)
        if service is None:
            await self._delete(key, current)
        elif has_selected_endpoints(service):
            await self._serve(key, service, current)

    def _check_leftover_endpoints(self) -> None:
        """Enqueue all endpoints once after the start, since a Service may have been deleted while none ran."""
        for one in self.endpoints.list():
            if LEADER not in one.metadata.annotations:
                self.queue.add(key_of(one))

    async def _delete(self, key: ObjectKey, current: Endpoints | None) -> None:
        # One that is not in the cache may have been created without a response.
        if current is not None or self._trigger_times.has_state(key):
            this_one = None if current is None else Preconditions(uid=current.metadata.uid)
            with suppress(NotFound):
                await self.client.delete(Endpoints, key.name, key.namespace, preconditions=this_one)
        self._trigger_times.forget(key)
        self.pacer.forget(key)

    async def _serve(self, key: ObjectKey, service: Service, current: Endpoints | None) -> None:
        pods = self.selection.pods_of(service)
        trigger_time = self._trigger_times.compute_trigger_time(key, service, pods)
        found = subsets_of(service, pods)
        wanted = desired_endpoints(service, found, current, trigger_time)
        if current is not None and is_current(current, wanted):
            return
        try:
            answer = await self._write(current, wanted)
        except Exception as error:
            if current is None and isinstance(error, ApiError) and is_terminating(error):
                return
            self._complain(wanted, error, created=current is None)
            raise
        self.consistency.wrote_at(key, "Endpoints", answer)
        self.pacer.record_write(key, address_count(wanted.subsets))

    async def _write(self, current: Endpoints | None, wanted: Endpoints) -> Any:
        if current is None:
            return await self.client.create(wanted)
        return await self.writer.patch_unchanged(self.endpoints.resource, current, endpoints_patch(current, wanted))

    def _complain(self, endpoints: Endpoints, error: Exception, created: bool) -> None:
        key = key_of(endpoints)
        if created:
            message = f"Failed to create endpoint for service {key}: {error}"
            self.recorder.event(endpoints, "Warning", "FailedToCreateEndpoint", message)
        else:
            message = f"Failed to update endpoint {key}: {error}"
            self.recorder.event(endpoints, "Warning", "FailedToUpdateEndpoint", message)


def desired_endpoints(service: Service, found: Subsets, current: Endpoints | None, trigger_time: str) -> Endpoints:
    """Build the desired object; annotations of others are kept."""
    kept = truncate_endpoints(found)
    meta = service.metadata if current is None else current.metadata
    annotations = {} if current is None else dict(current.metadata.annotations)
    _set(annotations, ANNOTATION, trigger_time)
    _set(annotations, OVER_CAPACITY, "" if kept is found else "truncated")
    return Endpoints(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid="" if current is None else meta.uid,
            resource_version="" if current is None else meta.resource_version,
            labels=labels_of(service),
            annotations=annotations,
        ),
        subsets=kept,
    )


def labels_of(service: Service) -> dict[str, str]:
    """Return the labels of the Endpoints object."""
    labels = dict(service.metadata.labels)
    if has_cluster_ip(service):
        labels.pop(HEADLESS, None)
    else:
        labels[HEADLESS] = ""
    labels[MANAGED_BY] = COMPONENT
    return labels


def is_current(current: Endpoints, wanted: Endpoints) -> bool:
    """Return True if there is nothing to write; the trigger time and the headless label don't count."""
    before, after = current.metadata, wanted.metadata
    return (
        are_equal(current.subsets, wanted.subsets)
        and _without(before.labels, HEADLESS) == _without(after.labels, HEADLESS)
        and before.annotations.get(OVER_CAPACITY) == after.annotations.get(OVER_CAPACITY)
    )


def endpoints_patch(current: Endpoints, wanted: Endpoints) -> dict[str, Any]:
    """Build the merge patch from the current to the desired object."""
    before, after = current.metadata, wanted.metadata
    metadata: dict[str, Any] = {}
    if before.labels != after.labels:
        metadata["labels"] = map_patch(before.labels, after.labels)
    if before.annotations != after.annotations:
        metadata["annotations"] = map_patch(before.annotations, after.annotations)
    patch: dict[str, Any] = {"metadata": metadata}
    if current.subsets != wanted.subsets:
        patch["subsets"] = codec.to_plain(wanted.subsets)
    return patch


def _set(annotations: dict[str, str], key: str, value: str) -> None:
    if value:
        annotations[key] = value
    else:
        annotations.pop(key, None)


def _without(labels: Mapping[str, str], key: str) -> dict[str, str]:
    return {one: value for one, value in labels.items() if one != key}
