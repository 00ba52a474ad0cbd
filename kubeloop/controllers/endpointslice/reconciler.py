# SPDX-License-Identifier: Apache-2.0
"""Syncs one Service: computes its endpoints, compares its slices, and writes the changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubeloop.api.errors import AlreadyExists, Conflict, NotFound
from kubeloop.api.generated.core_v1 import Node, Pod, Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.controllers.endpointslice.desired_slices import address_types_of, desired_endpoints_of
from kubeloop.controllers.endpointslice.metrics import EndpointSliceMetrics
from kubeloop.controllers.endpointslice.node_handler import TOPOLOGY_CHECK, NodeEventHandler
from kubeloop.controllers.endpointslice.slice_labels import labels_of
from kubeloop.controllers.endpointslice.slice_plan import SlicePlan, SliceTemplate, plan_slices
from kubeloop.controllers.endpointslice.slice_writer import SliceWriteError, SliceWriter
from kubeloop.controllers.endpointslice.topology_cache import TopologyCache
from kubeloop.controllers.endpointslice.traffic import (
    distribution_of,
    hint_by_distribution,
    remove_hints,
    wants_topology,
)
from kubeloop.controllers.shared.endpoints.pod_endpoints import has_selected_endpoints
from kubeloop.controllers.shared.endpoints.selection import ServiceSelectorIndex
from kubeloop.controllers.shared.endpoints.slice_tracker import EndpointSliceTracker
from kubeloop.controllers.shared.endpoints.sync_pacer import SyncPacer
from kubeloop.controllers.shared.endpoints.trigger_times import TriggerTimeTracker
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of


class MissingNodeError(Exception):
    """Raised if a pod was skipped because its node is unknown."""


class SliceSyncError(Exception):
    """Raised if some of a Service's slices could not be synced."""


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """Reconciles EndpointSlices by the key of their Service."""

    services: Informer
    nodes: Informer
    selection: ServiceSelectorIndex
    slice_tracker: EndpointSliceTracker
    writer: SliceWriter
    topology_cache: TopologyCache
    node_handler: NodeEventHandler
    pacer: SyncPacer
    recorder: EventRecorder
    metrics: EndpointSliceMetrics
    capacity: int
    _trigger_times: TriggerTimeTracker = field(default_factory=TriggerTimeTracker)

    async def reconcile(self, key: ObjectKey) -> None:
        """Sync the slices of one Service; a special key rebalances zones."""
        if key == TOPOLOGY_CHECK:
            self.node_handler.rebalance()
            return
        try:
            await self.slice_tracker.wait_ready(key)
        except TimeoutError:
            self.metrics.record_sync("stale")
            raise
        service: Service | None = self.services.get(*key)
        if service is None:
            self._forget(key)
            return
        if has_selected_endpoints(service):
            await self._serve(key, service)
        self.metrics.record_sync("success")

    async def _serve(self, key: ObjectKey, service: Service) -> None:
        pods, slices = self.selection.pods_of(service), self.slice_tracker.slices_of(key)
        trigger_time = self._trigger_times.compute_trigger_time(key, service, pods)
        address_types = address_types_of(service)
        problems: list[Exception] = []
        written = 0
        for address_type in address_types:
            existing = [one for one in slices if one.address_type == address_type]
            plan = self._plan(service, pods, existing, address_type, problems)
            try:
                written += await self.writer.execute(service, plan, trigger_time)
            except SliceWriteError as error:
                problems.append(error)
        unwanted = [one for one in slices if one.address_type not in address_types]
        written += await self._delete(key, unwanted, problems)
        self.metrics.record_writes(
            wants_topology(service.metadata.annotations), distribution_of(service), written
        )  # fmt: skip
        if written:
            self.pacer.record_write(key, len(pods))
        if problems:
            self._complain(service, problems)

    def _plan(
        self,
        service: Service,
        pods: Sequence[Pod],
        existing: Sequence[EndpointSlice],
        address_type: str,
        problems: list[Exception],
    ) -> SlicePlan:
        desired = desired_endpoints_of(service, pods, address_type, self._node)
        key = key_of(service)
        self.node_handler.record_missing_nodes(key, desired.skipped)
        for pod in desired.skipped:
            said = f"skipping Pod {pod.metadata.name} for Service {key}: Node {pod.spec.node_name} Not Found"
            problems.append(MissingNodeError(said))
        plan = plan_slices(service, existing, desired, SliceTemplate(address_type, labels_of(service), self.capacity))
        self._hint(service, address_type, plan)
        self.metrics.record_plan(key, address_type, plan)
        return plan

    def _node(self, name: str) -> Node | None:
        return self.nodes.get("", name)

    def _hint(self, service: Service, address_type: str, plan: SlicePlan) -> None:
        key, distribution = key_of(service), distribution_of(service)
        self.metrics.set_distribution(key, distribution)
        if wants_topology(service.metadata.annotations):
            telling = self.topology_cache.add_hints(key, address_type, plan)
        else:
            telling = self.topology_cache.remove_service_hints(key, address_type)
            if distribution:
                hint_by_distribution(plan, distribution)
            else:
                remove_hints(plan)
        if telling is not None:
            self.recorder.event(service, telling.type, telling.reason, telling.message)

    async def _delete(self, key: ObjectKey, slices: Sequence[EndpointSlice], problems: list[Exception]) -> int:
        """Delete the slices of address types that the Service no longer has."""
        deleted = 0
        for one in slices:
            self.topology_cache.forget(key, one.address_type)
            try:
                await self.writer.delete(key, one)
                deleted += 1
            except SliceWriteError as error:
                problems.append(error)
        return deleted

    def _complain(self, service: Service, problems: Sequence[Exception]) -> None:
        self.metrics.record_sync("error")
        said = join_errors(problems)
        message = f"Error updating Endpoint Slices for Service {key_of(service)}: {said}"
        self.recorder.event(service, "Warning", "FailedToUpdateEndpointSlices", message)
        causes = [one.__cause__ for one in problems]
        if all(isinstance(one, Conflict | NotFound | AlreadyExists) for one in causes) and causes[0] is not None:
            raise causes[0]  # the cache was outdated: nothing is wrong
        raise SliceSyncError(said) from problems[0]

    def _forget(self, key: ObjectKey) -> None:
        for one in (self._trigger_times, self.slice_tracker, self.topology_cache, self.pacer, self.metrics):
            one.forget(key)


def join_errors(problems: Sequence[Exception]) -> str:
    """Join several problems into one message as upstream does, each once."""
    texts = list(dict.fromkeys(str(one) for one in problems))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
