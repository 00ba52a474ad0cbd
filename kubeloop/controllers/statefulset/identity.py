# SPDX-License-Identifier: Apache-2.0
"""Identity of a StatefulSet's pods: ordinals, names, labels, and the pod of an ordinal. Pure."""

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


def parse_pod_name(pod_name: str) -> tuple[str, int]:
    """Split a pod's name into the set's name and the ordinal; -1 for a name that is not a member's."""
    found = _POD_NAME.fullmatch(pod_name)
    if found is None:
        return "", NO_ORDINAL
    digits = found[2].lstrip("0")
    ordinal = int(digits or "0") if len(digits) <= len(str(_LARGEST_ORDINAL)) else _LARGEST_ORDINAL + 1
    return found[1], ordinal if ordinal <= _LARGEST_ORDINAL else NO_ORDINAL


def ordinal_of(pod: Pod) -> int:
    """Return the ordinal of a pod, or -1."""
    return parse_pod_name(pod.metadata.name)[1]


def ordinals_of(set: StatefulSet) -> range:
    """Return the desired ordinals of a set."""
    start = set.spec.ordinals.start if set.spec.ordinals is not None else 0
    return range(start, start + replicas_of(set))


def replicas_of(set: StatefulSet) -> int:
    """Return the desired number of replicas."""
    return 1 if set.spec.replicas is None else set.spec.replicas


def is_member(set: StatefulSet, pod: Pod) -> bool:
    """Return True if the pod's name is that of a member of the set."""
    return parse_pod_name(pod.metadata.name)[0] == set.metadata.name


def pod_name(set: StatefulSet, ordinal: int) -> str:
    """Build the name of the pod with an ordinal."""
    return f"{set.metadata.name}-{ordinal}"


def claim_name(set: StatefulSet, template: PersistentVolumeClaim, ordinal: int) -> str:
    """Build the name of a claim from its template, the set and the ordinal."""
    return f"{template.metadata.name}-{set.metadata.name}-{ordinal}"


def revision_of(pod: Pod) -> str:
    """Return the revision that a pod was created from; empty for an adopted pod."""
    return pod.metadata.labels.get(POD_REVISION_LABEL, "")


# The pod of an ordinal.


def new_pod(set: StatefulSet, template: PodTemplateSpec, ordinal: int, revision: str) -> Pod:
    """Build the pod of an ordinal from a template and its revision."""
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
    """Build the labels that identify the pod of an ordinal."""
    return {POD_NAME_LABEL: pod_name(set, ordinal), POD_INDEX_LABEL: str(ordinal)}


def volumes_of(set: StatefulSet, ordinal: int, others: Sequence[Volume]) -> tuple[Volume, ...]:
    """Build a volume for each claim of the ordinal, followed by the template's volumes that no claim replaces."""
    claimed = {one.metadata.name: claim_name(set, one, ordinal) for one in set.spec.volume_claim_templates}
    own = tuple(_claim_volume(name, claim) for name, claim in claimed.items())
    return own + tuple(one for one in others if one.name not in claimed)


def _claim_volume(name: str, claim: str) -> Volume:
    return Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))


# Repair of pods.


def identity_matches(set: StatefulSet, pod: Pod) -> bool:
    """Return True if the pod has the name and label of a member."""
    meta = pod.metadata
    parent, ordinal = parse_pod_name(meta.name)
    if ordinal == NO_ORDINAL or parent != set.metadata.name or meta.name != pod_name(set, ordinal):
        return False
    return meta.labels.get(POD_NAME_LABEL) == meta.name


def storage_matches(set: StatefulSet, pod: Pod) -> bool:
    """Return True if the pod mounts all claims of its ordinal."""
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
    """Build a strategic merge patch that restores identity and storage, as far as mutable; None if both are right."""
    ordinal = ordinal_of(pod)
    patch: dict[str, Any] = {"metadata": {"uid": pod.metadata.uid}}
    if not identity_matches(set, pod):
        patch["metadata"]["labels"] = identity_labels(set, ordinal)
    if not storage_matches(set, pod):
        patch["spec"] = {"volumes": volumes_of(set, ordinal, pod.spec.volumes)}
    return patch if len(patch) > 1 or len(patch["metadata"]) > 1 else None
