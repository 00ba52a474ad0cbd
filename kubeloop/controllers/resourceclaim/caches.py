# SPDX-License-Identifier: Apache-2.0
"""Informers of pods, claims and templates, with the created claims that no event has shown yet."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.controllers.resourceclaim.policy import ANNOTATION, claim_names, owning_pod, template_names
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import depends_on

PODS_BY_CLAIM = "resourceclaim: claim"
PODS_BY_TEMPLATE = "resourceclaim: template"
CLAIMS_BY_POD = "resourceclaim: owning pod"
MAX_DELETED_PODS = 500  # number of deleted pods to remember


@depends_on(attrgetter("spec.resource_claims", "status.resource_claim_statuses"))
def claims_used(pod: Pod) -> tuple[str, ...]:
    """Index a pod by its claims."""
    if not pod.spec.resource_claims:
        return ()
    return tuple(f"{pod.metadata.namespace}/{name}" for name in claim_names(pod))


@depends_on(attrgetter("spec.resource_claims"))
def templates_used(pod: Pod) -> tuple[str, ...]:
    """Index a pod by its templates."""
    if not pod.spec.resource_claims:
        return ()
    return tuple(f"{pod.metadata.namespace}/{name}" for name in template_names(pod))


def owner_uid(claim: ResourceClaim) -> tuple[str, ...]:
    """Index a claim by the UID of the pod that it was created for."""
    owner = owning_pod(claim)
    return () if owner is None else (owner.uid,)


@dataclass(frozen=True, slots=True)
class ClaimInformers:
    """Informers of the controller."""

    pods: Informer
    claims: Informer
    templates: Informer

    def add_indexers(self) -> None:
        """Add the indexes that the controller needs."""
        self.pods.add_indexer(PODS_BY_CLAIM, claims_used)
        self.pods.add_indexer(PODS_BY_TEMPLATE, templates_used)
        self.claims.add_indexer(CLAIMS_BY_POD, owner_uid)


class ClaimCaches:
    """Informers combined with created claims and recent deletions."""

    def __init__(self, informed: ClaimInformers) -> None:
        self.informers = informed
        self.claims = AssumeCache(informed.claims)  # an early resync of the pod must not create another claim
        self._deleted: dict[str, None] = {}  # UIDs of pods, in the order of their deletion

    def find_generated(self, pod: Pod, wanted: str) -> ResourceClaim | None:
        """Return the claim that was created for a pod's entry of this name."""
        mine: list[ResourceClaim] = self.claims.by_index(CLAIMS_BY_POD, pod.metadata.uid)
        return next((one for one in mine if (one.metadata.annotations or {}).get(ANNOTATION) == wanted), None)

    def record_deleted_pod(self, pod: Pod) -> None:
        """Record a deleted pod."""
        self._deleted[pod.metadata.uid] = None
        if len(self._deleted) > MAX_DELETED_PODS:
            del self._deleted[next(iter(self._deleted))]

    def is_deleted_pod(self, uid: str) -> bool:
        """Return True if the pod is known to be deleted."""
        return uid in self._deleted
