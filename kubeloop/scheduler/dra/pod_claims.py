# SPDX-License-Identifier: Apache-2.0
"""Claims referenced by a pod, and their usability according to the caches. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.resource_v1 import DeviceClass, ResourceClaim
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.runtime.objects.keys import key_of

_MAX_RESERVED_FOR: Final = 256


class UnusableClaimError(Exception):
    """Raised if a pod must wait for its claims; the message is the reason."""


def pod_claims(pod: Pod, find: Callable[[str, str], ResourceClaim | None]) -> list[ResourceClaim]:
    """Return the claims of a pod in order. Raises `Unusable` if one is missing."""
    found: list[ResourceClaim] = []
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    for one in pod.spec.resource_claims:
        if one.resource_claim_name is None and one.name not in made:
            raise UnusableClaimError(f'pod "{key_of(pod)}": ResourceClaim not created yet')
        name = one.resource_claim_name or made.get(one.name)
        if name is None:  # the pod needs no claim for this entry
            continue
        claim = find(pod.metadata.namespace, name)
        if claim is None:
            raise UnusableClaimError(f'resourceclaim.resource.k8s.io "{name}" not found')
        if claim.metadata.deletion_timestamp is not None:
            raise UnusableClaimError(f'resourceclaim "{name}" is being deleted')
        if one.resource_claim_name is None and not _is_owned(claim, pod):
            why = f"ResourceClaim {key_of(claim)} was not created for Pod {key_of(pod)} (Pod is not owner)"
            raise UnusableClaimError(why)
        found.append(claim)
    return found


def _is_owned(claim: ResourceClaim, pod: Pod) -> bool:
    owner = controller_of(claim.metadata.owner_references)
    return owner is not None and owner.uid == pod.metadata.uid


def validate_claim(claim: ResourceClaim, pod: Pod, find: Callable[[str], DeviceClass | None]) -> None:
    """Raise `Unusable` if the pod cannot use the claim on any node."""
    if claim.status.allocation is not None:
        users = claim.status.reserved_for
        if len(users) >= _MAX_RESERVED_FOR and all(one.uid != pod.metadata.uid for one in users):
            raise UnusableClaimError("resourceclaim in use")
        return
    for request in claim.spec.devices.requests or ():
        asked = [(f"{request.name}/{one.name}", one.device_class_name) for one in request.first_available]
        if request.exactly is not None:
            asked = [(request.name, request.exactly.device_class_name)]
        if not asked:
            raise UnusableClaimError(f"resource claim {key_of(claim)}, request {request.name}: unknown request type")
        for name, wanted in asked:
            if find(wanted) is None:
                raise UnusableClaimError(f"request {name}: device class {wanted} does not exist")
