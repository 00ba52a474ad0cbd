"""Pods, claims and templates as loops see them, the claims made here included that no watch has told of yet."""

from __future__ import annotations

from dataclasses import dataclass

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.controllers.resourceclaim.policy import ANNOTATION, claim_names, owning_pod, template_names
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of

PODS_BY_CLAIM = "resourceclaim: claim"
PODS_BY_TEMPLATE = "resourceclaim: template"
CLAIMS_BY_POD = "resourceclaim: owning pod"
MOST_DELETED = 500  # pods that are remembered to be gone


def claims_used(pod: Pod) -> tuple[str, ...]:
    return tuple(f"{pod.metadata.namespace}/{name}" for name in claim_names(pod))


def templates_used(pod: Pod) -> tuple[str, ...]:
    return tuple(f"{pod.metadata.namespace}/{name}" for name in template_names(pod))


def owner_uid(claim: ResourceClaim) -> tuple[str, ...]:
    owner = owning_pod(claim)
    return () if owner is None else (owner.uid,)


@dataclass(frozen=True, slots=True)
class Informed:
    """The informers; made by whoever wires the loop."""

    pods: Informer
    claims: Informer
    templates: Informer

    def add_indexers(self) -> None:
        self.pods.add_indexer(PODS_BY_CLAIM, claims_used)
        self.pods.add_indexer(PODS_BY_TEMPLATE, templates_used)
        self.claims.add_indexer(CLAIMS_BY_POD, owner_uid)


class Caches:
    """Always true of `_fresh`: claims made here of which the informer has said nothing yet."""

    def __init__(self, informed: Informed) -> None:
        self.informed = informed
        self._fresh: dict[ObjectKey, ResourceClaim] = {}
        self._deleted: dict[str, None] = {}  # uids of pods, the longest gone first

    def note_made(self, claim: ResourceClaim) -> None:
        """Without this a pod that is looked at again too soon would get a second one."""
        if self.informed.claims.get(*key_of(claim)) is None:
            self._fresh[key_of(claim)] = claim

    def note_seen(self, claim: ResourceClaim) -> None:
        """The informer has told of a claim, be it only of its end."""
        self._fresh.pop(key_of(claim), None)

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        cached: ResourceClaim | None = self.informed.claims.get(namespace, name)
        return cached or self._fresh.get(ObjectKey(namespace, name))

    def made_for(self, pod: Pod, wanted: str) -> ResourceClaim | None:
        """The claim that was made for what a pod calls by this name."""
        mine: list[ResourceClaim] = list(self.informed.claims.by_index(CLAIMS_BY_POD, pod.metadata.uid))
        mine += [one for one in self._fresh.values() if owner_uid(one) == (pod.metadata.uid,)]
        return next((one for one in mine if (one.metadata.annotations or {}).get(ANNOTATION) == wanted), None)

    def note_gone(self, pod: Pod) -> None:
        self._deleted[pod.metadata.uid] = None
        if len(self._deleted) > MOST_DELETED:
            del self._deleted[next(iter(self._deleted))]

    def is_gone(self, uid: str) -> bool:
        """Whether a pod is known to have been there and to be no longer."""
        return uid in self._deleted
