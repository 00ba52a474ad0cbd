# SPDX-License-Identifier: Apache-2.0
"""Resource claims of a pod: names, ownership, reservations, and the requests of its containers. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kubeloop.api.features.gates import Features
from kubeloop.api.generated.core_v1 import Container, Pod, PodResourceClaim
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.quota.amounts import amounts_of
from kubeloop.api.quota.resource_names import is_extended_resource

_SCHEDULING = "scheduling.k8s.io"


class PodClaimError(Exception):
    """Raised if a pod cannot use a claim now; the message is upstream's."""


def claim_name_of(pod: Pod, entry: PodResourceClaim) -> tuple[str | None, bool]:
    """Return the claim of an entry, None if it needs none, and whether it must belong to the pod.

    Raises `PodClaimError`.
    """
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name, False
    about = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if entry.resource_claim_template_name is None:
        raise PodClaimError(f'{about}, spec.resourceClaim "{entry.name}": none of the supported fields are set')
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name, True
    raise PodClaimError(f"{about}: ResourceClaim not created yet")


def iter_claim_names(pod: Pod, features: Features) -> Iterator[tuple[str, bool]]:
    """Yield the claims of a pod and whether each must belong to it; the one for extended resources is last.

    Raises `PodClaimError`.
    """
    for entry in pod.spec.resource_claims:
        name, must_be_owned = claim_name_of(pod, entry)
        if name is not None:
            yield name, must_be_owned
    extended = pod.status.extended_resource_claim_status
    if extended is not None and features.is_enabled("DRAExtendedResource"):
        yield extended.resource_claim_name, False


def check_claim(pod: Pod, claim: ResourceClaim, features: Features, *, must_be_owned: bool) -> None:
    """Check that a claim is for a pod and reserved for it. Raises `PodClaimError`."""
    group = ""
    if pod.spec.scheduling_group is not None and features.is_enabled("DRAWorkloadResourceClaims"):
        group = pod.spec.scheduling_group.pod_group_name or ""
    if must_be_owned:
        _check_owner(pod, claim, group)
    reserved = any(
        one.uid == pod.metadata.uid
        or (group and (one.api_group, one.resource, one.name) == (_SCHEDULING, "podgroups", group))
        for one in claim.status.reserved_for
    )
    if not reserved:
        pod_meta, meta = pod.metadata, claim.metadata
        raise PodClaimError(
            f"pod {pod_meta.name} ({pod_meta.uid}) is not allowed to use ResourceClaim {meta.name} ({meta.uid})"
        )


def _check_owner(pod: Pod, claim: ResourceClaim, group: str) -> None:
    owner, meta = controller_of(claim.metadata.owner_references), claim.metadata
    if owner is not None and owner.uid == pod.metadata.uid:
        return
    is_group = group and owner is not None and (owner.kind, owner.name) == ("PodGroup", group)
    if is_group and owner is not None and owner.api_version.startswith(f"{_SCHEDULING}/"):
        return
    about = f"{meta.namespace}/{meta.name} was not created for Pod {pod.metadata.namespace}/{pod.metadata.name}"
    why = f"neither Pod nor PodGroup {group} is the owner" if group else "Pod is not owner"
    raise PodClaimError(f"ResourceClaim {about} ({why})")


def requests_of_container(pod: Pod, container: Container, features: Features) -> dict[str, list[str]]:
    """Return the requests of a container by claim; an empty request means all devices. Raises `PodClaimError`."""
    found: dict[str, list[str]] = {}
    for entry in pod.spec.resource_claims:
        requests = [one.request for one in container.resources.claims if one.name == entry.name]
        name = claim_name_of(pod, entry)[0] if requests else None
        if name is not None:
            found.setdefault(name, []).extend(requests)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and features.is_enabled("DRAExtendedResource"):
        amounts = amounts_of(container.resources.requests)
        resources = {name for name, amount in amounts.items() if amount and is_extended_resource(name)}
        for one in extended.request_mappings or ():
            if one.container_name == container.name and one.resource_name in resources:
                found.setdefault(extended.resource_claim_name, []).append(one.request_name)
    return found
