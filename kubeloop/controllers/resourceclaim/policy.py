# SPDX-License-Identifier: Apache-2.0
"""Resolves the claims of a pod, and builds claims from templates. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Pod, PodResourceClaim
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.generated.resource_v1 import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.pods.pod import is_terminal

ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
RESERVED_FOR_MAX_SIZE: Final = 256
_LONGEST_BASE: Final = 57  # leaves room for five random characters in a name of 63


class ClaimNotCreated(Exception):
    """Raised if a claim from a template does not exist or is not in the pod's status yet."""


class UnknownClaimSource(Exception):
    """Raised for a pod of a newer API whose claim source is unknown."""

    def __init__(self, name: str) -> None:
        super().__init__(f"pod claim {name}: none of the supported fields are set")


class ResolvedClaim(NamedTuple):
    """Name of a claim that a pod uses; None if it turned out not to be needed."""

    name: str | None
    is_generated: bool  # True if it must belong to the pod


def claim_of(pod: Pod, wanted: PodResourceClaim) -> ResolvedClaim:
    """Resolve a pod's entry to the name of its claim; raises NotMadeYet or UnknownSource."""
    if wanted.resource_claim_name is not None:
        return ResolvedClaim(wanted.resource_claim_name, False)
    if wanted.resource_claim_template_name is None:
        raise UnknownClaimSource(wanted.name)
    for status in pod.status.resource_claim_statuses:
        if status.name == wanted.name:
            return ResolvedClaim(status.resource_claim_name, True)
    raise ClaimNotCreated("ResourceClaim not created yet")


def claim_names(pod: Pod) -> tuple[str, ...]:
    """Return all claims that a pod is known to use, except that for extended resources."""
    found = []
    for wanted in pod.spec.resource_claims:
        try:
            name = claim_of(pod, wanted).name
        except (ClaimNotCreated, UnknownClaimSource):
            continue
        if name:
            found.append(name)
    return tuple(dict.fromkeys(found))


def extended_claim_name(pod: Pod) -> str:
    """Return the claim that the scheduler created for a pod's extended resources, if any."""
    status = pod.status.extended_resource_claim_status
    return "" if status is None else status.resource_claim_name


def template_names(pod: Pod) -> tuple[str, ...]:
    """Return the templates that a pod uses."""
    names = (one.resource_claim_template_name for one in pod.spec.resource_claims)
    return tuple(dict.fromkeys(name for name in names if name is not None))


def is_pod_done(pod: Pod) -> bool:
    """Return True if the pod does not run and never will."""
    return is_terminal(pod) or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def owning_pod(claim: ResourceClaim) -> OwnerReference | None:
    """Return the pod that a claim was created for, or None."""
    owner = controller_of(claim.metadata.owner_references)
    return owner if owner is not None and owner.kind == "Pod" and owner.api_version == "v1" else None


def belongs_to(claim: ResourceClaim, pod: Pod) -> bool:
    """Return True if the claim was created for the pod."""
    owner = controller_of(claim.metadata.owner_references)
    return owner is not None and owner.uid == pod.metadata.uid


def lacks_reservation(claim: ResourceClaim, pod: Pod) -> bool:
    """Return True if an allocated claim is not reserved for the pod but could be."""
    reserved = claim.status.reserved_for
    if claim.status.allocation is None or len(reserved) >= RESERVED_FOR_MAX_SIZE:
        return False
    return not any(one.uid == pod.metadata.uid for one in reserved)


def consumer_of(pod: Pod) -> ResourceClaimConsumerReference:
    """Build the consumer reference of a pod."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def claim_from_template(pod: Pod, name: str, template: ResourceClaimTemplate) -> ResourceClaim:
    """Build the claim for a pod's entry of this name."""
    meta, owner = template.spec.metadata, pod.metadata
    reference = OwnerReference(api_version="v1", kind="Pod", name=owner.name, uid=owner.uid, controller=True)
    return ResourceClaim(
        metadata=ObjectMeta(
            generate_name=name_base(owner.name, name),
            namespace=owner.namespace,
            owner_references=(reference,),
            annotations={**(meta.annotations or {}), ANNOTATION: name},
            labels=meta.labels,
        ),
        spec=template.spec.spec,
    )


def name_base(pod: str, claim: str) -> str:
    """Return the prefix of a generated name; long names are truncated in proportion."""
    whole = f"{pod}-{claim}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    base = pod[: len(pod) * _LONGEST_BASE // len(whole)] + "-"
    return base + claim[: len(claim) * _LONGEST_BASE // len(whole)]


def has_admin_access(claim: ResourceClaim) -> bool:
    """Return True if the claim requests admin access."""
    return any(one.exactly is not None and one.exactly.admin_access for one in claim.spec.devices.requests or ())
