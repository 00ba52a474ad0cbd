# SPDX-License-Identifier: Apache-2.0
"""Advice for rejections because of volumes or devices, in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.generated.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from kubeloop.api.generated.storage_v1 import CSINode, StorageClass
from kubeloop.api.pods.volumes import claim_uses, class_of_claim, requested_size
from kubeloop.scheduler.dra.allocated import AllocatedState
from kubeloop.scheduler.dra.allocator import AllocationError, DeviceAllocator, InvalidPoolsError
from kubeloop.scheduler.dra.extended_resources import IN_MEMORY_CLAIM_NAME
from kubeloop.scheduler.dra.inventory import DeviceInventory
from kubeloop.scheduler.explain.remedies import RejectionCase, Remedy
from kubeloop.scheduler.framework.status import Code
from kubeloop.scheduler.plugins.volumes.volume_restrictions import is_volume_conflict
from kubeloop.scheduler.plugins.volumes.volume_zone import volume_topologies
from kubeloop.scheduler.volumes.binder import is_claim_bound, is_volume_reachable, matches_topology_terms


def _claims(case: RejectionCase) -> Iterator[PersistentVolumeClaim]:
    cache = case.informer_for(PersistentVolumeClaim)
    for use in claim_uses(case.pod.pod):
        found = cache.get(case.pod.key.namespace, use.name)
        if found is not None:
            yield found


def _volumes(case: RejectionCase) -> Iterator[PersistentVolume]:
    """Yield the volumes bound to the pod's claims."""
    for claim in _claims(case):
        found = case.informer_for(PersistentVolume).get("", claim.spec.volume_name) if claim.spec.volume_name else None
        if found is not None:
            yield found


def advise_volume_binding(case: RejectionCase) -> str:
    """Return the volumes and claims that prevent the pod from running on the node."""
    told = [
        f"volume {one.metadata.name} is not accessible from this node"
        for one in _volumes(case)
        if not is_volume_reachable(one, case.node)
    ]
    told += [_provision(case, claim) for claim in _claims(case) if not is_claim_bound(claim)]
    gone = [
        one
        for one in _claims(case)
        if is_claim_bound(one) and not case.informer_for(PersistentVolume).get("", _of(one))
    ]
    told += [f"claim {one.metadata.name} is bound to volume {_of(one)}, which does not exist" for one in gone]
    return "; ".join(one for one in told if one)


def _of(claim: PersistentVolumeClaim) -> str:
    return claim.spec.volume_name


def _provision(case: RejectionCase, claim: PersistentVolumeClaim) -> str:
    """Return what an unbound claim needs."""
    name, size = class_of_claim(claim), requested_size(claim)
    needs = (
        f"claim {claim.metadata.name} needs an available volume of class {name} with {size} that is accessible from "
        "this node"
    )
    found = case.informer_for(StorageClass).get("", name)
    if found is None or found.provisioner in ("", "kubernetes.io/no-provisioner"):
        return needs
    if not matches_topology_terms(found.allowed_topologies, case.node):
        return f"{needs}; the allowedTopologies of the class exclude this node"
    if "enough free storage" in case.refusal.message:
        return f"{needs}; {found.provisioner} has no capacity for one on this node"
    return ""


def advise_volume_zone(case: RejectionCase) -> str:
    """Return the zones of the volumes that do not match the node's labels."""
    told = [
        f"volume {one.metadata.name} is in {label}={','.join(sorted(values))}"
        for one in _volumes(case)
        for label, values in volume_topologies(one)
        if case.node.metadata.labels.get(label) not in values
    ]
    return "; ".join(told)


def advise_volume_restrictions(case: RejectionCase) -> str:
    """Return the pod that uses the same disk or ReadWriteOncePod claim."""
    disks = case.pod.pod.spec.volumes
    for one in case.pods_on_node:
        if any(is_volume_conflict(disk, one.pod) for disk in disks):
            return f"{one.key} uses the same disk on this node"
    alone = {claim.metadata.name for claim in _claims(case) if "ReadWriteOncePod" in claim.spec.access_modes}
    for pods in case.cluster.pods.values():
        for one in pods.values():
            shared = alone & {use.name for use in claim_uses(one.pod)}
            if shared and one.key.namespace == case.pod.key.namespace:
                return f"{one.key} uses the claim {min(shared)}: delete it"
    return ""


