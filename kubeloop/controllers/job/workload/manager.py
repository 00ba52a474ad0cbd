# SPDX-License-Identifier: Apache-2.0
"""Finds or creates the Workload and the PodGroup of a job, and follows changes of the gang's minimum."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kubeloop.api.codec import to_plain
from kubeloop.api.errors import AlreadyExists, ApiError
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup, PodGroupTemplate, Workload
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.meta.owner_references import controller_of, is_controlled_by
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.job.workload.builder import build_pod_group, build_workload, gang_size
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.versions import version_number, version_of

GATE: Final = "WorkloadWithJob"
WORKLOADS: Final = resource_of_class(Workload)
POD_GROUPS: Final = resource_of_class(PodGroup)
BY_JOB: Final = "workloads by job"
BY_WORKLOAD: Final = "pod groups by workload"
_TEMPLATE: Final = "scheduling.k8s.io/group-template-name"  # of a job whose parent owns the Workload

T = TypeVar("T", Workload, PodGroup)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkloadCaches:
    """Informers of the objects."""

    workloads: Informer
    groups: Informer


def job_of_workload(workload: Workload) -> Iterable[str]:
    """Return the index value of a Workload: the job that it belongs to."""
    ref = workload.spec.controller_ref
    if ref is not None and (ref.api_group, ref.kind) == ("batch", "Job") and ref.name:
        yield f"{workload.metadata.namespace}/{ref.name}"


def workload_of_group(group: PodGroup) -> Iterable[str]:
    """Return the index value of a PodGroup: its Workload."""
    ref = group.spec.workload_ref
    if ref is not None and ref.workload_name:
        yield f"{group.metadata.namespace}/{ref.workload_name}"


class WorkloadManager:
    """Manages the Workload and PodGroup of jobs without a controller, and the PodGroup of jobs that delegate it."""

    def __init__(self, client: Client, caches: WorkloadCaches, recorder: EventRecorder) -> None:
        self._client = client
        self._caches = caches
        self._recorder = recorder

    async def ensure_pod_group(self, job: Job, pods: Sequence[Pod]) -> PodGroup | None:
        """Return the PodGroup of a job's pods; None if the controller manages none.

        Objects are created only for a job that has never started; others use what exists.
        """
        if job.spec.template.spec.scheduling_group is not None:
            return None
        is_new = is_new_job(job, pods)
        if controller_of(job.metadata.owner_references) is None:
            return await self._ensure_both(job, is_new=is_new)
        if _TEMPLATE in job.metadata.annotations:
            return await self._ensure_delegated(job, is_new=is_new)
        return None

    def unseen_group(self, group: PodGroup | None) -> PodGroup | None:
        """Return a group that was created after what the cache shows; None if the cache would show it."""
        if group is None or version_number(self._caches.groups.version) >= version_of(group):
            return None
        return group

    async def _ensure_both(self, job: Job, *, is_new: bool) -> PodGroup | None:
        meta = job.metadata
        known = self._caches.workloads.by_index(BY_JOB, f"{meta.namespace}/{meta.name}")
        workload = _single(known, job)
        if workload is None and is_new and not _controlled(known, job):
            workload = await self._create_workload(job)
        if workload is None:
            return None
        templates: tuple[PodGroupTemplate, ...] = workload.spec.pod_group_templates or ()
        if len(templates) != 1:
            name = f"{workload.metadata.namespace}/{workload.metadata.name}"
            raise ValueError(f"workload {name} for job {meta.namespace}/{meta.name} has {len(templates)} templates")
        group = await self._ensure_group(job, workload, templates[0], is_new=is_new, is_own=True)
        await self._resize(job, workload, group)
        return group

    async def _ensure_delegated(self, job: Job, *, is_new: bool) -> PodGroup | None:
        """Return the PodGroup from a template of the Workload that belongs to the job's controller."""
        workload = self._parent_workload(job)
        wanted = job.metadata.annotations[_TEMPLATE]
        templates = () if workload is None else workload.spec.pod_group_templates or ()
        template = next((one for one in templates if one.name == wanted), None)
        if workload is None or template is None:
            return None
        group = await self._ensure_group(job, workload, template, is_new=is_new, is_own=False)
        least = gang_size(template)
        if group is not None and least is not None and gang_size(group.spec) not in (None, least):
            await self._patch(POD_GROUPS, group, {"schedulingPolicy": {"gang": {"minCount": least}}})
        return group

    def _parent_workload(self, job: Job) -> Workload | None:
        parent = controller_of(job.metadata.owner_references)
        if parent is None:
            return None
        group = parent.api_version.rpartition("/")[0]
        for workload in self._caches.workloads.list(job.metadata.namespace):
            ref = workload.spec.controller_ref
            if ref is not None and (ref.api_group, ref.kind, ref.name) == (group, parent.kind, parent.name):
                found: Workload = workload
                return found
        return None

    async def _ensure_group(
        self, job: Job, workload: Workload, template: PodGroupTemplate, *, is_new: bool, is_own: bool
    ) -> PodGroup | None:
        meta = workload.metadata
        known = self._caches.groups.by_index(BY_WORKLOAD, f"{meta.namespace}/{meta.name}")
        group = _single(known, job)
        if group is not None or not is_new or _controlled(known, job):
            return group
        made = await self._create(build_pod_group(job, workload, template, is_own=is_own), job)
        self._recorder.event(
            job, "Normal", "PodGroupCreated", f"Created PodGroup {made.metadata.name} for Job {job.metadata.name}"
        )
        return made

    async def _create_workload(self, job: Job) -> Workload:
        name = job.metadata.name
        try:
            made = await self._create(build_workload(job), job)
        except ApiError as error:
            message = f"Failed to create Workload for Job {name}: {error}"
            self._recorder.event(job, "Warning", "FailedWorkloadCreate", message)
            raise
        message = f"Created Workload {made.metadata.name} for Job {name}"
        self._recorder.event(job, "Normal", "WorkloadCreated", message)
        return made

    async def _create(self, wanted: T, job: Job) -> T:
        """Create an object, or return that of an earlier sync which the cache does not show yet."""
        try:
            made: T = await self._client.create(wanted)
        except AlreadyExists:
            made = await self._client.get(type(wanted), wanted.metadata.name, wanted.metadata.namespace)
            if not is_controlled_by(made.metadata.owner_references, job.metadata.uid):
                raise
        return made

    async def _resize(self, job: Job, workload: Workload, group: PodGroup | None) -> None:
        """Follow a changed minimum of a gang, the only field that may change."""
        (wanted,) = build_workload(job).spec.pod_group_templates or ()
        (present,) = workload.spec.pod_group_templates or ()
        least = gang_size(wanted)
        if least is None:
            return
        policy = {"schedulingPolicy": {"gang": {"minCount": least}}}
        if gang_size(present) not in (None, least):
            templates = [{**to_plain(present), **policy}]
            await self._patch(WORKLOADS, workload, {"podGroupTemplates": templates})
        if group is not None and gang_size(group.spec) not in (None, least):
            await self._patch(POD_GROUPS, group, policy)

    async def _patch(self, resource: Any, obj: Workload | PodGroup, spec: dict[str, Any]) -> None:
        meta = obj.metadata
        body = {"metadata": {"uid": meta.uid}, "spec": spec}
        await self._client.patch(resource, meta.name, body, meta.namespace)


def is_new_job(job: Job, pods: Sequence[Pod]) -> bool:
    """Return True if a job has never started, so that the objects may be created for it."""
    status = job.status
    if pods or status.start_time is not None or status.succeeded or status.failed:
        return False
    return find_condition(status.conditions, "Suspended") is None


def _controlled(found: Iterable[T], job: Job) -> list[T]:
    return [one for one in found if is_controlled_by(one.metadata.owner_references, job.metadata.uid)]


def _single(found: Iterable[T], job: Job) -> T | None:
    """Return the one object that the job controls; None if there is none, or more than one."""
    own = _controlled(found, job)
    if len(own) > 1:
        log.error("found %d %ss of job %s, which is scheduled without", len(own), own[0].kind, job.metadata.name)
    return own[0] if len(own) == 1 else None
