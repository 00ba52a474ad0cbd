# SPDX-License-Identifier: Apache-2.0
"""Strategy of pods: creation, updates, subresources and grace period."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features
from kubeloop.api.generated.core_v1 import (
    Container,
    Pod,
    PodAffinityTerm,
    PodCondition,
    PodSpec,
    PodStatus,
    SecurityContext,
)
from kubeloop.api.generated.meta_v1 import LabelSelector, LabelSelectorRequirement
from kubeloop.api.scalars import wire
from kubeloop.api.strategy.base import STATUS_METADATA, Strategy, count_generation
from kubeloop.api.strategy.pods.app_armor import ANNOTATION_PREFIX, profile_of
from kubeloop.api.strategy.pods.gates import (
    containers_of,
    drop_disabled_pod_fields,
    drop_disabled_status_fields,
)
from kubeloop.api.strategy.pods.qos import qos_class_of
from kubeloop.api.strategy.pods.resources import default_pod_level_resources

_GATED = PodCondition(
    type="PodScheduled",
    status="False",
    reason="SchedulingGated",
    message="Scheduling is blocked due to non-empty scheduling gates",
)


def grace_period_of(pod: Pod, requested: int | None) -> int:
    """Return the seconds a pod has to terminate; 0 if no node runs it."""
    if not pod.spec.node_name or pod.status.phase in ("Failed", "Succeeded"):
        return 0
    period = requested if requested is not None else pod.spec.termination_grace_period_seconds or 0
    return 1 if period < 0 else period


def _drop_disabled(new: Pod, old: Pod | None, features: Features) -> None:
    if old is not None and new.spec == old.spec:
        # Readers of both pods share one spec, and the steps that follow compare it at once.
        force_setattr(new, "spec", old.spec)
    drop_disabled_pod_fields(new, old, features)


def _refine(new: Pod, old: Pod | None) -> None:
    if old is not None:
        _keep_pod_resources(new, old)
        return
    _merge_label_keys(new)
    _read_app_armor_annotations(new)
    if new.spec.resources is not None:
        default_pod_level_resources(new.spec)
    conditions = (_GATED,) if new.spec.scheduling_gates else ()
    status = PodStatus(phase="Pending", qos_class=qos_class_of(new.spec), conditions=conditions)
    force_setattr(new, "status", status)


def _refine_status(new: Pod, old: Pod) -> None:
    status, before = new.status, old.status
    # Fields that clients drop because they don't know them, or must not set, stay unchanged.
    for name in (
        "qos_class",
        "resource_claim_statuses",
        "extended_resource_claim_status",
        "node_allocatable_resource_claim_statuses",
        "observed_generation",
    ):
        if not getattr(status, name):
            force_setattr(status, name, getattr(before, name))
    _keep_observed_generations(status, before)


def _keep_observed_generations(status: PodStatus, before: PodStatus) -> None:
    seen: dict[str, list[int]] = {}
    for condition in before.conditions:
        seen.setdefault(condition.type, []).append(condition.observed_generation)
    for condition in status.conditions:
        generations = seen.get(condition.type)
        generation = generations.pop(0) if generations else 0
        if not condition.observed_generation and generation:
            force_setattr(condition, "observed_generation", generation)


def _update_ephemeral_containers(new: Pod, old: Pod, features: Features) -> None:
    _keep_all_but(new, old, replace(old.spec, ephemeral_containers=new.spec.ephemeral_containers))
    drop_disabled_pod_fields(new, old, features)
    count_generation(new, old, ("spec",))


def _resize(new: Pod, old: Pod, features: Features) -> None:
    spec = new.spec
    # Validation rejects added or removed containers.
    if len(spec.containers or ()) == len(old.spec.containers or ()) and len(spec.init_containers) == len(
        old.spec.init_containers
    ):
        resized = replace(
            old.spec,
            resources=spec.resources,
            containers=_resized(spec.containers or (), old.spec.containers or ()),
            init_containers=_resized(spec.init_containers, old.spec.init_containers),
        )
        _keep_all_but(new, old, resized)
    _keep_pod_resources(new, old)
    if new.spec.resources is not None:
        default_pod_level_resources(new.spec)
    drop_disabled_pod_fields(new, old, features)
    count_generation(new, old, ("spec",))


def _resized(new: tuple[Container, ...], old: tuple[Container, ...]) -> tuple[Container, ...]:
    if any(after.name != before.name for after, before in zip(new, old, strict=True)):
        return new
    return tuple(
        replace(before, resources=after.resources, resize_policy=after.resize_policy)
        for after, before in zip(new, old, strict=True)
    )


def _keep_all_but(new: Pod, old: Pod, spec: PodSpec) -> None:
    force_setattr(new, "spec", spec)
    force_setattr(new, "status", old.status)
    for name in STATUS_METADATA:
        force_setattr(new.metadata, name, getattr(old.metadata, name))


def _keep_pod_resources(new: Pod, old: Pod) -> None:
    # A client that doesn't know pod-level resources must not remove them.
    if new.spec.resources is None and old.spec.resources is not None:
        force_setattr(new.spec, "resources", old.spec.resources)


def _merge_label_keys(pod: Pod) -> None:
    """Merge matchLabelKeys, resolved by the pod's own labels, into the label selectors."""
    labels = pod.metadata.labels
    for term in _affinity_terms(pod.spec):
        if term.label_selector is not None:
            _extend(term.label_selector, term.match_label_keys, "In", labels)
            _extend(term.label_selector, term.mismatch_label_keys, "NotIn", labels)
    for constraint in pod.spec.topology_spread_constraints:
        if constraint.label_selector is not None:
            _extend(constraint.label_selector, constraint.match_label_keys, "In", labels)


