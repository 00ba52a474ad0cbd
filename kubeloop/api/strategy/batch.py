# SPDX-License-Identifier: Apache-2.0
"""Strategies of jobs and cron jobs: generates the unique labels by which a job selects its pods."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features
from kubeloop.api.generated.batch_v1 import CronJob, Job, JobSpec
from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.api.strategy.base import RESETS_SPEC, Strategy
from kubeloop.api.strategy.pods.gates import drop_disabled_template_fields

_UID_LABEL = "batch.kubernetes.io/controller-uid"
_NAME_LABEL = "batch.kubernetes.io/job-name"
_OLD_UID_LABEL = "controller-uid"
_OLD_NAME_LABEL = "job-name"


def _refine_job(new: Job, old: Job | None) -> None:
    if old is None and not new.spec.manual_selector:
        _select_own_pods(new)


def _refine_job_status(new: Job, old: Job) -> None:
    """Default the labels of a job to those of its pods, also in a status update."""
    if not new.metadata.labels:
        force_setattr(new.metadata, "labels", old.spec.template.metadata.labels)


def _drop_disabled_job_fields(new: Job, old: Job | None, features: Features) -> None:
    _drop_disabled(new.spec, None if old is None else old.spec, features)


def _drop_disabled_cron_job_fields(new: CronJob, old: CronJob | None, features: Features) -> None:
    _drop_disabled(new.spec.job_template.spec, None if old is None else old.spec.job_template.spec, features)


def _drop_disabled(new: JobSpec, old: JobSpec | None, features: Features) -> None:
    is_new_use = new.scheduling is not None and (old is None or old.scheduling is None)
    if is_new_use and not features.is_enabled("WorkloadWithJob"):
        force_setattr(new, "scheduling", None)
    drop_disabled_template_fields(new.template, None if old is None else old.template, features)


def _select_own_pods(job: Job) -> None:
    """Generate a job's selector and labels; the author's labels stay, validation rejects contradictions."""
    uid, name = job.metadata.uid, job.metadata.name
    template = job.spec.template.metadata
    shared = bool(template.labels) and job.metadata.labels is template.labels
    labels: Mapping[str, str] = {
        _OLD_NAME_LABEL: name,
        _NAME_LABEL: name,
        _OLD_UID_LABEL: uid,
        _UID_LABEL: uid,
        **template.labels,
    }
    force_setattr(template, "labels", labels)
    if shared:
        # Defaults gave the job the identical labels: it gets those just added too.
        force_setattr(job.metadata, "labels", labels)
    selector = job.spec.selector or LabelSelector()
    matched = {_UID_LABEL: uid, **selector.match_labels}
    force_setattr(job.spec, "selector", replace(selector, match_labels=matched))


def _default_stored_job(job: Job) -> None:
    """Default the labels of a job to those of its pods, which may all be generated."""
    if not job.metadata.labels:
        force_setattr(job.metadata, "labels", job.spec.template.metadata.labels)


JOB = Strategy(
    has_status=True,
    generation_of=("spec",),
    reset_fields=RESETS_SPEC,
    garbage_collection="Orphan",
    drop_disabled=_drop_disabled_job_fields,
    refine=_refine_job,
    refine_status=_refine_job_status,
    default_stored=_default_stored_job,
)
CRON_JOB = Strategy(
    has_status=True,
    generation_of=("spec",),
    reset_fields=RESETS_SPEC,
    drop_disabled=_drop_disabled_cron_job_fields,
)
