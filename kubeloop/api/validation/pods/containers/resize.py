# SPDX-License-Identifier: Apache-2.0
"""Validation of pod resize: only cpu and memory of its containers, or of the pod itself, may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid
from kubeloop.api.scalars.wire import Quantity
from kubeloop.api.strategy.equality import is_semantically_equal
from kubeloop.api.strategy.pods.qos import qos_class_of
from kubeloop.api.validation.pods.spec import MIRROR_POD_ANNOTATION

_SPEC: Final = FieldPath("spec")
_ONLY_CPU_AND_MEMORY: Final = "only cpu and memory resources are mutable"


def resize_error(old: Pod) -> FieldErrors:
    """Return the error for a pod that can't be resized at all."""
    if MIRROR_POD_ANNOTATION in old.metadata.annotations:
        return [forbidden(FieldPath(""), "static pods cannot be resized")]
    if old.spec.os is not None and old.spec.os.name == "windows":
        return [forbidden(FieldPath(""), "windows pods cannot be resized")]
    return []


def validate_resize(new: Pod, old: Pod, has_errors: bool) -> FieldErrors:
    """Validate that only cpu and memory changed; the rest is compared only if nothing else is wrong."""
    errors: FieldErrors = []
    if (old.status.qos_class or qos_class_of(old.spec)) != qos_class_of(new.spec):
        detail = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid(_SPEC, new.status.qos_class, detail))
    running = next((one for one in old.status.container_statuses if one.state.running is not None), None)
    if running is not None and running.resources is None:
        errors.append(forbidden(_SPEC, "Pod running on node without support for resize"))
    munged = new.spec
    if _has_resources(old.spec) or _has_resources(new.spec):
        wrong, munged = _validate_pod_level(new.spec, old.spec)
        errors += wrong
    if reordered := _validate_order(new.spec, old.spec):
        return errors + reordered
    errors += _validate_containers(new.spec, old.spec)
    if errors or has_errors:
        return errors
    munged = replace(munged, containers=old.spec.containers, init_containers=old.spec.init_containers)
    return [] if is_semantically_equal(munged, old.spec) else [forbidden(_SPEC, _ONLY_CPU_AND_MEMORY)]


def _has_resources(spec: PodSpec) -> bool:
    return spec.resources is not None and bool(spec.resources.requests or spec.resources.limits)


def _validate_pod_level(new: PodSpec, old: PodSpec) -> tuple[FieldErrors, PodSpec]:
    """Validate pod-level resources; also returns the spec with its old cpu and memory."""
    path = _SPEC.child("resources")
    errors: FieldErrors = []
    # An update without resources keeps the old ones.
    after, before = new.resources or ResourceRequirements(), old.resources or ResourceRequirements()
    if before.requests.keys() - after.requests.keys():
        errors.append(forbidden(path.child("requests"), "pod-level resource requests cannot be removed"))
    if before.limits.keys() - after.limits.keys():
        errors.append(forbidden(path.child("limits"), "pod-level resource limits cannot be removed"))
    masked: ResourceRequirements | None = _masked(after, before)
    if old.resources is None and masked == ResourceRequirements():
        masked = None
    if not is_semantically_equal(masked, old.resources):
        errors.append(forbidden(_SPEC, "only cpu and memory resources are mutable at pod-level"))
    return errors, replace(new, resources=masked)


def _masked(new: ResourceRequirements, old: ResourceRequirements) -> ResourceRequirements:
    return replace(new, limits=_mask(new.limits, old.limits), requests=_mask(new.requests, old.requests))


def _mask(new: Mapping[str, Quantity], old: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return the new amounts with the old ones of cpu and memory."""
    kept = {name: amount for name, amount in new.items() if name not in ("cpu", "memory")}
    return kept | {name: old[name] for name in ("cpu", "memory") if name in old}


def _validate_order(new: PodSpec, old: PodSpec) -> FieldErrors:
    errors: FieldErrors = []
    for name, after, before in (
        ("containers", new.containers or (), old.containers or ()),
        ("initContainers", new.init_containers, old.init_containers),
    ):
        if len(after) != len(before):
            errors.append(forbidden(_SPEC.child(name), f"{name} may not be added or removed on resize"))
            continue
        for index, container in enumerate(before):
            if after[index].name != container.name:
                at = _SPEC.child(name).index(index).child("name")
                errors.append(forbidden(at, f"{name} may not be renamed or reordered on resize"))
    return errors


def _validate_containers(new: PodSpec, old: PodSpec) -> FieldErrors:
    errors: FieldErrors = []
    for index, before in enumerate(old.init_containers):
        after, at = new.init_containers[index], _SPEC.child("initContainers").index(index)
        errors += _validate_removed(after, before, at.child("resources"))
    for index, before in enumerate(old.containers or ()):
        after = (new.containers or ())[index]
        errors += _validate_removed(after, before, _SPEC.child("containers").index(index).child("resources"))
        if not _same_but_size(after, before):
            errors.append(forbidden(_SPEC, _ONLY_CPU_AND_MEMORY))
    for index, before in enumerate(old.init_containers):
        after, at = new.init_containers[index], _SPEC.child("initContainers").index(index)
        errors += _validate_init(after, before, at)
    return errors


def _validate_removed(new: Container, old: Container, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if old.resources.requests.keys() - new.resources.requests.keys():
        errors.append(forbidden(path.child("requests"), "resource requests cannot be removed"))
    if old.resources.limits.keys() - new.resources.limits.keys():
        errors.append(forbidden(path.child("limits"), "resource limits cannot be removed"))
    return errors


def _validate_init(new: Container, old: Container, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if not _same_but_size(new, old):
        detail = "only cpu and memory resources for init or sidecar containers are mutable"
        errors.append(forbidden(path, detail))
    restarts = any(policy.restart_policy == "RestartContainer" for policy in new.resize_policy)
    if restarts and new.restart_policy != "Always" and not is_semantically_equal(new, old):
        detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        errors.append(forbidden(path, detail))
    return errors


def _same_but_size(new: Container, old: Container) -> bool:
    return is_semantically_equal(replace(new, resources=_masked(new.resources, old.resources)), old)
