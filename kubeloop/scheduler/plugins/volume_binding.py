"""VolumeBinding: only nodes from which the pod's volumes can be reached; volumes that wait for a pod are bound with it.

The contract with provisioners: the scheduler writes the chosen node to the claim's annotation
`volume.kubernetes.io/selected-node`, they make the volume, and the pod is bound when its claims are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from kubeloop.api.generated.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from kubeloop.api.quantity import parse_quantity
from kubeloop.api.selectors import from_label_selector
from kubeloop.client.resolving import resource_of_class
from kubeloop.runtime.keys import ObjectKey, key_of
from kubeloop.scheduler.changes import NODE, Action
from kubeloop.scheduler.cluster import ClusterState, Rows
from kubeloop.scheduler.framework import SKIP, Interest, Plugin, Skip, failed, unresolvable
from kubeloop.scheduler.handle import Handle
from kubeloop.scheduler.outcome import Code, Refusal, SchedulingError
from kubeloop.scheduler.pod_info import PodInfo, Template
from kubeloop.scheduler.volumes import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    claim_names,
    class_of,
    class_of_volume,
    in_topologies,
    is_bound,
    is_for,
    is_reachable,
    matching_volume,
    size_of,
)

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle import Cycle

_UNREACHABLE, _NO_VOLUME, _NO_SPACE, _GONE = 1, 2, 4, 8
_REASONS = {
    _UNREACHABLE: "node(s) didn't match PersistentVolume's node affinity",
    _NO_VOLUME: "node(s) didn't find available persistent volumes to bind",
    _NO_SPACE: "node(s) did not have enough free storage",
    _GONE: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_LATER = "WaitForFirstConsumer"


class _Claims(NamedTuple):
    """A pod's claims: those that have a volume, and those that wait for the pod."""

    bound: Sequence[PersistentVolumeClaim]
    waiting: Sequence[PersistentVolumeClaim]


class _Choice(NamedTuple):
    """What is to be written for the claims that wait."""

    bindings: Sequence[tuple[PersistentVolume, PersistentVolumeClaim]]
    provisions: Sequence[PersistentVolumeClaim]


