"""Who a StatefulSet's pods are: their ordinals, names and labels, and the pod that an ordinal stands for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import StatefulSet
from kubeloop.api.generated.core_v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodTemplateSpec,
    Volume,
)
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.shared.ownership.controller_revisions import POD_REVISION_LABEL
from kubeloop.controllers.shared.pods.pod_control import pod_from_template

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
NO_ORDINAL: Final = -1

_SETS: Final = resource_of_class(StatefulSet)
_POD_NAME: Final = re.compile("(.*)-([0-9]+)")
_LARGEST_ORDINAL: Final = 2**31 - 1


# Ordinals.


def parent_and_ordinal(pod_name: str) -> tuple[str, int]:
    """The set that a pod's name speaks of, and its place there; an ordinal of -1 for a name that isn't a member's."""
    found = _POD_NAME.fullmatch(pod_name)
    if found is None:
        return "", NO_ORDINAL
    digits = found[2].lstrip("0")
    ordinal = int(digits or "0") if len(digits) <= len(str(_LARGEST_ORDINAL)) else _LARGEST_ORDINAL + 1
    return found[1], ordinal if ordinal <= _LARGEST_ORDINAL else NO_ORDINAL


def ordinal_of(pod: Pod) -> int:
    return parent_and_ordinal(pod.metadata.name)[1]


def ordinals_of(set: StatefulSet) -> range:
    """The ordinals that a set shall have."""
    start = set.spec.ordinals.start if set.spec.ordinals is not None else 0
    return range(start, start + replicas_of(set))


def replicas_of(set: StatefulSet) -> int:
    return 1 if set.spec.replicas is None else set.spec.replicas


def is_member(set: StatefulSet, pod: Pod) -> bool:
    """Whether a pod is called as one of the set's."""
    return parent_and_ordinal(pod.metadata.name)[0] == set.metadata.name


def pod_name(set: StatefulSet, ordinal: int) -> str:
    return f"{set.metadata.name}-{ordinal}"


def claim_name(set: StatefulSet, template: PersistentVolumeClaim, ordinal: int) -> str:
    return f"{template.metadata.name}-{set.metadata.name}-{ordinal}"


def revision_of(pod: Pod) -> str:
    """The name of the revision that a pod was made from; empty for one that was adopted."""
    return pod.metadata.labels.get(POD_REVISION_LABEL, "")


# The pod of an ordinal.


def new_pod(set: StatefulSet, template: PodTemplateSpec, ordinal: int, revision: str) -> Pod:
    """The pod with an ordinal, as a template describes it at a revision."""
    pod = pod_from_template(template, set, _SETS)
    name = pod_name(set, ordinal)
    labels = {**pod.metadata.labels, **identity_labels(set, ordinal), POD_REVISION_LABEL: revision}
    volumes = volumes_of(set, ordinal, pod.spec.volumes)
    return replace(
        pod,
        metadata=replace(pod.metadata, name=name, labels=labels),
        spec=replace(pod.spec, hostname=name, subdomain=set.spec.service_name, volumes=volumes),
    )


def identity_labels(set: StatefulSet, ordinal: int) -> dict[str, str]:
    return {POD_NAME_LABEL: pod_name(set, ordinal), POD_INDEX_LABEL: str(ordinal)}


def volumes_of(set: StatefulSet, ordinal: int, others: Sequence[Volume]) -> tuple[Volume, ...]:
    """A volume for each claim of the ordinal, then those of the template that no claim takes the place of."""
    claimed = {one.metadata.name: claim_name(set, one, ordinal) for one in set.spec.volume_claim_templates}
    own = tuple(_claim_volume(name, claim) for name, claim in claimed.items())
    return own + tuple(one for one in others if one.name not in claimed)


def _claim_volume(name: str, claim: str) -> Volume:
    return Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))


# What is wrong with a pod.


def has_identity(set: StatefulSet, pod: Pod) -> bool:
    """Whether a pod is called and labelled as a member of the set."""
    meta = pod.metadata
    parent, ordinal = parent_and_ordinal(meta.name)
    if ordinal == NO_ORDINAL or parent != set.metadata.name or meta.name != pod_name(set, ordinal):
        return False
    return meta.labels.get(POD_NAME_LABEL) == meta.name


def has_storage(set: StatefulSet, pod: Pod) -> bool:
    """Whether a pod mounts all claims of its ordinal."""
    ordinal = ordinal_of(pod)
    if ordinal == NO_ORDINAL:
        return False
    if not set.spec.volume_claim_templates:
        return True
    mounted = {one.name: one.persistent_volume_claim for one in pod.spec.volumes}
    return all(
        (source := mounted.get(one.metadata.name)) is not None and source.claim_name == claim_name(set, one, ordinal)
        for one in set.spec.volume_claim_templates
    )


def repair_patch(set: StatefulSet, pod: Pod) -> Mapping[str, Any] | None:
    """A strategic patch that gives a pod its identity and storage, as far as a server lets it; None if it has both."""
    ordinal = ordinal_of(pod)
    patch: dict[str, Any] = {"metadata": {"uid": pod.metadata.uid}}
    if not has_identity(set, pod):
        patch["metadata"]["labels"] = identity_labels(set, ordinal)
    if not has_storage(set, pod):
        patch["spec"] = {"volumes": volumes_of(set, ordinal, pod.spec.volumes)}
    return patch if len(patch) > 1 or len(patch["metadata"]) > 1 else None
