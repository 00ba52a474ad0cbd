# SPDX-License-Identifier: Apache-2.0
"""DynamicResources: filters nodes that can provide devices for the pod's claims, and allocates them at binding.

Extended resources backed by a device class become one claim, created at binding, where the node itself does not
provide them. Devices with binding conditions are waited for.

Differs from upstream: no claim is created for extended resources that the node provides itself, even if the pod has
other claims; a pod that waits for devices reacts to claim events at once instead of polling every five seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.generated.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kubeloop.api.pods.placement import node_selector_matches
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import new_uid
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.objects.keys import key_of
from kubeloop.scheduler.cache.pod_info import PodInfo, PodSignature
from kubeloop.scheduler.config.plugin_args import seconds_of
from kubeloop.scheduler.dra.allocated import AllocatedDevices
from kubeloop.scheduler.dra.binding_conditions import DeviceBindingError, has_binding_conditions, is_binding_failed
from kubeloop.scheduler.dra.claim_attempt import ClaimAllocation, ClaimState, NodeAllocation, score_allocation
from kubeloop.scheduler.dra.claim_writes import ClaimWriter, is_reserved_for
from kubeloop.scheduler.dra.extended_resources import (
    ExtendedResourceCache,
    device_requests_of,
    extended_resource_claim_status,
    index_by_pod_uid,
    may_be_device_backed,
    new_extended_resource_claim,
)
from kubeloop.scheduler.dra.metrics import DeviceMetrics
from kubeloop.scheduler.dra.pod_claims import UnusableClaimError, pod_claims, validate_claim
from kubeloop.scheduler.dra.search import DeviceSearch, DeviceSearchInputs, DeviceSearchRound
from kubeloop.scheduler.dra.wait import DeviceBindingWaiter
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.plugin import (
    SKIP,
    ClusterEventWithHint,
    Plugin,
    PostFilterResult,
    Skip,
    error_status,
    unresolvable_status,
    unschedulable_status,
)
from kubeloop.scheduler.framework.status import SchedulingError, Status
from kubeloop.scheduler.queue.cluster_event import NODE, TARGET_POD, ActionType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kubeloop.scheduler.cache.cluster import ClusterState, Rows
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle
    from kubeloop.scheduler.dra.inventory import DeviceInventory
    from kubeloop.scheduler.framework.status import Diagnosis

_NOT_HERE, _NOT_ALL, _INVALID, _LEFT_OVER = 1, 2, 3, 4  # larger numbers are errors of the attempt
_FILTER_SECONDS = 10.0
_BINDING_SECONDS = 600.0
_BY_POD = "scheduler: pod with extended resources"


class DynamicResources(Plugin):
    """Allocates devices for claims."""

    name = "DynamicResources"
    is_node_local = False
    is_expensive = True
    filter_statuses = (
        unresolvable_status(name, "resourceclaim not available on the node"),
        unresolvable_status(name, "cannot allocate all claims"),
        unresolvable_status(name, "invalid resource pools were encountered"),
        unresolvable_status(name, "cannot schedule extended resource claim"),
    )

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        seconds = seconds_of(args.get("filterTimeout"), _FILTER_SECONDS)
        self._search = DeviceSearch(handle.clock, seconds, handle.plugin_time_limit, self._class)
        self._binding_timeout_seconds = seconds_of(args.get("bindingTimeout"), _BINDING_SECONDS)
        self._claims = handle.watch_resource(resource_of_class(ResourceClaim))
        self._classes = handle.watch_resource(resource_of_class(DeviceClass))
        self._slices = handle.watch_resource(resource_of_class(ResourceSlice))
        self._rules = handle.watch_resource(resource_of_class(DeviceTaintRule), optional=True)
        self._writes = ClaimWriter(handle.client, handle.clock)
        self._instruments = DeviceMetrics(handle.registry)
        self._by_resource = ExtendedResourceCache.shared_by(handle)
        self._allocated_devices = self._shared_use(handle)
        self._waits = DeviceBindingWaiter(self._claims, handle.clock, self._binding_timeout_seconds)
        self._inventory: DeviceInventory | None = None
        for one in (self._slices, self._rules):
            one.add_handler(_on_any(self._forget_inventory))
        self._last: tuple[str, ClaimState] | None = None  # with the pod's uid

    def _shared_use(self, handle: Handle) -> AllocatedDevices:
        """Return the record of allocated devices shared by the plugins of all profiles."""
        found: AllocatedDevices | None = handle.shared.get(AllocatedDevices)
        if found is None:
            found = handle.shared[AllocatedDevices] = AllocatedDevices()
            self._claims.add_indexer(_BY_POD, index_by_pod_uid)
            self._claims.add_handler(found)
        return found

    def _forget_inventory(self) -> None:
        self._inventory = None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events of nodes, claims, classes, slices and taint rules that may help."""
        every = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
        return (
            ClusterEventWithHint(NODE, ActionType.ADD | ActionType.NODE_LABEL | ActionType.NODE_ALLOCATABLE),
            ClusterEventWithHint(self._claims.resource.group_resource, every, self._is_schedulable_after_claim_change),
            ClusterEventWithHint(
                TARGET_POD, ActionType.POD_GENERATED_RESOURCE_CLAIM, self._is_schedulable_after_target_pod_update
            ),
            ClusterEventWithHint(self._classes.resource.group_resource, ActionType.ADD | ActionType.UPDATE),
            ClusterEventWithHint(self._slices.resource.group_resource, ActionType.ADD | ActionType.UPDATE),
            ClusterEventWithHint(self._rules.resource.group_resource, ActionType.UPDATE | ActionType.DELETE),
        )

    def _is_schedulable_after_claim_change(self, pod: PodInfo, old: Any, new: Any) -> bool:
        """Return True if the event concerns the pod's claims or released devices."""
        if new is None:
            return old.status.allocation is not None or pod.uid in index_by_pod_uid(old)
        try:
            claims = pod_claims(pod.pod, self._claims.get)
        except UnusableClaimError:
            return False
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return True
        is_mine = any(one.metadata.uid == new.metadata.uid for one in claims)
        return is_mine and (old is None or old.status != new.status)

    def _is_schedulable_after_target_pod_update(self, _: PodInfo, __: Any, new: Pod) -> bool:
        try:
            pod_claims(new, self._claims.get)
        except UnusableClaimError:
            return False
        return True

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gate a pod until all its claims exist."""
        if not pod.pod.spec.resource_claims:
            return None
        try:
            pod_claims(pod.pod, self._claims.get)
        except UnusableClaimError as error:
            return unresolvable_status(self.name, str(error))
        return None

    # Filtering.

    def applies_to(self, template: PodSignature) -> bool:
        """Return True for pods with claims, or extended resources that may be backed by a device class."""
        return bool(template.pod.spec.resource_claims) or may_be_device_backed(template.requests)

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> ClaimState | Skip | Status:
        """Return the claims of the pod; a rejection if one of them is unusable."""
        extended = self._by_resource.filter_backed(pod.requests)
        if not pod.pod.spec.resource_claims and not extended:
            return SKIP
        try:
            claims = pod_claims(pod.pod, self._claims.get)
            for one in claims:
                self._check(one, pod.pod)
        except UnusableClaimError as error:
            return unresolvable_status(self.name, str(error))
        if not claims and not extended:
            return SKIP
        leftover = next(iter(self._claims.by_index(_BY_POD, pod.uid)), None) if extended else None
        attempt = ClaimState(pod.pod, claims, tuple(extended), leftover)
        self._last = pod.uid, attempt
        return attempt

    def _check(self, claim: ResourceClaim, pod: Pod) -> None:
        if claim.status.allocation is None and self._allocated_devices.is_pending(claim.metadata.uid):
            raise UnusableClaimError(f"resource claim {key_of(claim)} is in the process of being allocated")
        validate_claim(claim, pod, self._class)

    def _class(self, name: str) -> DeviceClass | None:
        found: DeviceClass | None = self._classes.get("", name)
        return found

    def filter(self, state: ClaimState, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Search devices on each node."""
        import numpy as np

        numbers = np.arange(cluster.size)[rows]
        answers = np.zeros(len(numbers), np.int16)
        nodes = [cluster.nodes.get(int(row)) for row in numbers]
        search = self._search.start_round(self._search_inputs(state))
        for position, node in enumerate(nodes):
            if node is None:
                continue
            answers[position] = self._filter_node(state, node, search, nodes[position + 1 :])
            if answers[position] > _LEFT_OVER:  # the error applies to all nodes
                answers[:] = answers[position]
                break
        return answers

    def filter_status(self, state: ClaimState, number: int) -> Status:
        """Return the status for a number of `filter`."""
        return state.statuses[number - _LEFT_OVER - 1] if number > _LEFT_OVER else self.filter_statuses[number - 1]

    def _filter_node(
        self, state: ClaimState, node: Node, search: DeviceSearchRound, others: Sequence[Node | None]
    ) -> int:
        if state.leftover_claim is not None:
            return _LEFT_OVER
        found = self._claims_to_allocate(state, node)
        if found.claims:
            outcome = search.search_node(node, found, lambda: self._claims_to_allocate_on_nodes(state, others))
            if outcome.error:
                return _LEFT_OVER + state.number_status(error_status(self.name, outcome.error))
            if outcome.device_allocations is None:
                return _INVALID if outcome.is_invalid else _NOT_ALL
            state.node_allocations[node.metadata.name] = found._replace(device_allocations=outcome.device_allocations)
        unavailable = [one for one in state.allocated_claims if not self._is_available(one, node)]
        state.unavailable_claims.update((one.metadata.uid, one) for one in unavailable)
        return _NOT_HERE if unavailable else 0

    def _claims_to_allocate(self, state: ClaimState, node: Node) -> NodeAllocation:
        """Return the claims to be allocated on a node; extended resources that it provides need none."""
        room = node.status.allocatable
        lacking = tuple(one for one in state.extended_resources if one not in room or not parse_quantity(room[one]))
        if not lacking:
            return NodeAllocation(state.unallocated_claims, ())
        if lacking not in state.extended_claims:
            needs = device_requests_of(state.pod, {one: self._by_resource[one] or "" for one in lacking})
            claim = new_extended_resource_claim(state.pod, new_uid(self.handle.clock), needs.requests)
            state.extended_claims[lacking] = NodeAllocation((*state.unallocated_claims, claim), needs.mappings)
        return state.extended_claims[lacking]

    def _claims_to_allocate_on_nodes(
        self, state: ClaimState, nodes: Sequence[Node | None]
    ) -> list[tuple[Node, NodeAllocation]]:
        found = [(one, self._claims_to_allocate(state, one)) for one in nodes if one is not None]
        return [(node, needed) for node, needed in found if needed.claims]

    def _is_available(self, claim: ResourceClaim, node: Node) -> bool:
        """Return True if the node can reach the claim's devices and binding has not failed."""
        allocation = claim.status.allocation
        selector = allocation.node_selector if allocation is not None else None
        if selector is not None and not node_selector_matches(selector, node):
            return False
        return not is_binding_failed(claim, self.handle.clock.now(), self._binding_timeout_seconds)

    def _search_inputs(self, state: ClaimState) -> DeviceSearchInputs:
        from kubeloop.scheduler.dra.inventory import DeviceInventory, apply_taint_rules

        if self._inventory is None:
            slices = apply_taint_rules(self._slices.list(), self._rules.list())
            self._inventory = DeviceInventory(slices, self.handle.features)
        return DeviceSearchInputs(
            state.pod.metadata.uid,
            state.claims,
            state.extended_resources,
            self._inventory,
            self._allocated_devices.state,
        )

    # PostFilter.

    def post_filter(self, cycle: SchedulingCycle, diagnosis: Diagnosis) -> PostFilterResult | Status | None:
        """Deallocate a claim of the pod that prevents scheduling, if no other pod uses it."""
        state = cycle.states.get(self.name)
        if not isinstance(state, ClaimState):
            return None
        for claim in state.unavailable_claims.values():
            if all(one.uid == cycle.pod.uid for one in claim.status.reserved_for):
                self.handle.spawn(self._writes.deallocate_claim(claim))
                return unschedulable_status(self.name, "deallocation of ResourceClaim completed")
        if state.leftover_claim is not None:
            self.handle.spawn(self._writes.delete_claim(state.leftover_claim))
            return unschedulable_status(self.name, "deletion of ResourceClaim completed")
        return None

    # Scoring.

    def pre_score(self, pod: PodInfo, cluster: ClusterState) -> ClaimState | Skip:
        """Return the claims if a request has subrequests, of which earlier ones are preferred; else SKIP."""
        if self._last is None or self._last[0] != pod.uid:
            return SKIP
        state = self._last[1]
        chosen = any(request.first_available for one in state.claims for request in one.spec.devices.requests or ())
        return state if chosen else SKIP

    def score(self, state: ClaimState, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Return the score of the selected subrequests by node."""
        import numpy as np

        nodes = [cluster.nodes[int(row)] for row in np.arange(cluster.size)[rows]]
        search = self._search.start_round(self._search_inputs(state))
        for node in nodes:
            if node.metadata.name not in state.node_allocations:  # not filtered in this attempt
                self._filter_node(state, node, search, ())
        nothing = NodeAllocation((), ())
        return np.array(
            [score_allocation(state, state.node_allocations.get(one.metadata.name, nothing)) for one in nodes], np.int64
        )

    def normalize_score(
        self, state: Any, scores: NDArray[np.int64], cluster: ClusterState, rows: Rows
    ) -> NDArray[np.int64]:
        """Scale the scores to 0…100."""
        from kubeloop.scheduler.framework.normalize import default_normalize_score

        return default_normalize_score(scores)

    # Binding.

    def reserve(self, cycle: SchedulingCycle, node: str) -> Status | None:
        """Record the allocations as pending."""
        state = cycle.states.get(self.name)
        if not isinstance(state, ClaimState):
            return None
        from kubeloop.scheduler.dra.allocation_result import build_allocation_result

        found = state.node_allocations.get(node, NodeAllocation((), ()))
        choice = cycle.states[ClaimAllocation] = ClaimAllocation(list(state.claims), found.mappings)
        new_id = partial(new_uid, self.handle.clock)
        for claim, given in zip(found.claims, found.device_allocations, strict=True):
            uid = claim.metadata.uid
            self._allocated_devices.add_pending(uid, [one.allocated_device for one in given if not one.is_admin])
            choice.allocations[uid] = build_allocation_result(claim, given, node, self._class, new_id)
            if claim not in state.claims:
                choice.set_claim_to_create(claim)
        return None

    def unreserve(self, cycle: SchedulingCycle, node: str) -> None:
        """Drop pending allocations; unreserve or delete the claims that were written."""
        state = cycle.states.get(self.name)
        choice: ClaimAllocation | None = cycle.states.pop(ClaimAllocation, None)
        if not isinstance(state, ClaimState):
            return
        for uid in choice.allocations.keys() - choice.written_uids if choice is not None else ():
            self._allocated_devices.remove_pending(uid)
        if cycle.is_interrupted or cycle.is_tentative:  # the pod may have been bound and use the devices; or will be
            return
        pod, made = cycle.pod.pod, None if choice is None else choice.created_claim
        for claim in state.claims if choice is None else choice.claims:
            is_made = made is not None and claim.metadata.uid == made.metadata.uid
            if claim.status.allocation is not None and is_reserved_for(claim, pod) and not is_made:
                self.handle.spawn(self._writes.unreserve_claim(claim, pod))
        if made is not None:
            self.handle.spawn(self._writes.delete_claim(made))

    def pre_bind_pre_flight(self, cycle: SchedulingCycle, node: str) -> bool:
        """Return True if claims must be written."""
        return ClaimAllocation in cycle.states

    async def pre_bind(self, cycle: SchedulingCycle, node: str) -> Status | None:
        """Write the claims and wait for binding conditions."""
        choice: ClaimAllocation | None = cycle.states.get(ClaimAllocation)
        if choice is None:
            return None
        pod = cycle.pod.pod
        try:
            for index, claim in enumerate(choice.claims):
                if not is_reserved_for(claim, pod):
                    choice.claims[index] = await self._bind(choice, claim, pod)
            if choice.claim_to_create is not None:
                await self._create_extended_resource_claim(choice, choice.claim_to_create, pod)
            if has_binding_conditions(choice.claims):
                note = f"waiting for binding conditions for device on node {node}"
                self.handle.reporter.record_event(pod, "Normal", "BindingConditionsPending", note, action="Scheduling")
                await self._wait(choice, cycle.profile.name)
        except (SchedulingError, DeviceBindingError) as error:
            return error_status(self.name, error)
        return None

    async def _wait(self, choice: ClaimAllocation, profile: str) -> None:
        clock, status = self.handle.clock, "error"
        began = clock.monotonic()
        try:
            await self._waits.wait_until_ready(choice)
            status = "success"
        except DeviceBindingError as error:
            status = error.status
            raise
        finally:
            self._instruments.observe_wait(profile, choice.claims, status, clock.monotonic() - began)

    async def _bind(self, choice: ClaimAllocation, claim: ResourceClaim, pod: Pod) -> ResourceClaim:
        uid = claim.metadata.uid
        written = await self._writes.bind_claim(claim, choice.allocations.get(uid), pod)
        choice.written_uids.add(uid)
        return written

    async def _create_extended_resource_claim(self, choice: ClaimAllocation, claim: ResourceClaim, pod: Pod) -> None:
        """Create the extended resource claim and write the pod's status that refers to it."""
        old = claim.metadata.uid
        try:
            made = await self._writes.create_claim(claim)
            choice.set_created_claim(made)
        except SchedulingError:
            self._instruments.count_claim_creation("failure")
            raise
        self._instruments.count_claim_creation("success")
        uid = made.metadata.uid
        choice.allocations[uid] = choice.allocations.pop(old)
        self._allocated_devices.move_pending(old, uid)
        bound = await self._bind(choice, made, pod)
        choice.set_created_claim(bound)
        choice.claims.append(bound)
        await self._writes.patch_pod_status(pod, extended_resource_claim_status(made, choice.mappings))


def _on_any(call: Callable[[], None]) -> ResourceEventHandlerFuncs:
    return ResourceEventHandlerFuncs(lambda _: call(), lambda _, __: call(), lambda _: call())
