"""Validation of StatefulSets."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy
from kubeloop.api.generated.core_v1 import PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume
from kubeloop.api.meta.field_path import FieldErrors, Path, invalid, not_supported, required
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.pods.templates import validate_template
from kubeloop.api.validation.shared.go_values import internal
from kubeloop.api.validation.shared.rules import Rules
from kubeloop.api.validation.shared.scalars import (
    dns_label,
    int_or_percent,
    not_negative,
    not_over_hundred_percent,
    unchanged,
)
from kubeloop.api.validation.storage.claim_spec import validate_claim_spec
from kubeloop.api.validation.workloads.shared import (
    ABOVE_REPLICAS,
    is_empty,
    labels_mismatch,
    matcher_of,
    no_negative_counts,
    not_above,
    not_decremented,
    selector_unchanged,
    validate_long_running,
    whole_or_percent,
)

_SPEC: Final = Path("spec")
_POLICIES: Final = ("OrderedReady", "Parallel")
_RETENTIONS: Final = ("Retain", "Delete")
_PARTS: Final = (
    ("ready_replicas", "readyReplicas"), ("current_replicas", "currentReplicas"),
    ("updated_replicas", "updatedReplicas"), ("available_replicas", "availableReplicas"),
)  # fmt: skip
_COUNTS: Final = (
    ("replicas", "replicas"), *_PARTS, ("observed_generation", "observedGeneration"),
    ("collision_count", "collisionCount"),
)  # fmt: skip


def _validate_spec(spec: StatefulSetSpec, is_new: bool) -> FieldErrors:
    """Validate a spec; immutable fields are only validated on create."""
    errors: FieldErrors = []
    at = _SPEC.child("podManagementPolicy")
    if not spec.pod_management_policy:
        errors.append(required(at))
    elif spec.pod_management_policy not in _POLICIES:
        errors.append(invalid(at, spec.pod_management_policy, "must be 'OrderedReady' or 'Parallel'"))
    errors += _validate_strategy(spec.update_strategy, _SPEC.child("updateStrategy"))
    errors += _validate_retention(spec)
    if is_new:
        for index, claim in enumerate(spec.volume_claim_templates):
            errors += validate_claim_spec(claim.spec, _SPEC.child("volumeClaimTemplates").index(index).child("spec"))
    errors += not_negative(spec.replicas, _SPEC.child("replicas"))
    errors += not_negative(spec.min_ready_seconds, _SPEC.child("minReadySeconds"))
    if spec.ordinals is not None:
        errors += not_negative(spec.ordinals.start, _SPEC.child("ordinals.start"))
    if is_new and spec.service_name:
        errors += dns_label(spec.service_name, _SPEC.child("serviceName"))
    errors += _validate_selected_template(spec)
    return errors + validate_long_running(spec.template, "StatefulSet", _SPEC.child("template"))


def _validate_strategy(strategy: StatefulSetUpdateStrategy, path: Path) -> FieldErrors:
    rolling, at = strategy.rolling_update, path.child("rollingUpdate")
    if not strategy.type:
        return [required(path)]
    if strategy.type == "OnDelete":
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        return [] if rolling is None else [invalid(at, internal(rolling), detail)]
    if strategy.type != "RollingUpdate":
        return [invalid(path, internal(strategy), "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    errors = not_negative(rolling.partition, at.child("partition"))
    most = rolling.max_unavailable
    if most is not None:
        errors += int_or_percent(most, at.child("maxUnavailable"))
        if whole_or_percent(most) == 0:
            errors.append(invalid(at.child("maxUnavailable"), most, "cannot be 0"))
        errors += not_over_hundred_percent(most, at.child("maxUnavailable"))
    return errors


def _validate_retention(spec: StatefulSetSpec) -> FieldErrors:
    policy = spec.persistent_volume_claim_retention_policy
    if policy is None:
        return []
    path = _SPEC.child("persistentVolumeClaimRetentionPolicy")
    return [
        not_supported(path.child(name), value, _RETENTIONS)
        for name, value in (("whenDeleted", policy.when_deleted), ("whenScaled", policy.when_scaled))
        if value not in _RETENTIONS
    ]


def _validate_selected_template(spec: StatefulSetSpec) -> FieldErrors:
    at = _SPEC.child("selector")
    errors: FieldErrors = []
    if spec.selector is None:
        errors.append(required(at))
    else:
        errors += validate_label_selector(spec.selector, at)
        if is_empty(spec.selector):
            errors.append(invalid(at, internal(spec.selector), "empty selector is invalid for statefulset"))
    matcher = matcher_of(spec.selector)
    if matcher is None:
        return [*errors, invalid(at, internal(spec.selector), "")]
    labels = spec.template.metadata.labels
    if not matcher.empty and not matcher.matches(labels):
        errors += labels_mismatch(labels, _SPEC.child("template"))
    return errors + validate_template(_template_of_pods(spec), _SPEC.child("template"))


def _template_of_pods(spec: StatefulSetSpec) -> PodTemplateSpec:
    """Return the template as the controller completes it for each pod: identity, and volumes of the claims."""
    claims = {claim.metadata.name: claim for claim in spec.volume_claim_templates}
    volumes = [
        Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name)) for name in claims
    ]
    volumes += [volume for volume in spec.template.spec.volumes if volume.name not in claims]
    pod_spec = replace(spec.template.spec, hostname="", subdomain="", volumes=tuple(volumes))
    return replace(spec.template, spec=pod_spec)


def _validate_stateful_set(obj: StatefulSet) -> FieldErrors:
    return _validate_spec(obj.spec, is_new=True)


def _validate_update(new: StatefulSet, old: StatefulSet) -> FieldErrors:
    after, before = new.spec, old.spec
    errors = _validate_spec(after, is_new=False)
    errors += selector_unchanged(after.selector, before.selector)
    claims = internal(after.volume_claim_templates) if after.volume_claim_templates else ()
    errors += unchanged(
        after.volume_claim_templates, before.volume_claim_templates, _SPEC.child("volumeClaimTemplates"), claims
    )
    errors += unchanged(after.service_name, before.service_name, _SPEC.child("serviceName"))
    return errors + unchanged(
        after.pod_management_policy, before.pod_management_policy, _SPEC.child("podManagementPolicy")
    )


def _validate_status(new: StatefulSet, old: StatefulSet) -> FieldErrors:
    status = new.status
    errors = no_negative_counts(status, _COUNTS)
    errors += not_above(status, _PARTS, status.replicas, ABOVE_REPLICAS)
    available = (("available_replicas", "availableReplicas"),)
    errors += not_above(status, available, status.ready_replicas, "cannot be greater than status.readyReplicas")
    return errors + not_decremented(status.collision_count, old.status.collision_count)


STATEFUL_SET = Rules(_validate_stateful_set, _validate_update, {"status": _validate_status})
