"""Builds the pods of a job: its template with the tracking finalizer and the completion index. Pure."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodTemplateSpec
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.job.failure_policy import match_failure_policy
from kubeloop.controllers.job.names import (
    COMPLETION_INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED_FAILURES,
    INDEX_VARIABLE,
    TRACKING,
)
from kubeloop.controllers.job.observed import is_indexed
from kubeloop.controllers.job.pods import index_failures, index_ignored_failures
from kubeloop.controllers.shared.pods.pod_control import pod_from_template

T = TypeVar("T", bound=Container)

_JOBS = resource_of_class(Job)
_LONGEST_PREFIX = 58  # of a name to which the server appends five characters
_VARIABLE = EnvVar(
    name=INDEX_VARIABLE,
    value_from=EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.labels['{COMPLETION_INDEX}']")),
)


def template_of(job: Job) -> PodTemplateSpec:
    """Build the template that all pods of the job share."""
    template = job.spec.template
    metadata, spec = template.metadata, template.spec
    if TRACKING not in metadata.finalizers:
        metadata = replace(metadata, finalizers=(*metadata.finalizers, TRACKING))
    if is_indexed(job):
        spec = replace(
            spec,
            init_containers=tuple(map(_with_variable, spec.init_containers)),
            containers=tuple(map(_with_variable, spec.containers or ())),
        )
    return PodTemplateSpec(metadata=metadata, spec=spec)


def _with_variable(container: T) -> T:
    if any(one.name == INDEX_VARIABLE for one in container.env):
        return container
    return replace(container, env=(*container.env, _VARIABLE))


def new_pod(job: Job, template: PodTemplateSpec, index: int | None, replaced: Pod | None) -> Pod:
    """Build one pod; with a backoff limit per index it inherits the failure counts of the pod that it replaces."""
    if index is None:
        return pod_from_template(template, job, _JOBS)
    metadata, number = template.metadata, str(index)
    annotations = {**metadata.annotations, COMPLETION_INDEX: number}
    if job.spec.backoff_limit_per_index is not None:
        annotations |= _failure_counts(job, replaced)
    own = PodTemplateSpec(
        metadata=replace(metadata, annotations=annotations, labels={**metadata.labels, COMPLETION_INDEX: number}),
        spec=replace(template.spec, hostname=f"{job.metadata.name}-{index}"),
    )
    return pod_from_template(own, job, _JOBS, generate_name=name_prefix(job.metadata.name, index))


def name_prefix(job_name: str, index: int) -> str:
    """Build the generateName of an indexed pod."""
    tail = f"-{index}-"
    return job_name[: _LONGEST_PREFIX - len(tail)] + tail


def _failure_counts(job: Job, replaced: Pod | None) -> dict[str, str]:
    if replaced is None:
        return {INDEX_FAILURES: "0"}
    counts = match_failure_policy(job.spec.pod_failure_policy, replaced).counts
    ignored = index_ignored_failures(replaced) + (not counts)
    told = {INDEX_FAILURES: str(index_failures(replaced) + counts)}
    return {**told, INDEX_IGNORED_FAILURES: str(ignored)} if ignored else told
