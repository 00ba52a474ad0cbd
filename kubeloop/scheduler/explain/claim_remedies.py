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
    cache = case.listed(PersistentVolumeClaim)
    for use in claim_uses(case.pod.pod):
        found = cache.get(case.pod.key.namespace, use.name)
        if found is not None:
            yield found


def _volumes(case: RejectionCase) -> Iterator[PersistentVolume]:
    """Yield the volumes bound to the pod's claims."""
    for claim in _claims(case):
        found = case.listed(PersistentVolume).get("", claim.spec.volume_name) if claim.spec.volume_name else None
        if found is not None:
            yield found


def advise_volume_binding(case: RejectionCase) -> str:
    """Return the volumes and claims that prevent the pod from running on the node."""
    told = [
        f"volume {one.metadata.name} can't be reached from here"
        for one in _volumes(case)
        if not is_volume_reachable(one, case.node)
    ]
    told += [_provision(case, claim) for claim in _claims(case) if not is_claim_bound(claim)]
    gone = [one for one in _claims(case) if is_claim_bound(one) and not case.listed(PersistentVolume).get("", _of(one))]
    told += [f"claim {one.metadata.name} is bound to volume {_of(one)}, which is gone" for one in gone]
    return "; ".join(one for one in told if one)


def _of(claim: PersistentVolumeClaim) -> str:
    return claim.spec.volume_name


def _provision(case: RejectionCase, claim: PersistentVolumeClaim) -> str:
    """Return what an unbound claim needs."""
    name, size = class_of_claim(claim), requested_size(claim)
    needs = f"claim {claim.metadata.name} needs a free volume of class {name} with {size} that is reached from here"
    found = case.listed(StorageClass).get("", name)
    if found is None or found.provisioner in ("", "kubernetes.io/no-provisioner"):
        return needs
    if not matches_topology_terms(found.allowed_topologies, case.node):
        return f"{needs}; the class' allowedTopologies make none here"
    if "enough free storage" in case.refusal.message:
        return f"{needs}; {found.provisioner} has no room for one here"
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
    for one in case.others:
        if any(is_volume_conflict(disk, one.pod) for disk in disks):
            return f"{one.key} uses the same disk here"
    alone = {claim.metadata.name for claim in _claims(case) if "ReadWriteOncePod" in claim.spec.access_modes}
    for pods in case.cluster.pods.values():
        for one in pods.values():
            shared = alone & {use.name for use in claim_uses(one.pod)}
            if shared and one.key.namespace == case.pod.key.namespace:
                return f"{one.key} uses the claim {min(shared)}: end it"
    return ""


def advise_volume_limits(case: RejectionCase) -> str:
    """Return the missing CSI drivers, or their attach limits."""
    found = case.listed(CSINode).get("", case.node.metadata.name)
    drivers = {one.name: one.allocatable for one in found.spec.drivers or ()} if found is not None else {}
    wanted = sorted(set(case.state.volumes.values()))
    missing = [name for name in wanted if name not in drivers]
    if missing:
        return f"install {', '.join(missing)} on it"
    limits = [(name, room.count) for name in wanted if (room := drivers[name]) is not None]
    return "; ".join(f"{name} attaches {count} volumes at most: end a pod that has some" for name, count in limits)


def advise_devices(case: RejectionCase) -> str:
    """Return the claims that lack devices, with the device classes."""
    if case.state.left_over is not None:
        return f"claim {case.state.left_over.metadata.name} of an earlier attempt is in the way: it is deleted"
    if "not available" in case.refusal.message:
        elsewhere = "has its devices elsewhere, or they do not become ready"
        return "; ".join(f"claim {one.metadata.name} {elsewhere}" for one in case.state.allocated)
    if case.refusal.code is Code.ERROR:
        return ""
    unused = DeviceAllocator(
        DeviceInventory(case.listed(ResourceSlice).list()),
        lambda name: case.listed(DeviceClass).get("", name),
        AllocatedState(),
    )
    claims = [*case.state.needy, *(one.claims[-1] for one in case.state.made.values())]
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
    return f"{name}: it can't reach enough devices of {classes}"


def _classes_of(claim: ResourceClaim) -> list[str]:
    requests = claim.spec.devices.requests or ()
    asked = [one.exactly for one in requests if one.exactly is not None]
    names = [one.device_class_name for one in asked]
    names += [one.device_class_name for each in requests for one in each.first_available]
    return sorted(set(names))


def advise_before_nodes(case_plugin: str, message: str) -> str:
    """Return advice for a rejection that does not concern nodes."""
    if "not found" in message or "not created yet" in message:
        return "create it; or wait for whoever does"
    if "unbound immediate" in message:
        return "its claims have no volume yet: kubectl describe pvc tells why"
    if "does not exist" in message:
        return "create the device class, or ask for another"
    if "being deleted" in message:
        return "make it anew when it is gone"
    if "in use" in message:
        return "end a pod that uses it"
    return _BEFORE.get(case_plugin, "")


_BEFORE: Final[Mapping[str, str]] = {
    "SchedulingGates": "remove the pod's scheduling gates",
    "NodeAffinity": "its terms name nodes that exclude each other",
    "DefaultPreemption": "pods of lower priority are being ended for it: wait",
    "DynamicResources": "wait for its claims, or see what is said of them: kubectl describe resourceclaim",
}


CLAIM_REMEDIES: Final[Mapping[str, Remedy]] = {
    "DynamicResources": advise_devices,
    "NodeVolumeLimits": advise_volume_limits,
    "VolumeBinding": advise_volume_binding,
    "VolumeRestrictions": advise_volume_restrictions,
    "VolumeZone": advise_volume_zone,
}
