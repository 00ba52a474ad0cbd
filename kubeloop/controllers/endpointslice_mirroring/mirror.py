# SPDX-License-Identifier: Apache-2.0
"""Computes the slices that mirror an Endpoints object: one for each subset and address family. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import EndpointAddress, Endpoints, EndpointSubset
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.shared.endpoints.pod_endpoints import Family, canonical_ip, family_of
from kubeloop.controllers.shared.endpoints.repack import repack_subsets
from kubeloop.controllers.shared.endpoints.slices import (
    MANAGED_BY,
    SERVICE_NAME,
    EndpointKey,
    Ports,
    equal_beyond_key,
    key_of_endpoint,
    name_prefix,
    sort_ports,
)
from kubeloop.controllers.shared.endpoints.trigger_times import ANNOTATION as TRIGGER_TIME
from kubeloop.runtime.objects.owner_references import controller_reference
from kubeloop.runtime.objects.patch_or_update import map_patch

MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_ENDPOINTS: Final = resource_of_class(Endpoints)

SliceGroup = tuple[str, Ports]  # address type and ports of a slice
Group = dict[EndpointKey, Endpoint]


@dataclass(slots=True)
class MirroredEndpoints:
    """Endpoints to mirror, and the number of omitted addresses."""

    groups: dict[SliceGroup, Group] = field(default_factory=dict)
    invalid: int = 0  # invalid addresses
    skipped: int = 0  # addresses that are not mirrored, including the invalid ones


@dataclass(frozen=True, slots=True)
class MirrorDraft:
    """Desired state of a slice: a change of `base`, or a new slice."""

    base: EndpointSlice | None
    group: SliceGroup
    endpoints: tuple[Endpoint, ...]


@dataclass(slots=True)
class MirrorPlan:
    """Changes of the slices."""

    create: list[MirrorDraft] = field(default_factory=list)
    update: list[MirrorDraft] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)
    added: int = 0
    updated: int = 0
    removed: int = 0


def should_mirror(endpoints: Endpoints) -> bool:
    """Return True if the object is to be mirrored; leader election locks are not."""
    return endpoints.metadata.labels.get(SKIP) != "true" and LEADER not in endpoints.metadata.annotations


def mirror_endpoints(endpoints: Endpoints, most: int) -> MirroredEndpoints:
    """Return the endpoints of each slice, limited per subset."""
    found = MirroredEndpoints()
    for subset in repack_subsets(endpoints.subsets):
        _mirror_subset(found, subset, most)
    return found


def _mirror_subset(found: MirroredEndpoints, subset: EndpointSubset, most: int) -> None:
    ports = sort_ports(
        EndpointPort(name=one.name, port=one.port, protocol=one.protocol, app_protocol=one.app_protocol)
        for one in subset.ports
    )
    groups: dict[Family, Group] = {
        "IPv4": found.groups.setdefault(("IPv4", ports), {}),
        "IPv6": found.groups.setdefault(("IPv6", ports), {}),
    }
    taken = 0
    listed = [(one, True) for one in subset.addresses] + [(one, False) for one in subset.not_ready_addresses]
    for address, is_ready in listed:
        if taken >= most:
            break
        family = family_of(address.ip)
        if family is None:
            found.invalid += 1
            continue
        endpoint = endpoint_of(address, is_ready)
        groups[family][key_of_endpoint(endpoint)] = endpoint
        taken += 1
    found.skipped += len(listed) - taken


def endpoint_of(address: EndpointAddress, is_ready: bool) -> Endpoint:
    """Build the endpoint of an address."""
    return Endpoint(
        addresses=(canonical_ip(address.ip),),
        conditions=EndpointConditions(ready=is_ready),
        target_ref=address.target_ref,
        node_name=address.node_name,
        hostname=address.hostname or None,
    )


def plan_mirror(
    endpoints: Endpoints, existing: Iterable[EndpointSlice], groups: Mapping[SliceGroup, Group]
) -> MirrorPlan:
    """Plan one slice for each group of endpoints; all other slices are deleted."""
    by_place: dict[SliceGroup, list[EndpointSlice]] = {}
    for one in existing:
        by_place.setdefault((one.address_type, sort_ports(one.ports or ())), []).append(one)
    plan = MirrorPlan()
    for place, group in groups.items():
        _plan_group(plan, endpoints, by_place.pop(place, []), place, group)
    for slices in by_place.values():
        plan.delete += slices
    _reuse(plan)
    return plan


def _plan_group(
    plan: MirrorPlan, endpoints: Endpoints, existing: Sequence[EndpointSlice], place: SliceGroup, group: Group
) -> None:
    if not group:
        plan.delete += existing
        plan.removed += sum(len(one.endpoints or ()) for one in existing)
        return
    wanted = tuple(group.values())
    if not existing:
        plan.added += len(group)
        plan.create.append(MirrorDraft(None, place, wanted))
        return
    first, *others = existing
    plan.delete += others
    changes = _changes(first.endpoints or (), group)
    plan.added += changes.added
    plan.removed += changes.removed
    plan.updated += changes.updated
    if any(changes) or not _has_metadata(first, endpoints):
        plan.update.append(MirrorDraft(first, place, wanted))


class _Changes(NamedTuple):
    added: int
    removed: int
    updated: int


def _changes(present: Sequence[Endpoint], group: Group) -> _Changes:
    """Count the changes that a slice needs to hold a group."""
    kept = [(one, group[key]) for one in present if (key := key_of_endpoint(one)) in group]
    return _Changes(
        added=len(group) - len(kept),
        removed=len(present) - len(kept),
        updated=sum(not equal_beyond_key(wanted, one) for one, wanted in kept),
    )


def _has_metadata(one: EndpointSlice, endpoints: Endpoints) -> bool:
    """Return True if the slice has the desired labels and annotations, and no earlier owner of the same name."""
    meta = one.metadata
    name, uid = endpoints.metadata.name, endpoints.metadata.uid
    is_another = any(
        owner.kind == "Endpoints" and owner.name == name and owner.uid != uid for owner in meta.owner_references
    )
    return not is_another and meta.labels == labels_of(endpoints) and meta.annotations == annotations_of(endpoints)


def _reuse(plan: MirrorPlan) -> None:
    """Turn a deletion and a creation of the same address type into one update."""
    kept: list[EndpointSlice] = []
    for one in plan.delete:
        found = next((draft for draft in plan.create if draft.group[0] == one.address_type), None)
        if found is None:
            kept.append(one)
        else:
            plan.create.remove(found)
            plan.update.append(replace(found, base=one))
    plan.delete = kept


def labels_of(endpoints: Endpoints) -> dict[str, str]:
    """Return the labels of the mirroring slices."""
    return {**endpoints.metadata.labels, SERVICE_NAME: endpoints.metadata.name, MANAGED_BY: MANAGER}


def annotations_of(endpoints: Endpoints) -> dict[str, str]:
    """Return the annotations to copy, without those about the Endpoints object itself."""
    own = (TRIGGER_TIME, LAST_APPLIED)
    return {key: value for key, value in endpoints.metadata.annotations.items() if key not in own}


def new_slice(endpoints: Endpoints, draft: MirrorDraft) -> EndpointSlice:
    """Build a new slice."""
    meta = endpoints.metadata
    address_type, ports = draft.group
    return EndpointSlice(
        metadata=ObjectMeta(
            generate_name=name_prefix(meta.name),
            namespace=meta.namespace,
            labels=labels_of(endpoints),
            annotations=annotations_of(endpoints),
            owner_references=(controller_reference(endpoints, _ENDPOINTS),),
        ),
        address_type=address_type,
        endpoints=draft.endpoints,
        ports=ports,
    )


def slice_patch(base: EndpointSlice, endpoints: Endpoints, draft: MirrorDraft) -> dict[str, Any]:
    """Build the merge patch from a slice to its desired state."""
    meta, metadata = base.metadata, dict[str, Any]()
    labels, annotations = labels_of(endpoints), annotations_of(endpoints)
    owners = (controller_reference(endpoints, _ENDPOINTS),)
    if meta.labels != labels:
        metadata["labels"] = map_patch(meta.labels, labels)
    if meta.annotations != annotations:
        metadata["annotations"] = map_patch(meta.annotations, annotations)
    if meta.owner_references != owners:
        metadata["ownerReferences"] = codec.to_plain(owners)
    patch: dict[str, Any] = {"metadata": metadata}
    if (base.endpoints or ()) != draft.endpoints:
        patch["endpoints"] = codec.to_plain(draft.endpoints)
    if (base.ports or ()) != draft.group[1]:
        patch["ports"] = codec.to_plain(draft.group[1])
    return patch
