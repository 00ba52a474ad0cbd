# SPDX-License-Identifier: Apache-2.0
"""Validation of Jobs, and of the job templates in CronJobs."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kubeloop.api.generated.batch_v1 import Job, JobSpec
from kubeloop.api.generated.core_v1 import Affinity, Container, PodTemplateSpec
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeloop.api.meta.name_rules import check_dns1123_label, validate_domain_prefixed_path
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.pods.templates import validate_template
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.objectmeta import METADATA
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_nonnegative, validate_unchanged
from kubeloop.api.validation.workloads.job_policies import validate_failure_policy, validate_success_policy
from kubeloop.api.validation.workloads.job_status import has_job_condition, validate_job_status
from kubeloop.api.validation.workloads.shared import labels_mismatch_error, matcher_of, validate_selector_unchanged

_SPEC: Final = FieldPath("spec")
_LABELS: Final = FieldPath("spec").child("template", "metadata", "labels")
_INDEXED_MAX: Final = 100_000
_MANY_COMPLETIONS: Final = 100_000
_MAX_OF_MANY: Final = 10_000
_MANAGED_BY_MAX: Final = 63
_NEEDS_INDEXES: Final = "requires indexed completion mode"
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")
_OLD_UID, _OLD_NAME = "controller-uid", "job-name"
_UID, _NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"


def validate_job_template_spec(spec: JobSpec, path: FieldPath) -> FieldErrors:
    """Validate a job's spec before the server has generated its selector."""
    errors: FieldErrors = []
    for name, number in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    ):
        errors += validate_nonnegative(number, path.child(name))
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        errors.append(required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
    if spec.managed_by is not None:
        errors += validate_domain_prefixed_path(path.child("managedBy"), spec.managed_by)
        if len(spec.managed_by) > _MANAGED_BY_MAX:
            errors.append(too_long(path.child("managedBy"), _MANAGED_BY_MAX))
    errors += _validate_completion_mode(spec, path)
    if spec.pod_failure_policy is not None:
        errors += validate_failure_policy(spec, path.child("podFailurePolicy"))
    if spec.success_policy is not None:
        at = path.child("successPolicy")
        if spec.completion_mode != "Indexed":
            errors.append(invalid(at, to_internal(spec.success_policy), _NEEDS_INDEXES))
        else:
            errors += validate_success_policy(spec, at)
    errors += _validate_replacement(spec, path.child("podReplacementPolicy"))
    errors += validate_template(spec.template, path.child("template"))
    return errors + _validate_restart_policy(spec, path.child("template", "spec", "restartPolicy"))


def _validate_completion_mode(spec: JobSpec, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    mode = spec.completion_mode
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        errors.append(not_supported(path.child("completionMode"), mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        errors += _validate_indexed(spec, path)
    if mode in (None, "NonIndexed"):
        for name, number in (
            ("backoffLimitPerIndex", spec.backoff_limit_per_index),
            ("maxFailedIndexes", spec.max_failed_indexes),
        ):
            if number is not None:
                errors.append(invalid(path.child(name), number, _NEEDS_INDEXES))
    return errors


def _validate_indexed(spec: JobSpec, path: FieldPath) -> FieldErrors:
    """Validate the limits that keep the index lists in a status short."""
    errors: FieldErrors = []
    completions, parallelism, most = spec.completions, spec.parallelism or 0, spec.max_failed_indexes
    if completions is None:
        errors.append(required(path.child("completions"), "when completion mode is Indexed"))
    if parallelism > _INDEXED_MAX:
        detail = f"must be less than or equal to {_INDEXED_MAX} when completion mode is Indexed"
        errors.append(invalid(path.child("parallelism"), parallelism, detail))
    if completions is not None and most is not None and most > completions:
        errors.append(invalid(path.child("maxFailedIndexes"), most, "must be less than or equal to completions"))
    if most is not None and most > _INDEXED_MAX:
        errors.append(invalid(path.child("maxFailedIndexes"), most, f"must be less than or equal to {_INDEXED_MAX}"))
    if completions is None or completions <= _MANY_COMPLETIONS or spec.backoff_limit_per_index is None:
        return errors
    detail = (
        f"must be less than or equal to {_MAX_OF_MANY} when completions are above {_MANY_COMPLETIONS} "
        "and used with backoff limit per index"
    )
    if most is None:
        why = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        errors.append(required(path.child("maxFailedIndexes"), why))
    if parallelism > _MAX_OF_MANY:
        errors.append(invalid(path.child("parallelism"), parallelism, detail))
    if most is not None and most > _MAX_OF_MANY:
        errors.append(invalid(path.child("maxFailedIndexes"), most, detail))
    return errors


def _validate_replacement(spec: JobSpec, path: FieldPath) -> FieldErrors:
    policy = spec.pod_replacement_policy
    supported = _REPLACEMENTS if spec.pod_failure_policy is None else ("Failed",)
    return [] if policy is None or policy in supported else [not_supported(path, policy, supported)]


def _validate_restart_policy(spec: JobSpec, path: FieldPath) -> FieldErrors:
    """Validate a job's restart policy; Always, the default of pods, counts as missing."""
    policy = spec.template.spec.restart_policy
    if policy in ("Always", ""):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    if spec.pod_failure_policy is not None and policy != "Never":
        return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _validate_spec(spec: JobSpec) -> FieldErrors:
    errors = validate_job_template_spec(spec, _SPEC)
    if spec.selector is None:
        errors.append(required(_SPEC.child("selector")))
    errors += validate_label_selector(spec.selector, _SPEC.child("selector"))
    matcher = matcher_of(spec.selector)
    labels = spec.template.metadata.labels
    if matcher is not None and not matcher.matches(labels):
        errors += labels_mismatch_error(labels, _SPEC.child("template"))
    return errors


def _validate_generated_selector(job: Job) -> FieldErrors:
    """Validate the labels and the selector that the server generates."""
    if job.spec.manual_selector or job.spec.selector is None:
        return []
    uid, name = job.metadata.uid, job.metadata.name
    errors: FieldErrors = [] if uid else [required(METADATA.child("uid"))]
    labels = job.spec.template.metadata.labels
    expected = {_OLD_UID: uid, _OLD_NAME: name, _UID: uid, _NAME: name}
    for key, value in expected.items():
        # The strategy adds missing labels.
        if labels.get(key, value) != value:
            errors.append(invalid(_LABELS.key(key), dict(labels), f"must be '{value}'"))
    matcher = matcher_of(job.spec.selector)
    if matcher is not None and not matcher.matches(expected):
        errors.append(invalid(_SPEC.child("selector"), to_internal(job.spec.selector), "`selector` not auto-generated"))
    return errors


def _validate_hostnames(job: Job) -> FieldErrors:
    """Validate the hostnames of an indexed job's pods: the job's name and the index."""
    completions = job.spec.completions
    if job.spec.completion_mode != "Indexed" or completions is None or completions <= 0:
        return []
    hostname = f"{job.metadata.name}-{completions - 1}"
    if not check_dns1123_label(hostname):
        return []
    detail = f"will not able to create pod with invalid DNS label: {hostname}"
    return [invalid(METADATA.child("name"), job.metadata.name, detail)]


def _validate_job(job: Job) -> FieldErrors:
    return _validate_generated_selector(job) + _validate_spec(job.spec) + _validate_hostnames(job)


def _validate_update(new: Job, old: Job) -> FieldErrors:
    after, before = new.spec, old.spec
    errors = _validate_spec(after) + _validate_completions(after, before)
    errors += validate_selector_unchanged(after.selector, before.selector)
    errors += _validate_template_update(new, old)
    errors += validate_unchanged(after.completion_mode, before.completion_mode, _SPEC.child("completionMode"))
    errors += validate_unchanged(
        after.pod_failure_policy, before.pod_failure_policy, _SPEC.child("podFailurePolicy"),
        to_internal(after.pod_failure_policy),
    )  # fmt: skip
    limit = _SPEC.child("backoffLimitPerIndex")
    errors += validate_unchanged(after.backoff_limit_per_index, before.backoff_limit_per_index, limit)
    errors += validate_unchanged(after.managed_by, before.managed_by, _SPEC.child("managedBy"))
    errors += validate_unchanged(
        after.success_policy, before.success_policy, _SPEC.child("successPolicy"), to_internal(after.success_policy)
    )
    return errors + _validate_hostnames(new)


def _validate_completions(new: JobSpec, old: JobSpec) -> FieldErrors:
    """Validate changes of completions: only an indexed job can be scaled, together with parallelism."""
    path = _SPEC.child("completions")
    if new.completion_mode != "Indexed":
        return validate_unchanged(new.completions, old.completions, path)
    if new.completions in (None, old.completions, new.parallelism):
        return []
    return [invalid(path, new.completions, "can only be modified in tandem with spec.parallelism")]


def _validate_template_update(new: Job, old: Job) -> FieldErrors:
    """Validate template changes: only a suspended job's scheduling directives and resources may change."""
    after, before = new.spec.template, old.spec.template
    halted = has_job_condition(old, "Suspended") or old.status.start_time is None
    if not (old.spec.suspend and halted and old.status.active == 0):
        return validate_unchanged(after, before, _SPEC.child("template"), to_internal(after))
    before = _with_directives(before, after)
    spec = replace(
        before.spec,
        containers=_with_resources(before.spec.containers or (), after.spec.containers or ()),
        init_containers=_with_resources(before.spec.init_containers, after.spec.init_containers),
    )
    return validate_unchanged(after.spec, spec, _SPEC.child("template.spec"), to_internal(after.spec))


def _with_directives(old: PodTemplateSpec, new: PodTemplateSpec) -> PodTemplateSpec:
    """Return the old template with the scheduling directives of the new one."""
    affinity = old.spec.affinity or Affinity()
    nodes = new.spec.affinity.node_affinity if new.spec.affinity is not None else None
    merged: Affinity | None = replace(affinity, node_affinity=nodes)
    if new.spec.affinity is None and merged == Affinity():
        merged = None
    spec = replace(
        old.spec,
        affinity=merged if new.spec.affinity is not None or old.spec.affinity is not None else None,
        node_selector=new.spec.node_selector,
        tolerations=new.spec.tolerations,
        scheduling_gates=new.spec.scheduling_gates,
    )
    meta = replace(old.metadata, labels=new.metadata.labels, annotations=new.metadata.annotations)
    return replace(old, metadata=meta, spec=spec)


def _with_resources(old: tuple[Container, ...], new: tuple[Container, ...]) -> tuple[Container, ...]:
    if len(old) != len(new):
        return old
    return tuple(
        replace(before, resources=after.resources) if before.name == after.name else before
        for before, after in zip(old, new, strict=True)
    )


JOB = ValidationRules(_validate_job, _validate_update, {"status": validate_job_status})
