# SPDX-License-Identifier: Apache-2.0
"""Validation of StatefulSets."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy
from kubeloop.api.generated.core_v1 import PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, not_supported, required
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.pods.templates import validate_template
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    validate_dns_label,
    validate_int_or_percent,
    validate_nonnegative,
    validate_not_more_than_100_percent,
    validate_unchanged,
)
from kubeloop.api.validation.storage.claim_spec import validate_claim_spec
from kubeloop.api.validation.workloads.shared import (
    ABOVE_REPLICAS,
    int_or_percent_value,
    is_empty_selector,
    labels_mismatch_error,
    matcher_of,
    validate_collision_count,
    validate_counts_at_most,
    validate_long_running,
    validate_nonnegative_counts,
    validate_selector_unchanged,
)

_SPEC: Final = FieldPath("spec")
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
    if spec.pod_management_policy not in _POLICIES:
        errors.append(invalid(at, spec.pod_management_policy, "must be 'OrderedReady' or 'Parallel'"))
    errors += _validate_strategy(spec.update_strategy, _SPEC.child("updateStrategy"))
    errors += _validate_retention(spec)
    if is_new:
        for index, claim in enumerate(spec.volume_claim_templates):
            errors += validate_claim_spec(claim.spec, _SPEC.child("volumeClaimTemplates").index(index).child("spec"))
    errors += validate_nonnegative(spec.replicas, _SPEC.child("replicas"))
    errors += validate_nonnegative(spec.min_ready_seconds, _SPEC.child("minReadySeconds"))
    if spec.ordinals is not None:
        errors += validate_nonnegative(spec.ordinals.start, _SPEC.child("ordinals.start"))
    if is_new and spec.service_name:
        errors += validate_dns_label(spec.service_name, _SPEC.child("serviceName"))
    errors += _validate_selected_template(spec)
    return errors + validate_long_running(spec.template, "StatefulSet", _SPEC.child("template"))


def _validate_strategy(strategy: StatefulSetUpdateStrategy, path: FieldPath) -> FieldErrors:
    rolling, at = strategy.rolling_update, path.child("rollingUpdate")
    if strategy.type == "OnDelete":
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        return [] if rolling is None else [invalid(at, to_internal(rolling), detail)]
    if strategy.type != "RollingUpdate":
        return [invalid(path, to_internal(strategy), "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    errors = validate_nonnegative(rolling.partition, at.child("partition"))
    most = rolling.max_unavailable
    if most is not None:
        errors += validate_int_or_percent(most, at.child("maxUnavailable"))
        if int_or_percent_value(most) == 0:
            errors.append(invalid(at.child("maxUnavailable"), most, "cannot be 0"))
        errors += validate_not_more_than_100_percent(most, at.child("maxUnavailable"))
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
        if is_empty_selector(spec.selector):
            errors.append(invalid(at, to_internal(spec.selector), "empty selector is invalid for statefulset"))
    matcher = matcher_of(spec.selector)
    if matcher is None:
        return [*errors, invalid(at, to_internal(spec.selector), "")]
    labels = spec.template.metadata.labels
    if not matcher.is_empty and not matcher.matches(labels):
        errors += labels_mismatch_error(labels, _SPEC.child("template"))
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
    errors += validate_selector_unchanged(after.selector, before.selector)
    claims = to_internal(after.volume_claim_templates) if after.volume_claim_templates else ()
    errors += validate_unchanged(
        after.volume_claim_templates, before.volume_claim_templates, _SPEC.child("volumeClaimTemplates"), claims
    )
    errors += validate_unchanged(after.service_name, before.service_name, _SPEC.child("serviceName"))
    return errors + validate_unchanged(
        after.pod_management_policy, before.pod_management_policy, _SPEC.child("podManagementPolicy")
    )


def _validate_status(new: StatefulSet, old: StatefulSet) -> FieldErrors:
    status = new.status
    errors = validate_nonnegative_counts(status, _COUNTS)
    errors += validate_counts_at_most(status, _PARTS, status.replicas, ABOVE_REPLICAS)
    available = (("available_replicas", "availableReplicas"),)
    errors += validate_counts_at_most(
        status, available, status.ready_replicas, "cannot be greater than status.readyReplicas"
    )
    return errors + validate_collision_count(status.collision_count, old.status.collision_count)


STATEFUL_SET = ValidationRules(_validate_stateful_set, _validate_update, {"status": _validate_status})