def advise_volume_limits(case: RejectionCase) -> str:
    """Return the missing CSI drivers, or their attach limits."""
    found = case.informer_for(CSINode).get("", case.node.metadata.name)
    drivers = {one.name: one.allocatable for one in found.spec.drivers or ()} if found is not None else {}
    wanted = sorted(set(case.state.volumes.values()))
    missing = [name for name in wanted if name not in drivers]
    if missing:
        return f"install {', '.join(missing)} on it"
    limits = [(name, room.count) for name in wanted if (room := drivers[name]) is not None]
    return "; ".join(f"{name} attaches at most {count} volumes: delete a pod that uses some" for name, count in limits)


def advise_devices(case: RejectionCase) -> str:
    """Return the claims that lack devices, with the device classes."""
    if case.state.leftover_claim is not None:
        return f"claim {case.state.leftover_claim.metadata.name} of an earlier attempt conflicts: it is being deleted"
    if "not available" in case.refusal.message:
        elsewhere = "its devices are on another node, or do not become ready"
        return "; ".join(f"claim {one.metadata.name} {elsewhere}" for one in case.state.allocated_claims)
    if case.refusal.code is Code.ERROR:
        return ""
    unused = DeviceAllocator(
        DeviceInventory(case.informer_for(ResourceSlice).list()),
        lambda name: case.informer_for(DeviceClass).get("", name),
        AllocatedState(),
    )
    claims = [*case.state.unallocated_claims, *(one.claims[-1] for one in case.state.extended_claims.values())]
    return "; ".join(_shortage(case, unused, one) for one in claims)


def _shortage(case: RejectionCase, unused: DeviceAllocator, claim: ResourceClaim) -> str:
    classes = ", ".join(_classes_of(claim))
    try:
        is_enough = unused.allocate(case.node, [claim]) is not None
    except (AllocationError, InvalidPoolsError) as error:
        return str(error)
    name = "extended resources" if claim.metadata.name == IN_MEMORY_CLAIM_NAME else f"claim {claim.metadata.name}"
    if is_enough:
        return f"{name}: devices of {classes} are taken by other claims"
    return f"{name}: not enough devices of {classes} are accessible from this node"


def _classes_of(claim: ResourceClaim) -> list[str]:
    requests = claim.spec.devices.requests or ()
    asked = [one.exactly for one in requests if one.exactly is not None]
    names = [one.device_class_name for one in asked]
    names += [one.device_class_name for each in requests for one in each.first_available]
    return sorted(set(names))


def advise_before_nodes(case_plugin: str, message: str) -> str:
    """Return advice for a rejection that does not concern nodes."""
    if "not found" in message or "not created yet" in message:
        return "create it, or wait for its controller"
    if "unbound immediate" in message:
        return "its claims are not bound yet: see kubectl describe pvc"
    if "does not exist" in message:
        return "create the device class, or request another one"
    if "being deleted" in message:
        return "recreate it after its deletion"
    if "in use" in message:
        return "delete a pod that uses it"
    return _BEFORE.get(case_plugin, "")


_BEFORE: Final[Mapping[str, str]] = {
    "SchedulingGates": "remove the pod's scheduling gates",
    "NodeAffinity": "its terms exclude each other",
    "DefaultPreemption": "preemption is in progress: wait",
    "DynamicResources": "wait for its claims, or inspect them: kubectl describe resourceclaim",
}


CLAIM_REMEDIES: Final[Mapping[str, Remedy]] = {
    "DynamicResources": advise_devices,
    "NodeVolumeLimits": advise_volume_limits,
    "VolumeBinding": advise_volume_binding,
    "VolumeRestrictions": advise_volume_restrictions,
    "VolumeZone": advise_volume_zone,
}
