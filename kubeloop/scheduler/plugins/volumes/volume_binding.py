# SPDX-License-Identifier: Apache-2.0
"""VolumeBinding: filters nodes from which the pod's volumes are reachable, and binds delayed claims with the pod.

Contract with provisioners: the scheduler writes the selected node to the claim's annotation
`volume.kubernetes.io/selected-node`, they provision the volume, and the pod is bound when its claims are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Node, PersistentVolumeClaim
from kubeloop.api.generated.storage_v1 import CSINode
from kubeloop.api.pods.volumes import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    claim_uses,
    class_of_claim,
    is_claim_for_pod,
)
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.metrics import MetricFamily, MetricRegistry, MetricValue
from kubeloop.runtime.objects.keys import key_of
from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo, PodSignature
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.plugin import (
    SKIP,
    ClusterEventWithHint,
    Plugin,
    Skip,
    error_status,
    unresolvable_status,
)
from kubeloop.scheduler.framework.status import Code, SchedulingError, Status
from kubeloop.scheduler.queue.cluster_event import NODE, ActionType
from kubeloop.scheduler.volumes.binder import is_claim_bound, is_volume_reachable
from kubeloop.scheduler.volumes.chooser import (
    NO_SPACE,
    NO_VOLUME,
    PodVolumes,
    VolumeBinder,
    parse_shape,
    score_volumes,
)
from kubeloop.scheduler.volumes.hints import (
    is_schedulable_after_csi_driver_change,
    is_schedulable_after_csi_node_change,
    is_schedulable_after_csi_storage_capacity_change,
    is_schedulable_after_storage_class_change,
)

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle

_UNREACHABLE, _GONE = 1, 8
_REASONS = {
    _UNREACHABLE: "node(s) didn't match PersistentVolume's node affinity",
    NO_VOLUME: "node(s) didn't find available persistent volumes to bind",
    NO_SPACE: "node(s) did not have enough free storage",
    _GONE: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
_WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


def register_volume_metrics(registry: MetricRegistry) -> MetricFamily[MetricValue]:
    """Register the metrics of volume binding; returns the failures by operation (assume, bind).

    Upstream registers requests of its binder's cache as well, and never counts one.
    """
    registry.counter("scheduler_volume_binder_cache_requests_total", "operation")
    return registry.counter("scheduler_volume_scheduling_stage_error_total", "operation")


class _PodVolumeClaims(NamedTuple):
    """Claims of a pod: bound ones, and delayed ones that wait for the pod."""

    bound_claims: Sequence[PersistentVolumeClaim]
    unbound_claims_delay_binding: Sequence[PersistentVolumeClaim]


class VolumeBinding(Plugin):
    """Finds volumes for claims, or provisioners that can create them."""

    name = "VolumeBinding"
    is_node_local = False

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._bind_timeout_seconds = float(args.get("bindTimeoutSeconds") or 600)
        self._claims = handle.watch_resource(resource_of_class(PersistentVolumeClaim))
        self._chooser = VolumeBinder(handle)
        self._volumes, self._classes = self._chooser.volumes, self._chooser.classes
        self._shape = parse_shape(args)
        self._stage_errors = register_volume_metrics(handle.registry)
        handle.watch_resource(resource_of_class(CSINode))
        self._changed = asyncio.Event()
        for informer in (self._claims, self._volumes):
            informer.add_handler(_Waker(self._changed))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events of storage objects and nodes that may help."""
        both = ActionType.ADD | ActionType.UPDATE
        return (
            ClusterEventWithHint(
                self._classes.resource.group_resource, both, is_schedulable_after_storage_class_change
            ),
            ClusterEventWithHint(self._claims.resource.group_resource, both, _is_schedulable_after_pvc_change),
            ClusterEventWithHint(self._volumes.resource.group_resource, both),
            ClusterEventWithHint(NODE, ActionType.ADD | ActionType.NODE_LABEL),
            ClusterEventWithHint(resource_of_class(CSINode).group_resource, both, is_schedulable_after_csi_node_change),
            ClusterEventWithHint(
                self._chooser.drivers.resource.group_resource, ActionType.UPDATE, is_schedulable_after_csi_driver_change
            ),
            ClusterEventWithHint(
                self._chooser.capacities.resource.group_resource, both, is_schedulable_after_csi_storage_capacity_change
            ),
        )

    # Filtering.

    def applies_to(self, template: PodSignature) -> bool:
        """Return True for pods with claims."""
        return any(claim_uses(template.pod))

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> _PodVolumeClaims | Skip | Status:
        """Return the claims of the pod; a rejection if one is unusable; SKIP without any."""
        uses = tuple(claim_uses(pod.pod))
        if not uses:
            return SKIP
        bound, waiting = [], []
        immediate = False
        for use in uses:
            claim = self._claims.get(pod.key.namespace, use.name)
            why_not = _unusable_reason(claim, use.name, use.volume.ephemeral is not None, pod)
            if why_not or claim is None:
                return unresolvable_status(self.name, why_not)
            if is_claim_bound(claim):
                bound.append(claim)
            elif self._is_delayed(claim) and not claim.spec.volume_name:
                waiting.append(claim)
            else:
                immediate = True
        if immediate:
            return unresolvable_status(self.name, "pod has unbound immediate PersistentVolumeClaims")
        return _PodVolumeClaims(bound, waiting)

    def filter(self, state: _PodVolumeClaims, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return the reason bits of each node."""
        numbers = np.arange(cluster.size)[rows]
        answers = np.zeros(len(numbers), np.int16)
        for position, row in enumerate(numbers):
            node = cluster.nodes.get(int(row))
            if node is not None:
                answers[position] = self._bound_answer(state.bound_claims, node) | self._waiting_answer(
                    state.unbound_claims_delay_binding, node
                )
        return answers

    def filter_status(self, state: Any, number: int) -> Status:
        """Return the status for reason bits."""
        return Status(
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            tuple(told for bit, told in _REASONS.items() if number & bit),
            self.name,
        )

    def _bound_answer(self, claims: Sequence[PersistentVolumeClaim], node: Node) -> int:
        for claim in claims:
            volume = self._volumes.get("", claim.spec.volume_name)
            if volume is None:
                return _GONE
            if not is_volume_reachable(volume, node):
                return _UNREACHABLE
        return 0

    def _waiting_answer(self, claims: Sequence[PersistentVolumeClaim], node: Node) -> int:
        choice = self._chooser.find_pod_volumes(claims, node) if claims else 0
        return choice if isinstance(choice, int) else 0

    def _is_delayed(self, claim: PersistentVolumeClaim) -> bool:
        found = self._classes.get("", class_of_claim(claim)) if class_of_claim(claim) else None
        return found is not None and found.volume_binding_mode == _WAIT_FOR_FIRST_CONSUMER

    # Scoring.

    def pre_score(self, pod: PodInfo, cluster: ClusterState) -> Sequence[PersistentVolumeClaim] | Skip:
        """Return the delayed claims; SKIP without any, as volumes of bound claims leave no choice."""
        claims = [self._claims.get(pod.key.namespace, use.name) for use in claim_uses(pod.pod)]
        waiting = [one for one in claims if one is not None and not is_claim_bound(one) and self._is_delayed(one)]
        return waiting or SKIP

    def score(self, state: Sequence[PersistentVolumeClaim], cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Return the score of each node by storage utilization."""
        choices = (
            self._chooser.find_pod_volumes(state, cluster.nodes[int(row)]) for row in np.arange(cluster.size)[rows]
        )
        return np.array([0 if isinstance(one, int) else score_volumes(one, self._shape) for one in choices], np.int64)

    # Binding.

    def reserve(self, cycle: SchedulingCycle, node: str) -> Status | None:
        """Assume the volumes for the delayed claims."""
        claims = cycle.states.get(self.name)
        row = cycle.cluster.row_of(node)
        if not isinstance(claims, _PodVolumeClaims) or not claims.unbound_claims_delay_binding or row is None:
            return None
        choice = self._chooser.find_pod_volumes(claims.unbound_claims_delay_binding, cycle.cluster.nodes[row])
        if isinstance(choice, int):
            self._stage_errors.with_labels("assume").increment()
            return self.filter_status(None, choice)
        self._chooser.assume_pod_volumes(choice, node)
        cycle.states[PodVolumes] = choice
        return None

    def unreserve(self, cycle: SchedulingCycle, node: str) -> None:
        """Revert the assumed volumes."""
        choice = cycle.states.pop(PodVolumes, None)
        if choice is not None:
            self._chooser.revert_assumed_pod_volumes(choice)

    def pre_bind_pre_flight(self, cycle: SchedulingCycle, node: str) -> bool:
        """Return True if volumes must be bound."""
        return PodVolumes in cycle.states

    async def pre_bind(self, cycle: SchedulingCycle, node: str) -> Status | None:
        """Write the bindings and wait until all claims are bound."""
        choice: PodVolumes | None = cycle.states.get(PodVolumes)
        if choice is None:
            return None
        status: Status | None = None
        is_bound = False
        try:
            async with asyncio.timeout(self._bind_timeout_seconds):
                await self._write(choice, node)
                while not self._is_done(choice, node, cycle.pod):
                    self._changed.clear()
                    await self._changed.wait()
            is_bound = True
        except TimeoutError:
            status = error_status(self.name, "binding volumes: context deadline exceeded")
        except SchedulingError as error:
            status = error_status(self.name, f"binding volumes: {error}")
        finally:
            if not is_bound:
                self._stage_errors.with_labels("bind").increment()
        return status

    def post_bind(self, cycle: SchedulingCycle, node: str) -> None:
        """Drop the assumed volumes, which are written by now."""
        self.unreserve(cycle, node)

    async def _write(self, choice: PodVolumes, node: str) -> None:
        client = self.handle.client
        for volume, claim in choice.bindings:
            meta, old = claim.metadata, volume.metadata
            reference = {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace, "name": meta.name,
                "uid": meta.uid, "resourceVersion": meta.resource_version,
            }  # fmt: skip
            change: dict[str, Any] = {"resourceVersion": old.resource_version}
            if volume.spec.claim_ref is None:
                change["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
            await client.patch("persistentvolumes", old.name, {"metadata": change, "spec": {"claimRef": reference}})
        for one in choice.provisions:
            meta = one.claim.metadata
            if meta.annotations.get(SELECTED_NODE) == node:
                continue
            change = {"resourceVersion": meta.resource_version, "annotations": {SELECTED_NODE: node}}
            await client.patch("persistentvolumeclaims", meta.name, {"metadata": change}, meta.namespace)

    def _is_done(self, choice: PodVolumes, node: str, pod: PodInfo) -> bool:
        """Return True if all claims are bound. Raises `SchedulingError` if they will not be any more."""
        if self.handle.pods.get(*pod.key) is None:
            raise SchedulingError("pod does not exist any more")
        present = [(one, self._claims.get(*key_of(one))) for one in choice.claims]
        for old, claim in present:
            if claim is None:
                raise SchedulingError(f'persistentvolumeclaim "{old.metadata.name}" not found')
        for old, _ in choice.provisions:
            claim = self._claims.get(*key_of(old))
            said = claim.metadata.annotations.get(SELECTED_NODE) if claim is not None else None
            if said != node and claim is not None and claim.metadata.resource_version != old.metadata.resource_version:
                raise SchedulingError(f'provisioning failed for PVC "{old.metadata.name}"')
        return all(claim is not None and is_claim_bound(claim) for _, claim in present)


class _Waker:
    """Informer handler that sets an event on each change."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def on_add(self, _: Any) -> None:
        """Set the event."""
        self._event.set()

    def on_update(self, _: Any, __: Any) -> None:
        """Set the event."""
        self._event.set()

    def on_delete(self, _: Any) -> None:
        """Set the event."""
        self._event.set()


def _unusable_reason(claim: PersistentVolumeClaim | None, name: str, ephemeral: bool, pod: PodInfo) -> str:
    """Return the reason why a pod cannot use a claim; empty if it can."""
    if claim is None:
        wait = "waiting for ephemeral volume controller to create the "
        return f'{wait}persistentvolumeclaim "{name}"' if ephemeral else f'persistentvolumeclaim "{name}" not found'
    if claim.status.phase == "Lost":
        gone = claim.spec.volume_name
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and not is_claim_for_pod(claim, pod.pod):
        key, owner = key_of(claim), pod.key
        return f"PVC {key} was not created for pod {owner} (pod is not owner)"
    return ""


def _is_schedulable_after_pvc_change(pod: PodInfo, old: Any, new: Any) -> bool:
    meta = new.metadata
    return meta.namespace == pod.key.namespace and any(one.name == meta.name for one in claim_uses(pod.pod))