class VolumeBinding(Plugin):
    """Finds volumes for claims, or provisioners that will make some."""

    name = "VolumeBinding"
    local = False

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._patience = float(args.get("bindTimeoutSeconds") or 600)
        self._claims = handle.follow(resource_of_class(PersistentVolumeClaim))
        self._volumes = handle.follow(resource_of_class(PersistentVolume))
        self._classes = handle.follow(resource_of_class(StorageClass))
        self._drivers = handle.follow(resource_of_class(CSIDriver))
        self._capacities = handle.follow(resource_of_class(CSIStorageCapacity))
        handle.follow(resource_of_class(CSINode))
        self._taken: dict[str, ObjectKey] = {}  # volumes that are being bound, with their claims
        self._selected: dict[ObjectKey, str] = {}  # claims for which a volume is being made, with the node
        self._changed = asyncio.Event()
        for informer in (self._claims, self._volumes):
            informer.add_handler(_Waker(self._changed))

    def interests(self) -> Sequence[Interest]:
        both = Action.ADD | Action.UPDATE
        return (
            Interest(self._classes.resource.qualified, both),
            Interest(self._claims.resource.qualified, both, _is_about_its_claim),
            Interest(self._volumes.resource.qualified, both),
            Interest(NODE, Action.ADD | Action.NODE_LABEL),
            Interest(resource_of_class(CSINode).qualified, both),
            Interest(self._drivers.resource.qualified, Action.UPDATE),
            Interest(self._capacities.resource.qualified, both),
        )

    # Filtering.

    def concerns(self, template: Template) -> bool:
        return any(claim_names(template.pod))

    def prefilter(self, pod: PodInfo, cluster: ClusterState) -> _Claims | Skip | Refusal:
        names = tuple(claim_names(pod.pod))
        if not names:
            return SKIP
        bound, waiting = [], []
        immediate = False
        for name, ephemeral in names:
            claim = self._claims.get(pod.key.namespace, name)
            why_not = _unusable(claim, name, ephemeral, pod)
            if why_not or claim is None:
                return unresolvable(self.name, why_not)
            if is_bound(claim):
                bound.append(claim)
            elif self._is_delayed(claim) and not claim.spec.volume_name:
                waiting.append(claim)
            else:
                immediate = True
        if immediate:
            return unresolvable(self.name, "pod has unbound immediate PersistentVolumeClaims")
        return _Claims(bound, waiting)

    def filter(self, state: _Claims, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        numbers = np.arange(cluster.size)[rows]
        answers = np.zeros(len(numbers), np.int16)
        for position, row in enumerate(numbers):
            node = cluster.nodes.get(int(row))
            if node is not None:
                answers[position] = self._bound_answer(state.bound, node) | self._waiting_answer(state.waiting, node)
        return answers

    def refusal(self, state: Any, number: int) -> Refusal:
        return Refusal(Code.UNRESOLVABLE, tuple(told for bit, told in _REASONS.items() if number & bit), self.name)

    def _bound_answer(self, claims: Sequence[PersistentVolumeClaim], node: Node) -> int:
        for claim in claims:
            volume = self._volumes.get("", claim.spec.volume_name)
            if volume is None:
                return _GONE
            if not is_reachable(volume, node):
                return _UNREACHABLE
        return 0

    def _waiting_answer(self, claims: Sequence[PersistentVolumeClaim], node: Node) -> int:
        choice = self._choice(claims, node) if claims else 0
        return choice if isinstance(choice, int) else 0

    def _choice(self, claims: Sequence[PersistentVolumeClaim], node: Node) -> _Choice | int:
        """Volumes for claims on a node, the smallest claim first; or why there are none."""
        provisions, bindings = [], []
        taken: set[str] = set()
        for claim in sorted(claims, key=size_of):
            selected = self._selected.get(key_of(claim)) or claim.metadata.annotations.get(SELECTED_NODE)
            if selected and selected != node.metadata.name:
                return _NO_VOLUME
            volume = None if selected else self._free_volume(claim, node, taken)
            if volume is None:
                provisions.append(claim)
            else:
                taken.add(volume.metadata.name)
                bindings.append((volume, claim))
        for claim in provisions:
            why_not = self._provision_answer(claim, node)
            if why_not:
                return why_not
        return _Choice(bindings, provisions)

    def _free_volume(self, claim: PersistentVolumeClaim, node: Node, taken: set[str]) -> PersistentVolume | None:
        wanted = class_of(claim)
        others = taken | {name for name, key in self._taken.items() if key != key_of(claim)}
        return matching_volume(
            claim, (one for one in self._volumes.list() if class_of_volume(one) == wanted), node, others
        )

    def _provision_answer(self, claim: PersistentVolumeClaim, node: Node) -> int:
        found = self._classes.get("", class_of(claim))
        if found is None or found.provisioner in ("", _NO_PROVISIONER):
            return _NO_VOLUME
        if not in_topologies(found.allowed_topologies, node):
            return _NO_VOLUME
        return 0 if self._has_space(claim, found, node) else _NO_SPACE

    def _has_space(self, claim: PersistentVolumeClaim, found: StorageClass, node: Node) -> bool:
        """Only drivers that say so publish how much they can provide, and where."""
        driver = self._drivers.get("", found.provisioner)
        if driver is None or not driver.spec.storage_capacity:
            return True
        wanted = size_of(claim)
        for one in self._capacities.list():
            largest = one.maximum_volume_size or one.capacity
            there = one.node_topology is not None and from_label_selector(one.node_topology).matches(
                node.metadata.labels
            )
            if (
                one.storage_class_name == found.metadata.name
                and there
                and largest
                and parse_quantity(largest) >= wanted
            ):
                return True
        return False

    def _is_delayed(self, claim: PersistentVolumeClaim) -> bool:
        found = self._classes.get("", class_of(claim)) if class_of(claim) else None
        return found is not None and found.volume_binding_mode == _LATER

    # Binding.

    def reserve(self, cycle: Cycle, node: str) -> Refusal | None:
        claims = cycle.states.get(self.name)
        row = cycle.cluster.row_of(node)
        if not isinstance(claims, _Claims) or not claims.waiting or row is None:
            return None
        choice = self._choice(claims.waiting, cycle.cluster.nodes[row])
        if isinstance(choice, int):
            return self.refusal(None, choice)
        for volume, claim in choice.bindings:
            self._taken[volume.metadata.name] = key_of(claim)
        for claim in choice.provisions:
            self._selected[key_of(claim)] = node
        cycle.states[_Choice] = choice
        return None

    def unreserve(self, cycle: Cycle, node: str) -> None:
        choice = cycle.states.pop(_Choice, None)
        if choice is not None:
            self._release(choice)

    def will_pre_bind(self, cycle: Cycle, node: str) -> bool:
        return _Choice in cycle.states

    async def pre_bind(self, cycle: Cycle, node: str) -> Refusal | None:
        choice: _Choice | None = cycle.states.get(_Choice)
        if choice is None:
            return None
        try:
            async with asyncio.timeout(self._patience):
                await self._write(choice, node)
                while not self._is_done(choice, node, cycle.pod):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return failed(self.name, "binding volumes: context deadline exceeded")
        except SchedulingError as error:
            return failed(self.name, f"binding volumes: {error}")
        return None

    def post_bind(self, cycle: Cycle, node: str) -> None:
        self.unreserve(cycle, node)

    async def _write(self, choice: _Choice, node: str) -> None:
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
        for claim in choice.provisions:
            meta = claim.metadata
            if meta.annotations.get(SELECTED_NODE) == node:
                continue
            change = {"resourceVersion": meta.resource_version, "annotations": {SELECTED_NODE: node}}
            await client.patch("persistentvolumeclaims", meta.name, {"metadata": change}, meta.namespace)

    def _is_done(self, choice: _Choice, node: str, pod: PodInfo) -> bool:
        """Whether all claims are bound; raises if that will not happen any more."""
        if self.handle.pods.get(*pod.key) is None:
            raise SchedulingError("pod does not exist any more")
        claims = [claim for _, claim in choice.bindings] + list(choice.provisions)
        present = [(one, self._claims.get(*key_of(one))) for one in claims]
        for old, claim in present:
            if claim is None:
                raise SchedulingError(f'persistentvolumeclaim "{old.metadata.name}" not found')
        for old in choice.provisions:
            claim = self._claims.get(*key_of(old))
            said = claim.metadata.annotations.get(SELECTED_NODE) if claim is not None else None
            if said != node and claim is not None and claim.metadata.resource_version != old.metadata.resource_version:
                raise SchedulingError(f'provisioning failed for PVC "{old.metadata.name}"')
        return all(claim is not None and is_bound(claim) for _, claim in present)

    def _release(self, choice: _Choice) -> None:
        for volume, _ in choice.bindings:
            self._taken.pop(volume.metadata.name, None)
        for claim in choice.provisions:
            self._selected.pop(key_of(claim), None)


class _Waker:
    """Wakes those who wait for claims and volumes."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def on_add(self, _: Any) -> None:
        self._event.set()

    def on_update(self, _: Any, __: Any) -> None:
        self._event.set()

    def on_delete(self, _: Any) -> None:
        self._event.set()


def _unusable(claim: PersistentVolumeClaim | None, name: str, ephemeral: bool, pod: PodInfo) -> str:
    """Why a pod can't use a claim; empty if it can."""
    if claim is None:
        wait = "waiting for ephemeral volume controller to create the "
        return f'{wait}persistentvolumeclaim "{name}"' if ephemeral else f'persistentvolumeclaim "{name}" not found'
    if claim.status.phase == "Lost":
        gone = claim.spec.volume_name
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and not is_for(claim, pod.pod):
        key, owner = key_of(claim), pod.key
        return f"PVC {key} was not created for pod {owner} (pod is not owner)"
    return ""


def _is_about_its_claim(pod: PodInfo, old: Any, new: Any) -> bool:
    meta = new.metadata
    return meta.namespace == pod.key.namespace and any(one.name == meta.name for one in claim_names(pod.pod))
