# SPDX-License-Identifier: Apache-2.0
"""Validation of new pods, and of the few changes that an existing pod allows."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import Affinity, Container, Pod, PodSpec
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid
from kubeloop.api.meta.name_rules import range_message
from kubeloop.api.strategy.equality import is_semantically_equal
from kubeloop.api.validation.pods.annotations import (
    validate_annotation_changes,
    validate_pod_annotations,
    validate_profiles_match,
)
from kubeloop.api.validation.pods.containers import resize
from kubeloop.api.validation.pods.containers.containers import validate_image_text
from kubeloop.api.validation.pods.gated_pods import validate_affinity_additions, validate_selector_additions
from kubeloop.api.validation.pods.scheduling import validate_tolerations
from kubeloop.api.validation.pods.spec import MIRROR_POD_ANNOTATION, validate_pod_spec
from kubeloop.api.validation.pods.status import validate_pod_status_update
from kubeloop.api.validation.shared.diff import difference
from kubeloop.api.validation.shared.objectmeta import METADATA
from kubeloop.api.validation.shared.rules import ValidationRules

_SPEC: Final = FieldPath("spec")
_ANNOTATIONS: Final = METADATA.child("annotations")
_MAX_INT32: Final = 2**31 - 1
_FIXED_SPEC: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _validate_pod(pod: Pod) -> FieldErrors:
    """Validate a pod without its metadata, on create and on update."""
    spec = pod.spec
    errors = validate_pod_annotations(pod.metadata.annotations, spec, _ANNOTATIONS)
    errors += validate_pod_spec(spec, _SPEC, pod.metadata)
    if not spec.service_account_name and spec.volumes:
        errors += _validate_no_tokens(spec)
    for index, container in enumerate(spec.containers or ()):
        if container.image != container.image.strip():
            errors += validate_image_text(container, _SPEC.child("containers").index(index))
    for index, container in enumerate(spec.init_containers):
        errors += validate_image_text(container, _SPEC.child("initContainers").index(index))
    return errors


def _validate_no_tokens(spec: PodSpec) -> FieldErrors:
    """Validate that a pod without a service account has no token volumes."""
    errors: FieldErrors = []
    for index, volume in enumerate(spec.volumes):
        sources = volume.projected.sources if volume.projected is not None else ()
        for number, source in enumerate(sources or ()):
            if source.service_account_token is not None:
                at = _SPEC.child("volumes").index(index).child("projected", "sources").index(number)
                detail = "must not be specified when serviceAccountName is not set"
                errors.append(forbidden(at.child("serviceAccountToken"), detail))
    return errors


def _validate_new(pod: Pod) -> FieldErrors:
    errors = _validate_pod(pod)
    if pod.spec.ephemeral_containers:
        errors.append(forbidden(_SPEC.child("ephemeralContainers"), "cannot be set on create"))
    if pod.spec.node_name and pod.spec.scheduling_gates:
        errors.append(forbidden(_SPEC.child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
    if pod.metadata.annotations:
        errors += validate_profiles_match(pod.metadata, pod.spec, _SPEC)
    if pod.spec.eviction_responders:
        from kubeloop.api.validation.lifecycle.pod_responders import validate_eviction_responders

        errors += validate_eviction_responders(pod.spec, _SPEC)
    return errors


def _validate_update(new: Pod, old: Pod) -> FieldErrors:
    if new.spec == old.spec:  # the stored spec was valid
        if new.metadata.annotations == old.metadata.annotations:
            return []
        errors = validate_pod_annotations(new.metadata.annotations, new.spec, _ANNOTATIONS)
        return errors + validate_annotation_changes(new, old, _ANNOTATIONS)
    errors = _validate_pod(new) + validate_annotation_changes(new, old, _ANNOTATIONS)
    for name, after, before in (
        ("containers", new.spec.containers or (), old.spec.containers or ()),
        ("initContainers", new.spec.init_containers, old.spec.init_containers),
    ):
        if len(after) != len(before):
            return [*errors, forbidden(_SPEC.child(name), "pod updates may not add or remove containers")]
    wrong, stop = _validate_deadline(new.spec.active_deadline_seconds, old.spec.active_deadline_seconds)
    errors += wrong
    if stop:
        return errors
    errors += _validate_added_tolerations(new, old)
    errors += _validate_removed_gates(new, old)
    if new.spec != old.spec:
        errors += _validate_fixed_spec(new.spec, old.spec)
    return errors


def _validate_deadline(new: int | None, old: int | None) -> tuple[FieldErrors, bool]:
    """Validate that a deadline is only added or shortened; also returns True if no further checks are needed."""
    path = _SPEC.child("activeDeadlineSeconds")
    if new is None:
        detail = "must not update from a positive integer to nil value"
        return ([] if old is None else [invalid(path, None, detail)]), False
    if not 0 <= new <= _MAX_INT32:
        return [invalid(path, new, range_message(0, _MAX_INT32))], True
    if old is not None and old < new:
        return [invalid(path, new, "must be less than or equal to previous value")], True
    return [], False


def _validate_added_tolerations(new: Pod, old: Pod) -> FieldErrors:
    path = _SPEC.child("tolerations")
    kept = {replace(one, toleration_seconds=None) for one in new.spec.tolerations}
    if any(replace(one, toleration_seconds=None) not in kept for one in old.spec.tolerations):
        return [forbidden(path, "existing toleration can not be modified except its tolerationSeconds")]
    return validate_tolerations(new.spec.tolerations, path)


def _validate_removed_gates(new: Pod, old: Pod) -> FieldErrors:
    known = {gate.name for gate in old.spec.scheduling_gates}
    added = {gate.name: index for index, gate in enumerate(new.spec.scheduling_gates) if gate.name not in known}
    path = _SPEC.child("schedulingGates")
    return [
        forbidden(path.index(index).child("name"), f"only deletion is allowed, but found new scheduling gate '{name}'")
        for name, index in added.items()
    ]


def _validate_fixed_spec(new: PodSpec, old: PodSpec) -> FieldErrors:
    """Validate that all fields are unchanged except the few that were checked separately."""
    errors: FieldErrors = []
    munged = replace(
        new,
        containers=_with_old_images(new.containers or (), old.containers or ()),
        init_containers=_with_old_images(new.init_containers, old.init_containers),
        active_deadline_seconds=old.active_deadline_seconds,
        scheduling_gates=old.scheduling_gates,
        tolerations=old.tolerations,
    )
    grace = old.termination_grace_period_seconds
    if grace is not None and grace < 0 and munged.termination_grace_period_seconds == 1:
        munged = replace(munged, termination_grace_period_seconds=grace)
    if old.scheduling_gates:
        errors += validate_selector_additions(new.node_selector, old.node_selector, _SPEC.child("nodeSelector"))
        errors += validate_affinity_additions(new.affinity, old.affinity, _SPEC.child("affinity", "nodeAffinity"))
        munged = replace(munged, node_selector=old.node_selector, affinity=_with_old_nodes(new.affinity, old.affinity))
    if not is_semantically_equal(munged, old):
        errors.append(forbidden(_SPEC, f"{_FIXED_SPEC}\n{difference(old, munged)}"))
    return errors


def _with_old_images(new: tuple[Container, ...], old: tuple[Container, ...]) -> tuple[Container, ...]:
    return tuple(replace(after, image=before.image) for after, before in zip(new, old, strict=True))


def _with_old_nodes(new: Affinity | None, old: Affinity | None) -> Affinity | None:
    """Return the new affinity with the old node affinity: a gated pod may change only that."""
    nodes = old.node_affinity if old is not None else None
    if new is None:
        return old if nodes is None or old is None else Affinity(node_affinity=nodes)
    if old is None and new.pod_affinity is None and new.pod_anti_affinity is None:
        return None
    return replace(new, node_affinity=nodes)


def _validate_ephemeral_update(new: Pod, old: Pod) -> FieldErrors:
    if MIRROR_POD_ANNOTATION in old.metadata.annotations:
        return [forbidden(FieldPath(""), "static pods do not support ephemeral containers")]
    errors = _validate_pod(new) + validate_annotation_changes(new, old, _ANNOTATIONS)
    path = _SPEC.child("ephemeralContainers")
    present = {container.name: container for container in new.spec.ephemeral_containers}
    for before in old.spec.ephemeral_containers:
        after = present.get(before.name)
        if after is None:
            errors.append(forbidden(path, f'existing ephemeral containers "{before.name}" may not be removed\n'))
        elif not is_semantically_equal(after, before):
            detail = f'existing ephemeral containers "{before.name}" may not be changed\n{difference(before, after)}'
            errors.append(forbidden(path, detail))
    return errors


def _validate_resize_update(new: Pod, old: Pod) -> FieldErrors:
    if refused := resize.resize_error(old):
        return refused
    errors = _validate_pod(new)
    return errors + resize.validate_resize(new, old, bool(errors))


def _validate_status_update(new: Pod, old: Pod) -> FieldErrors:
    return validate_annotation_changes(new, old, _ANNOTATIONS) + validate_pod_status_update(new, old)


POD = ValidationRules(
    _validate_new,
    _validate_update,
    {
        "status": _validate_status_update,
        "ephemeralcontainers": _validate_ephemeral_update,
        "resize": _validate_resize_update,
    },
)
