"""DynamicResources: only nodes that can reach devices for the pod's claims; these are given to it as it is bound.

Differs from upstream: extended resources that a device class stands for are not turned into claims, devices that
several claims may share by capacity are given to one alone, and nobody waits for conditions of devices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kubeloop.api.codec import to_plain
from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.generated.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kubeloop.api.placement import node_selector_matches
from kubeloop.client.resolving import resource_of_class
from kubeloop.runtime.keys import ObjectKey, key_of
from kubeloop.scheduler.changes import NODE, TARGET_POD, Action
from kubeloop.scheduler.framework import SKIP, Interest, Nominated, Plugin, Skip, failed, unresolvable, unschedulable
from kubeloop.scheduler.handle import Handle
from kubeloop.scheduler.outcome import Refusal
from kubeloop.scheduler.pod_info import PodInfo, Template

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kubeloop.scheduler.cluster import ClusterState, Rows
    from kubeloop.scheduler.cycle import Cycle
    from kubeloop.scheduler.devices import DeviceId, Given
    from kubeloop.scheduler.outcome import Diagnosis

FINALIZER = "resource.kubernetes.io/delete-protection"
_NOT_HERE, _NOT_ALL = 1, 2
_RESERVED_AT_MOST = 256
_TRIES = 5
_MOST_CHOICES = 8  # alternatives that a request may have

log = logging.getLogger(__name__)


class _Claims(NamedTuple):
    """A pod's claims: those that have devices, and those that need some."""

    allocated: Sequence[ResourceClaim]
    needy: Sequence[ResourceClaim]


class _Choice(NamedTuple):
    """What the claims get, in their order."""

    given: Sequence[tuple[ResourceClaim, dict[str, Any]]]


class _Supply(NamedTuple):
    """All devices there are, and those that are taken."""

    slices: Sequence[ResourceSlice]
    taken: set[DeviceId]


