# SPDX-License-Identifier: Apache-2.0
"""Splits the replica sets of a deployment into the new one and the old ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet
from kubeloop.api.generated.core_v1 import PodTemplateSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta

HASH_LABEL: Final = "pod-template-hash"

replace = msgspec.structs.replace


class Scaling(NamedTuple):
    """A replica set and its desired size."""

    replica_set: ReplicaSet
    replicas: int


@dataclass(frozen=True, slots=True)
class ReplicaSets:
    """All replica sets of a deployment."""

    new: ReplicaSet | None  # of the current template
    old: tuple[ReplicaSet, ...]  # of former ones, oldest first

    @property
    def all(self) -> tuple[ReplicaSet, ...]:
        """All replica sets, the new one last."""
        return self.old if self.new is None else (*self.old, self.new)

    @property
    def active(self) -> tuple[ReplicaSet, ...]:
        """Replica sets with a desired size above zero."""
        return tuple(one for one in self.all if replicas_of(one) > 0)

    @property
    def active_old(self) -> tuple[ReplicaSet, ...]:
        """Old replica sets with a desired size above zero."""
        return tuple(one for one in self.old if replicas_of(one) > 0)

    def replace_member(self, changed: ReplicaSet) -> ReplicaSets:
        """Return a copy in which one replica set is replaced by its written form."""
        uid = changed.metadata.uid
        if self.new is not None and self.new.metadata.uid == uid:
            return ReplicaSets(changed, self.old)
        return ReplicaSets(self.new, tuple(changed if one.metadata.uid == uid else one for one in self.old))


def split_replica_sets(deployment: Deployment, members: Iterable[ReplicaSet]) -> ReplicaSets:
    """Split the replica sets into new and old; of several with the current template the oldest is the new one."""
    template = deployment.spec.template
    by_age = sorted(members, key=age_rank)
    new = next((one for one in by_age if equal_ignore_hash(one.spec.template, template)), None)
    return ReplicaSets(new, tuple(one for one in by_age if one is not new))


def age_rank(replica_set: ReplicaSet) -> tuple[str, str]:
    """Return a sort key that puts the oldest first; ties are broken by name."""
    meta = replica_set.metadata
    return meta.creation_timestamp or "", meta.name


def equal_ignore_hash(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Return True if two templates are equal apart from the pod-template-hash label."""
    if one.spec != other.spec:
        return False
    return _without_hash(one.metadata) == _without_hash(other.metadata)


def _without_hash(meta: ObjectMeta) -> ObjectMeta:
    return replace(meta, labels=without_hash(meta.labels)) if HASH_LABEL in meta.labels else meta


def without_hash(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels without pod-template-hash."""
    return {key: value for key, value in labels.items() if key != HASH_LABEL}


def replicas_of(replica_set: ReplicaSet) -> int:
    """Return the desired number of pods of a replica set."""
    replicas = replica_set.spec.replicas
    return 1 if replicas is None else replicas


def total_replicas(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the sum of the desired sizes."""
    return sum(map(replicas_of, replica_sets))


def desired_replicas(deployment: Deployment) -> int:
    """Return the desired number of pods of a deployment."""
    replicas = deployment.spec.replicas
    return 1 if replicas is None else replicas
