# SPDX-License-Identifier: Apache-2.0
"""Warnings about workloads: names that become parts of host names, and pod templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubeloop.api.generated.apps_v1 import DaemonSet, StatefulSet
from kubeloop.api.generated.batch_v1 import CronJob, Job, JobSpec
from kubeloop.api.generated.core_v1 import PodTemplate
from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.meta.name_rules import check_dns1123_label
from kubeloop.api.warnings.amounts import fraction_warnings
from kubeloop.api.warnings.pods import template_warnings
from kubeloop.api.warnings.rules import Warnings

_SPEC: Final = FieldPath("spec")
_TEMPLATE: Final = _SPEC.child("template")
_JOB_OF_CRON: Final = _SPEC.child("jobTemplate", "spec")
_KEEPS_ALL: Final = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)
_HUGE_JOB: Final = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
    "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)
_ZONE_IN_SCHEDULE: Final = (
    "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, "
    "see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)


def _about_name(obj: Any) -> list[str]:
    problems = check_dns1123_label(obj.metadata.name)
    if not problems:
        return []
    return [
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(problems)}]"
    ]


def _is_newer(new: Any, old: Any) -> bool:
    """Return True if an update changed the spec, so that warnings about it are new."""
    return bool(new.metadata.generation != old.metadata.generation)


# -- deployments, replica sets, replication controllers ---------------------------------------------------------------


def _templated(obj: Any) -> list[str]:
    return template_warnings(obj.spec.template, _TEMPLATE) if obj.spec.template is not None else []


def _named_created(obj: Any) -> list[str]:
    return _about_name(obj) + _templated(obj)


def _templated_updated(new: Any, old: Any) -> list[str]:
    return _templated(new) if _is_newer(new, old) else []


NAMED_TEMPLATE = Warnings(create=_named_created, update=_templated_updated)


# -- daemon sets, pod templates ---------------------------------------------------------------------------------------


def _daemons_updated(new: DaemonSet, old: DaemonSet) -> list[str]:
    return _templated(new) if new.spec.template != old.spec.template else []


def _of_template(obj: PodTemplate) -> list[str]:
    return template_warnings(obj.template, FieldPath("template"))


def _template_updated(new: PodTemplate, old: PodTemplate) -> list[str]:
    return _of_template(new) if _is_newer(new, old) else []


DAEMON_SET = Warnings(create=_templated, update=_daemons_updated)
POD_TEMPLATE = Warnings(create=_of_template, update=_template_updated)


# -- stateful sets ----------------------------------------------------------------------------------------------------


def _about_claims(obj: StatefulSet, *below: str) -> Iterator[str]:
    for i, claim in enumerate(obj.spec.volume_claim_templates):
        at = _SPEC.child("volumeClaimTemplates").index(i).child(*below, "resources")
        yield from fraction_warnings(at.child("requests"), claim.spec.resources.requests, "storage")
        yield from fraction_warnings(at.child("limits"), claim.spec.resources.limits, "storage")
    if obj.spec.revision_history_limit is not None and obj.spec.revision_history_limit < 0:
        yield _KEEPS_ALL


def _set_created(obj: StatefulSet) -> list[str]:
    return [*_templated(obj), *_about_claims(obj)]


def _set_updated(new: StatefulSet, old: StatefulSet) -> list[str]:
    # Upstream writes the step in the path with a capital letter here, and leaves it out on create.
    return [*_templated_updated(new, old), *_about_claims(new, "Spec")]


STATEFUL_SET = Warnings(create=_set_created, update=_set_updated)


# -- jobs -------------------------------------------------------------------------------------------------------------


def _of_job(spec: JobSpec, path: FieldPath) -> list[str]:
    is_huge = spec.completion_mode == "Indexed" and (spec.completions or 0) > 10**5 and (spec.parallelism or 0) > 10**4
    return [*([f"{path}: {_HUGE_JOB}"] if is_huge else ()), *template_warnings(spec.template, path.child("template"))]


def _job_created(obj: Job) -> list[str]:
    return _about_name(obj) + _of_job(obj.spec, _SPEC)


def _job_updated(new: Job, old: Job) -> list[str]:
    return _of_job(new.spec, _SPEC) if _is_newer(new, old) else []


def _cron_created(obj: CronJob) -> list[str]:
    return _about_name(obj) + _of_job(obj.spec.job_template.spec, _JOB_OF_CRON)


def _cron_updated(new: CronJob, old: CronJob) -> list[str]:
    said = _of_job(new.spec.job_template.spec, _JOB_OF_CRON) if _is_newer(new, old) else []
    return [*said, _ZONE_IN_SCHEDULE] if "TZ" in new.spec.schedule else said


JOB = Warnings(create=_job_created, update=_job_updated)
CRON_JOB = Warnings(create=_cron_created, update=_cron_updated)
