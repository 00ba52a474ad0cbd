# SPDX-License-Identifier: Apache-2.0
"""Assigns endpoints to slices, so that few slices change and those are well filled. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointSlice
from kubeloop.controllers.endpointslice.desired_slices import DesiredEndpoints, Group
from kubeloop.controllers.endpointslice.slice_labels import are_current
from kubeloop.controllers.shared.endpoints.slices import Ports, equal_beyond_key, key_of_endpoint, sort_ports


@dataclass(slots=True)
class SliceDraft:
    """Desired state of a slice: a change of `base`, or a new slice."""

    base: EndpointSlice | None
    address_type: str
    ports: Ports
    labels: Mapping[str, str]
    endpoints: list[Endpoint]

    @property
    def is_changed(self) -> bool:
        """True if the slice differs from its base."""
        base = self.base
        return (
            base is None
            or list(base.endpoints or ()) != self.endpoints
            or sort_ports(base.ports or ()) != self.ports
            or base.metadata.labels != self.labels
        )


@dataclass(slots=True)
class SlicePlan:
    """Changes of a Service's slices of one address type."""

    create: list[SliceDraft] = field(default_factory=list)
    update: list[SliceDraft] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)
    unchanged: list[SliceDraft] = field(default_factory=list)
    added: int = 0
    removed: int = 0

    def extend(self, other: SlicePlan) -> None:
        """Add the changes of another plan."""
        self.create += other.create
        self.update += other.update
        self.delete += other.delete
        self.unchanged += other.unchanged
        self.added += other.added
        self.removed += other.removed

    @property
    def drafts(self) -> list[SliceDraft]:
        """All slices that will exist."""
        return [*self.create, *self.update, *self.unchanged]


@dataclass(frozen=True, slots=True)
class SliceTemplate:
    """Properties that all slices of a Service share."""

    address_type: str
    labels: Mapping[str, str]
    capacity: int


def plan_slices(
    service: Service, existing: Sequence[EndpointSlice], desired: DesiredEndpoints, mold: SliceTemplate
) -> SlicePlan:
    """Plan the changes from the existing to the desired slices; at least one slice remains, even if empty."""
    plan = SlicePlan()
    by_ports: dict[Ports, list[EndpointSlice]] = {}
    for one in existing:
        if is_owned_by(one, service):
            by_ports.setdefault(sort_ports(one.ports or ()), []).append(one)
        else:
            plan.delete.append(one)
    for ports, group in desired.groups.items():
        plan.extend(pack_endpoints(by_ports.pop(ports, []), group, ports, mold))
    for slices in by_ports.values():
        plan.delete += slices
    if len(plan.delete) == len(existing) and not plan.create:
        _keep_placeholder(plan, service, mold)
    _reuse(plan, service)
    return plan


def pack_endpoints(existing: Sequence[EndpointSlice], group: Group, ports: Ports, mold: SliceTemplate) -> SlicePlan:
    """Assign the endpoints with the same ports to slices.

    Slices that change anyway are filled first, the fullest before others. The rest goes into one slice that has room
    for all of it, else into new ones.
    """
    left = dict(group)
    plan = SlicePlan()
    for one in existing:
        _keep_desired(plan, one, left, ports, mold)
    plan.added = len(left)
    waiting = list(left.values())
    for draft in sorted(plan.update, key=lambda one: -len(one.endpoints)):
        waiting = _fill(draft, waiting, mold.capacity)
    while waiting:
        waiting = _fill(_slice_with_room(plan, len(waiting), ports, mold), waiting, mold.capacity)
    return plan


def _slice_with_room(plan: SlicePlan, count: int, ports: Ports, mold: SliceTemplate) -> SliceDraft:
    """Return an unchanged slice that has room for the rest, or a new one."""
    found = _closest_fit(plan.unchanged, count, mold.capacity)
    if found is None:
        made = SliceDraft(None, mold.address_type, ports, mold.labels, [])
        plan.create.append(made)
        return made
    plan.unchanged.remove(found)
    plan.update.append(found)
    return found


def _keep_desired(plan: SlicePlan, one: EndpointSlice, left: Group, ports: Ports, mold: SliceTemplate) -> None:
    """Keep the desired endpoints of a slice in their new state and remove them from `left`."""
    present = one.endpoints or ()
    kept: list[Endpoint] = []
    is_news = False
    for endpoint in present:
        wanted = left.pop(key_of_endpoint(endpoint), None)
        if wanted is not None:
            kept.append(wanted)
            is_news = is_news or not equal_beyond_key(wanted, endpoint)
    plan.removed += len(present) - len(kept)
    if is_news or len(kept) != len(present):
        if kept:
            plan.update.append(SliceDraft(one, mold.address_type, ports, mold.labels, kept))
        else:
            plan.delete.append(one)
        return
    # Unchanged endpoints keep their hints until these are evaluated.
    if are_current(one.metadata.labels, mold.labels):
        plan.unchanged.append(SliceDraft(one, mold.address_type, ports, one.metadata.labels, list(present)))
    else:
        plan.update.append(SliceDraft(one, mold.address_type, ports, mold.labels, list(present)))


def _fill(draft: SliceDraft, waiting: list[Endpoint], capacity: int) -> list[Endpoint]:
    """Fill a slice up to its capacity and return the rest."""
    room = max(0, capacity - len(draft.endpoints))
    draft.endpoints = [*draft.endpoints, *waiting[:room]]
    return waiting[room:]


def _closest_fit(drafts: Iterable[SliceDraft], count: int, capacity: int) -> SliceDraft | None:
    """Return the slice that becomes the fullest with this many more endpoints."""
    if count >= capacity:
        return None
    fitting = [one for one in drafts if len(one.endpoints) + count <= capacity]
    return max(fitting, key=lambda one: len(one.endpoints), default=None)


def _keep_placeholder(plan: SlicePlan, service: Service, mold: SliceTemplate) -> None:
    """Keep or create one empty slice if no slice would be left."""
    if len(plan.delete) == 1 and _is_placeholder(plan.delete[0], service, mold):
        one = plan.delete.pop()
        plan.unchanged.append(SliceDraft(one, mold.address_type, (), one.metadata.labels, []))
    else:
        plan.create.append(SliceDraft(None, mold.address_type, (), mold.labels, []))


def _is_placeholder(one: EndpointSlice, service: Service, mold: SliceTemplate) -> bool:
    return not one.ports and not one.endpoints and one.metadata.labels == mold.labels and is_owned_by(one, service)


def _reuse(plan: SlicePlan, service: Service) -> None:
    """Turn a deletion and a creation into one update.

    A slice that belongs to an earlier Service of the same name is still deleted.
    """
    kept: list[EndpointSlice] = []
    for one in plan.delete:
        if plan.create and is_owned_by(one, service):
            plan.update.append(replace(plan.create.pop(), base=one))
        else:
            kept.append(one)
    plan.delete = kept


def is_owned_by(one: EndpointSlice, service: Service) -> bool:
    """Return True if the slice belongs to this Service, not to an earlier one of the same name."""
    uid = service.metadata.uid
    return any(
        owner.uid == uid and owner.kind == "Service" and owner.api_version == "v1"
        for owner in one.metadata.owner_references
    )