class DynamicResources(Plugin):
    """Finds devices for claims."""

    name = "DynamicResources"
    local = False
    refusals = (
        unresolvable(name, "resourceclaim not available on the node"),
        unresolvable(name, "cannot allocate all claims"),
    )

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._claims = handle.follow(resource_of_class(ResourceClaim))
        self._classes = handle.follow(resource_of_class(DeviceClass))
        self._slices = handle.follow(resource_of_class(ResourceSlice))
        self._rules = handle.follow(resource_of_class(DeviceTaintRule), optional=True)
        # By uid: claims whose devices are being written, until the cache shows them.
        self._pending: dict[str, tuple[ObjectKey, tuple[DeviceId, ...]]] = {}

    def interests(self) -> Sequence[Interest]:
        every = Action.ADD | Action.UPDATE | Action.DELETE
        return (
            Interest(NODE, Action.ADD | Action.NODE_LABEL | Action.NODE_ALLOCATABLE),
            Interest(self._claims.resource.qualified, every, self._may_help),
            Interest(TARGET_POD, Action.POD_CLAIMS),
            Interest(self._classes.resource.qualified, Action.ADD | Action.UPDATE),
            Interest(self._slices.resource.qualified, Action.ADD | Action.UPDATE),
            Interest(self._rules.resource.qualified, Action.UPDATE | Action.DELETE),
        )

    def pre_enqueue(self, pod: PodInfo) -> Refusal | None:
        """Not before all claims have been made."""
        if not pod.pod.spec.resource_claims:
            return None
        found = self._claims_of(pod.pod)
        return unresolvable(self.name, found) if isinstance(found, str) else None

    # Filtering.

    def concerns(self, template: Template) -> bool:
        return bool(template.pod.spec.resource_claims)

    def prefilter(self, pod: PodInfo, cluster: ClusterState) -> _Claims | Skip | Refusal:
        if not pod.pod.spec.resource_claims:
            return SKIP
        claims = self._claims_of(pod.pod)
        if isinstance(claims, str):
            return unresolvable(self.name, claims)
        why_not = next((told for one in claims if (told := self._unusable(one, pod))), "")
        if why_not:
            return unresolvable(self.name, why_not)
        allocated = [one for one in claims if one.status.allocation is not None]
        needy = [one for one in claims if one.status.allocation is None]
        return _Claims(allocated, needy) if claims else SKIP

    def filter(self, state: _Claims, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        import numpy as np

        numbers, supply = np.arange(cluster.size)[rows], self._supply()
        answers = np.zeros(len(numbers), np.int16)
        for position, row in enumerate(numbers):
            node = cluster.nodes.get(int(row))
            if node is not None:
                answers[position] = self._answer(state, node, supply)
        return answers

    def _answer(self, state: _Claims, node: Node, supply: _Supply) -> int:
        if any(not _is_available(claim, node) for claim in state.allocated):
            return _NOT_HERE
        return _NOT_ALL if state.needy and self._devices(state.needy, node, supply) is None else 0

    # Making room.

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> Nominated | Refusal | None:
        """Take devices back that the pod's own claims have where it can't go, if nobody else uses them."""
        claims = cycle.states.get(self.name)
        for claim in claims.allocated if isinstance(claims, _Claims) else ():
            nodes = cycle.cluster.nodes.values()
            idle = all(one.uid == cycle.pod.uid for one in claim.status.reserved_for)
            if idle and not all(_is_available(claim, node) for node in nodes):
                self.handle.spawn(self._take_back(claim))
                return unschedulable(self.name, "deallocation of ResourceClaim completed")
        return None

    async def _take_back(self, claim: ResourceClaim) -> None:
        meta = claim.metadata
        status = {"reservedFor": None, "allocation": None, "devices": None}
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        try:
            await self.handle.client.patch("resourceclaims", meta.name, body, meta.namespace, subresource="status")
        except (Conflict, NotFound) as error:
            log.info("the devices of %s stay where they are: %s", key_of(claim), error)

    # Scoring.

    def prescore(self, pod: PodInfo, cluster: ClusterState) -> _Claims | Skip:
        """Only who leaves a choice has a preference: the first of what would do."""
        claims = self._claims_of(pod.pod)
        needy = [one for one in claims if one.status.allocation is None] if isinstance(claims, list) else []
        chosen = any(request.first_available for one in needy for request in one.spec.devices.requests or ())
        return _Claims((), needy) if chosen else SKIP

    def score(self, state: _Claims, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        import numpy as np

        supply = self._supply()
        found = (self._devices(state.needy, cluster.nodes[int(row)], supply) for row in np.arange(cluster.size)[rows])
        return np.array([_liking(state.needy, given) for given in found], np.int64)

    def normalize(self, state: Any, scores: NDArray[np.int64], cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        from kubeloop.scheduler.normalizing import spread_out

        return spread_out(scores)

    def _devices(self, claims: Sequence[ResourceClaim], node: Node, supply: _Supply) -> list[list[Given]] | None:
        from kubeloop.scheduler.devices import Allocator, devices_on

        slices, taken = supply
        allocator = Allocator(devices_on(slices, node), lambda name: self._classes.get("", name), taken, slices)
        return allocator.allocate(claims)

    def _supply(self) -> _Supply:
        from kubeloop.scheduler.devices import with_taints

        return _Supply(with_taints(self._slices.list(), self._rules.list()), self._taken())

    def _taken(self) -> set[DeviceId]:
        from kubeloop.scheduler.devices import DeviceId

        self._forget_written()
        taken = {one for _, devices in self._pending.values() for one in devices}
        for claim in self._claims.list():
            if claim.status.allocation is not None:
                results = claim.status.allocation.devices.results
                taken |= {DeviceId(one.driver, one.pool, one.device) for one in results if not one.admin_access}
        return taken

    def _forget_written(self) -> None:
        for uid, (key, _) in tuple(self._pending.items()):
            claim = self._claims.get(*key)
            if claim is None or claim.metadata.uid != uid or claim.status.allocation is not None:
                del self._pending[uid]

    # Claims.

    def _claims_of(self, pod: Pod) -> list[ResourceClaim] | str:
        """The claims of a pod; or which of them is not there."""
        found: list[ResourceClaim] = []
        made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
        for one in pod.spec.resource_claims:
            if one.resource_claim_name is None and one.name not in made:
                return f'pod "{key_of(pod)}": ResourceClaim not created yet'
            name = one.resource_claim_name or made.get(one.name)
            if name is None:  # it was found that the pod needs none
                continue
            claim = self._claims.get(pod.metadata.namespace, name)
            if claim is None:
                return f'resourceclaim.resource.k8s.io "{name}" not found'
            if claim.metadata.deletion_timestamp is not None:
                return f'resourceclaim "{name}" is being deleted'
            found.append(claim)
        return found

    def _unusable(self, claim: ResourceClaim, pod: PodInfo) -> str:
        if claim.status.allocation is not None:
            ours = any(one.uid == pod.uid for one in claim.status.reserved_for)
            return "" if ours or len(claim.status.reserved_for) < _RESERVED_AT_MOST else "resourceclaim in use"
        if claim.metadata.uid in self._pending:
            return f"resource claim {key_of(claim)} is in the process of being allocated"
        for request in claim.spec.devices.requests or ():
            asked: list[tuple[str, str]] = [
                (f"{request.name}/{one.name}", one.device_class_name) for one in request.first_available
            ]
            if request.exactly is not None:
                asked = [(request.name, request.exactly.device_class_name)]
            for name, wanted in asked:
                if self._classes.get("", wanted) is None:
                    return f"request {name}: device class {wanted} does not exist"
        return ""

    def _may_help(self, pod: PodInfo, old: Any, new: Any) -> bool:
        """Its own claims, or devices that somebody gave back."""
        if new is None or (old is not None and old.status.allocation is not None and new.status.allocation is None):
            return True
        claims = self._claims_of(pod.pod)
        return isinstance(claims, list) and any(one.metadata.uid == new.metadata.uid for one in claims)

    # Binding.

    def reserve(self, cycle: Cycle, node: str) -> Refusal | None:
        claims, row = cycle.states.get(self.name), cycle.cluster.row_of(node)
        if not isinstance(claims, _Claims) or row is None:
            return None
        devices = self._devices(claims.needy, cycle.cluster.nodes[row], self._supply()) if claims.needy else []
        if devices is None:
            return self.refusals[_NOT_ALL - 1]
        given = []
        for claim, chosen in zip(claims.needy, devices, strict=True):
            self._pending[claim.metadata.uid] = key_of(claim), tuple(one.offer.id for one in chosen)
            given.append((claim, self._allocation(claim, chosen, node)))
        cycle.states[_Choice] = _Choice(given)
        return None

    def unreserve(self, cycle: Cycle, node: str) -> None:
        choice: _Choice | None = cycle.states.pop(_Choice, None)
        for claim, _ in choice.given if choice is not None else ():
            self._pending.pop(claim.metadata.uid, None)

    def will_pre_bind(self, cycle: Cycle, node: str) -> bool:
        return _Choice in cycle.states

    async def pre_bind(self, cycle: Cycle, node: str) -> Refusal | None:
        claims, choice = cycle.states.get(self.name), cycle.states.get(_Choice)
        if not isinstance(claims, _Claims) or choice is None:
            return None
        given = {claim.metadata.uid: allocation for claim, allocation in choice.given}
        for claim in (*claims.allocated, *claims.needy):
            why_not = await self._write(claim, given.get(claim.metadata.uid), cycle.pod.pod)
            if why_not:
                return failed(self.name, why_not)
        return None

    async def _write(self, claim: ResourceClaim, allocation: dict[str, Any] | None, pod: Pod) -> str:
        """Write who gets what; a claim that has changed meanwhile is looked at again."""
        client, key = self.handle.client, key_of(claim)
        for _ in range(_TRIES):
            current = await client.get(ResourceClaim, key.name, key.namespace)
            if current.metadata.deletion_timestamp is not None:
                return f"claim {key} got deleted in the meantime"
            if allocation is not None and current.status.allocation is not None:
                return f"claim {key} got allocated elsewhere in the meantime"
            if any(one.uid == pod.metadata.uid for one in current.status.reserved_for):
                return ""
            try:
                await self._update(current, allocation, pod)
            except Conflict:
                await asyncio.sleep(0)
                continue
            return ""
        return f"claim {key} keeps changing"

    async def _update(self, claim: ResourceClaim, allocation: dict[str, Any] | None, pod: Pod) -> None:
        client, meta = self.handle.client, claim.metadata
        if allocation is not None and FINALIZER not in meta.finalizers:
            change = {"resourceVersion": meta.resource_version, "finalizers": [*meta.finalizers, FINALIZER]}
            claim = await client.patch("resourceclaims", meta.name, {"metadata": change}, meta.namespace)
        reserved = [to_plain(one) for one in claim.status.reserved_for]
        reserved.append({"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid})
        status: dict[str, Any] = {"reservedFor": reserved}
        if allocation is not None:
            status["allocation"] = allocation
        body = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
        await client.patch("resourceclaims", meta.name, body, meta.namespace, subresource="status")

    def _allocation(self, claim: ResourceClaim, given: Sequence[Given], node: str) -> dict[str, Any]:
        results = [_result(one) for one in given]
        config = [
            {"source": "FromClass", "requests": [one.request], **to_plain(each)}
            for one in given
            if (found := self._classes.get("", one.asked.device_class_name)) is not None
            for each in found.spec.config
        ]
        config += [{"source": "FromClaim", **to_plain(each)} for each in claim.spec.devices.config]
        devices = {"results": results, **({"config": config} if config else {})}
        everywhere = all(one.offer.slice.spec.all_nodes for one in given)
        return {"devices": devices} if everywhere else {"devices": devices, "nodeSelector": _only(node)}


def _is_available(claim: ResourceClaim, node: Node) -> bool:
    """Whether a node can reach what a claim has."""
    allocation = claim.status.allocation
    selector = allocation.node_selector if allocation is not None else None
    return selector is None or node_selector_matches(selector, node)


def _liking(claims: Sequence[ResourceClaim], given: Sequence[Sequence[Given]] | None) -> int:
    """The earlier of what a request would take, the better."""
    total = 0
    for claim, chosen in zip(claims, given or (), strict=given is not None):
        names = {one.request for one in chosen}
        for request in claim.spec.devices.requests or ():
            for position, one in enumerate(request.first_available):
                if f"{request.name}/{one.name}" in names:
                    total += _MOST_CHOICES - position
    return total


def _result(one: Given) -> dict[str, Any]:
    driver, pool, device = one.offer.id
    result = {"request": one.request, "driver": driver, "pool": pool, "device": device}
    return {**result, "adminAccess": True} if getattr(one.asked, "admin_access", None) else result


def _only(node: str) -> dict[str, Any]:
    """Devices of one node, as a selector."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}
