# SPDX-License-Identifier: Apache-2.0
"""Owner references of a pod's claims by the retention policy, which decide over garbage collection. Pure.

              when scaled down: Retain              when scaled down: Delete
set deleted:
Retain      no owner                              the pod, once it is condemned
Delete      the set                               the set; the pod instead, once it is condemned
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import StatefulSet
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.owner_references import is_owned_by
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.statefulset.identity import claim_name, ordinal_of, ordinals_of
from kubeloop.runtime.objects.owner_references import controller_reference

RETAIN: Final = "Retain"
DELETE: Final = "Delete"

_SETS: Final = resource_of_class(StatefulSet)
_PODS: Final = resource_of_class(Pod)


def claims_of(set: StatefulSet, pod: Pod) -> Iterator[PersistentVolumeClaim]:
    """Build the claims of a pod with their initial owners."""
    ordinal = ordinal_of(pod)
    owners = (controller_reference(set, _SETS),) if _set_owns(set, pod) else ()
    selected = set.spec.selector.match_labels if set.spec.selector is not None else {}
    for template in set.spec.volume_claim_templates:
        said = template.metadata
        metadata = replace(
            said,
            name=claim_name(set, template, ordinal),
            namespace=set.metadata.namespace,
            labels={**said.labels, **selected},
            owner_references=said.owner_references + owners,
        )
        yield replace(template, metadata=metadata)


def claim_names_of(set: StatefulSet, pod: Pod) -> list[str]:
    """Return the names of a pod's claims."""
    ordinal = ordinal_of(pod)
    return [claim_name(set, template, ordinal) for template in set.spec.volume_claim_templates]


def is_claim_of(set: StatefulSet, name: str) -> bool:
    """Return True if a claim has the name of one of the set's claims, with any ordinal."""
    stem, _, ordinal = name.rpartition("-")
    return ordinal.isdigit() and any(
        stem == f"{one.metadata.name}-{set.metadata.name}" for one in set.spec.volume_claim_templates
    )


# Owners of claims.


def policy_of(set: StatefulSet) -> tuple[str, str]:
    """Return the policy for deletion and for scale-down; an unknown policy counts as Retain."""
    policy = set.spec.persistent_volume_claim_retention_policy
    said = (policy.when_deleted, policy.when_scaled) if policy is not None else (RETAIN, RETAIN)
    return said if all(one in (RETAIN, DELETE) for one in said) else (RETAIN, RETAIN)


def _is_condemned(set: StatefulSet, pod: Pod) -> bool:
    return ordinal_of(pod) not in ordinals_of(set)


def _set_owns(set: StatefulSet, pod: Pod) -> bool:
    when_deleted, when_scaled = policy_of(set)
    return when_deleted == DELETE and not (when_scaled == DELETE and _is_condemned(set, pod))


def _pod_owns(set: StatefulSet, pod: Pod) -> bool:
    return policy_of(set)[1] == DELETE and _is_condemned(set, pod)


def is_claim_owner_up_to_date(claim: PersistentVolumeClaim, set: StatefulSet, pod: Pod) -> bool:
    """Return True if a claim's owners follow the policy, or if its state must not be changed."""
    references = claim.metadata.owner_references
    if has_stale_owner_ref(claim, set.metadata, _SETS) or has_stale_owner_ref(claim, pod.metadata, _PODS):
        return True  # left to the garbage collector
    by_set, by_pod = is_owned_by(references, set.metadata.uid), is_owned_by(references, pod.metadata.uid)
    if has_unexpected_controller(claim, set, pod):
        return not by_set and not by_pod
    ours = (set.metadata.uid, pod.metadata.uid)
    if any(one.uid in ours and not one.controller for one in references):
        return False
    return by_set is _set_owns(set, pod) and by_pod is _pod_owns(set, pod)


def updated_claim_owners(claim: PersistentVolumeClaim, set: StatefulSet, pod: Pod) -> tuple[OwnerReference, ...]:
    """Return the owners that a claim must have; others' are kept, and another controller excludes ours."""
    others = tuple(
        one
        for one in claim.metadata.owner_references
        if not _refers_to(one, set.metadata, _SETS) and not _refers_to(one, pod.metadata, _PODS)
    )
    if has_unexpected_controller(claim, set, pod):
        return others
    if _set_owns(set, pod):
        return (*others, controller_reference(set, _SETS))
    if _pod_owns(set, pod):
        return (*others, controller_reference(pod, _PODS))
    return others


def has_unexpected_controller(claim: PersistentVolumeClaim, set: StatefulSet, pod: Pod) -> bool:
    """Return True if the policy deletes and another object controls the claim, including namesakes."""
    if DELETE not in policy_of(set):
        return False
    return any(_is_other_manager(one, set.metadata, pod.metadata) for one in claim.metadata.owner_references)


def _is_other_manager(reference: OwnerReference, set: ObjectMeta, pod: ObjectMeta) -> bool:
    if _refers_to(reference, set, _SETS):
        return reference.uid != set.uid
    if _refers_to(reference, pod, _PODS):
        return reference.uid != pod.uid
    return bool(reference.controller)


def is_stale_claim(claim: PersistentVolumeClaim, set: StatefulSet, pod: Pod) -> bool:
    """Return True if a claim is deleted with an earlier pod of the same name, so that a new pod must wait."""
    return policy_of(set)[1] == DELETE and has_stale_owner_ref(claim, pod.metadata, _PODS)


def has_stale_owner_ref(claim: PersistentVolumeClaim, owner: ObjectMeta, resource: Resource) -> bool:
    """Return True if the claim's owner has this name but another UID."""
    named = (one for one in claim.metadata.owner_references if _refers_to(one, owner, resource))
    first = next(named, None)
    return first is not None and first.uid != owner.uid


def _refers_to(reference: OwnerReference, owner: ObjectMeta, resource: Resource) -> bool:
    return (reference.api_version, reference.kind, reference.name) == (
        resource.group_version,
        resource.kind,
        owner.name,
    )