def _affinity_terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    if spec.affinity is None:
        return
    for affinity in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        if affinity is not None:
            for weighted in affinity.preferred_during_scheduling_ignored_during_execution:
                yield weighted.pod_affinity_term
            yield from affinity.required_during_scheduling_ignored_during_execution


def _extend(selector: LabelSelector, keys: tuple[str, ...], operator: str, labels: Mapping[str, str]) -> None:
    more = tuple(
        LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],)) for key in keys if key in labels
    )
    if more:
        force_setattr(selector, "match_expressions", selector.match_expressions + more)


def _read_app_armor_annotations(pod: Pod) -> None:
    """Convert AppArmor annotations of old manifests into fields, unless a field is set."""
    annotations = pod.metadata.annotations
    if not annotations or not any(key.startswith(ANNOTATION_PREFIX) for key in annotations):
        return
    spec = pod.spec
    if spec.os is not None and spec.os.name == "windows":
        return
    whole = spec.security_context.app_armor_profile if spec.security_context is not None else None
    for container in containers_of(spec):
        context = container.security_context or SecurityContext()
        profile = profile_of(annotations.get(ANNOTATION_PREFIX + container.name, ""))
        if profile is not None and context.app_armor_profile is None and profile != whole:
            force_setattr(container, "security_context", replace(context, app_armor_profile=profile))


def _stamp(new: Pod, old: Pod | None, now: str) -> None:
    if old is None and new.status.conditions:
        stamped = tuple(replace(each, last_transition_time=wire.Time(now)) for each in new.status.conditions)
        force_setattr(new.status, "conditions", stamped)


def _resizable(*containers: str) -> Iterator[tuple[str, ...]]:
    for name in containers:
        for part in ("resources", "resizePolicy"):
            yield "spec", name, "*", part


POD = Strategy(
    has_status=True,
    generation_of=("spec",),
    status_preserved_meta=("deletion_timestamp", "owner_references"),
    reset_fields={
        "": (("status",),),
        "status": (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")),
    },
    settable_fields={
        "ephemeralcontainers": (("spec", "ephemeralContainers"),),
        "resize": tuple(_resizable("containers", "initContainers")),
    },
    grace_period=grace_period_of,
    preserves_old=True,
    drop_disabled=_drop_disabled,
    drop_disabled_status=drop_disabled_status_fields,
    refine=_refine,
    refine_status=_refine_status,
    subresource_updates={"ephemeralcontainers": _update_ephemeral_containers, "resize": _resize},
    set_timestamps=_stamp,
)
