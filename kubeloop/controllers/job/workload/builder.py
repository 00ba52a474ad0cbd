# SPDX-License-Identifier: Apache-2.0
"""Builds the Workload and the PodGroup of a job, and their names. Pure."""

from __future__ import annotations

from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from kubeloop.api.generated.batch_v1 import Job, JobSchedulingConfiguration
from kubeloop.api.generated.core_v1 import PodSchedulingGroup, PodTemplateSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.generated.scheduling_v1beta1 import (
    DisruptionMode,
    GangSchedulingPolicy,
    PodGroup,
    PodGroupResourceClaim,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodGroupTemplate,
    TopologyConstraint,
    TypedLocalObjectReference,
    Workload,
    WorkloadReference,
    WorkloadSpec,
)
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.shared.ownership.template_hash import fnv32a, safe_text
from kubeloop.runtime.objects.owner_references import controller_reference

_JOBS: Final = resource_of_class(Job)
_VERSION: Final = "scheduling.k8s.io/v1beta1"
_LONGEST_NAME: Final = 253
_BASIC: Final = PodGroupSchedulingPolicy(basic=Raw(b"{}"))


def workload_name(job: Job) -> str:
    """Return the name of a job's Workload: that of the job, with a hash of its UID."""
    digest = safe_text(fnv32a(f"(types.UID){job.metadata.uid}".encode()))
    return f"{job.metadata.name[: _LONGEST_NAME - len(digest) - 1]}-{digest}"


def pod_group_name(workload: str, template: str) -> str:
    """Return the name of the PodGroup of a Workload's template; both names are shortened if they are too long."""
    digest = safe_text(fnv32a((workload + template).encode()))
    room = _LONGEST_NAME - len(digest) - 2
    half = room // 2
    if len(workload) + len(template) > room:
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}-{digest}"


def build_workload(job: Job) -> Workload:
    """Return the Workload of a job, with one template for its pods; a job without settings is no gang."""
    meta, asked = job.metadata, job.spec.scheduling or JobSchedulingConfiguration()
    template = PodGroupTemplate(
        name=f"{meta.name}-pgt-0",
        priority_class_name=job.spec.template.spec.priority_class_name,
        scheduling_policy=_policy(job, asked),
        scheduling_constraints=_constraints(asked),
        disruption_mode=_disruption_mode(asked),
        resource_claims=tuple(
            PodGroupResourceClaim(
                name=one.name,
                resource_claim_name=one.resource_claim_name,
                resource_claim_template_name=one.resource_claim_template_name,
            )
            for one in asked.resource_claims
        ),
    )
    return Workload(
        metadata=ObjectMeta(
            name=workload_name(job),
            namespace=meta.namespace,
            owner_references=(controller_reference(job, _JOBS),),
        ),
        spec=WorkloadSpec(
            controller_ref=TypedLocalObjectReference(api_group=_JOBS.group, kind=_JOBS.kind, name=meta.name),
            pod_group_templates=(template,),
        ),
    )


def build_pod_group(job: Job, workload: Workload, template: PodGroupTemplate, *, is_own: bool) -> PodGroup:
    """Return the PodGroup of a template, controlled by the job, and owned by the Workload if that is the job's own."""
    meta = workload.metadata
    owners = [controller_reference(job, _JOBS)]
    if is_own:
        owners.append(OwnerReference(api_version=_VERSION, kind="Workload", name=meta.name, uid=meta.uid))
    return PodGroup(
        metadata=ObjectMeta(
            name=pod_group_name(meta.name, template.name), namespace=meta.namespace, owner_references=tuple(owners)
        ),
        spec=PodGroupSpec(
            workload_ref=WorkloadReference(workload_name=meta.name, template_name=template.name),
            scheduling_policy=template.scheduling_policy,
            scheduling_constraints=template.scheduling_constraints,
            disruption_mode=template.disruption_mode,
            priority_class_name=template.priority_class_name,
            priority=template.priority,
            resource_claims=template.resource_claims,
        ),
    )


def join_group(template: PodTemplateSpec, group: PodGroup) -> PodTemplateSpec:
    """Return the template of pods that belong to a group."""
    named = PodSchedulingGroup(pod_group_name=group.metadata.name)
    return PodTemplateSpec(metadata=template.metadata, spec=replace(template.spec, scheduling_group=named))


def group_reference(group: PodGroup) -> OwnerReference:
    """Return the reference of a pod to its group, which does not block the deletion of the group."""
    return OwnerReference(api_version=_VERSION, kind="PodGroup", name=group.metadata.name, uid=group.metadata.uid)


def gang_size(template: PodGroupTemplate | PodGroupSpec) -> int | None:
    """Return the minimum of a gang; None for other groups."""
    gang = template.scheduling_policy.gang
    return None if gang is None else gang.min_count


def _policy(job: Job, asked: JobSchedulingConfiguration) -> PodGroupSchedulingPolicy:
    gang = None if asked.scheduling_policy is None else asked.scheduling_policy.gang
    if gang is None:
        return _BASIC
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    least = max(1, parallelism) if gang.min_count is None else gang.min_count
    return PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=least))


def _constraints(asked: JobSchedulingConfiguration) -> PodGroupSchedulingConstraints | None:
    constraints = asked.scheduling_constraints
    if constraints is None or not constraints.topology:
        return None
    return PodGroupSchedulingConstraints(
        topology=tuple(TopologyConstraint(key=one.key) for one in constraints.topology)
    )


def _disruption_mode(asked: JobSchedulingConfiguration) -> DisruptionMode | None:
    mode = asked.disruption_mode
    return None if mode is None else DisruptionMode(all=mode.all, single=mode.single)
