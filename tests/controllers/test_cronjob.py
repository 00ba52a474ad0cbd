# SPDX-License-Identifier: Apache-2.0
"""Tests of CronJobs: a job at each scheduled time, and history limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kubeloop.api.generated.batch_v1 import CronJob, Job
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.scalars.times import format_time
from kubeloop.controllers.cronjob import wire
from kubeloop.controllers.cronjob.jobs import SCHEDULED_AT
from kubeloop.controllers.cronjob.reconciler import schedule_text
from kubeloop.testing import Cluster, config_map, cron_job, job
from kubeloop.testing.builders import metadata

NAMESPACE = "default"
EPOCH_MINUTES = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) // 60  # at which clusters begin
HOUR = 3600
SOON = 0.2  # after a scheduled time


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    cluster.start(wire)
    return cluster


def of(cluster: Cluster, name: str = "job") -> CronJob:
    found: CronJob = cluster.client.get(CronJob, name, NAMESPACE)
    return found


def jobs(cluster: Cluster) -> list[Job]:
    """Oldest first, without those that are being deleted."""
    found = [one for one in cluster.client.list(Job, NAMESPACE).items if one.metadata.deletion_timestamp is None]
    return sorted(found, key=lambda one: (one.metadata.creation_timestamp, one.metadata.name))


def names(cluster: Cluster) -> list[str]:
    return [one.metadata.name for one in jobs(cluster)]


def active(cluster: Cluster) -> list[str]:
    return [one.name for one in of(cluster).status.active]


def finish(cluster: Cluster, which: Job, kind: str = "Complete") -> None:
    now = format_time(cluster.clock.now())
    before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    conditions = [{"type": one, "status": "True", "lastTransitionTime": now} for one in (before, kind)]
    status: dict[str, Any] = {"conditions": conditions, "startTime": now}
    if kind == "Complete":
        status["completionTime"] = now
    meta = which.metadata
    cluster.client.patch(Job, meta.name, {"status": status}, meta.namespace, subresource="status")


def cron_job_events(cluster: Cluster) -> list[str]:
    about = [one for one in cluster.events() if one.involved_object.kind == "CronJob"]
    return [f"{one.type} {one.reason}: {one.message}" for one in about]


def test_job_is_created_at_its_scheduled_time(plane: Cluster) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["not/copied"]},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}},
    }
    about = {"name": "job", "namespace": NAMESPACE}
    spec = {"schedule": "30 * * * *", "jobTemplate": template}
    made = plane.add({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": about, "spec": spec})
    plane.advance(30 * 60 - 1)
    assert not jobs(plane)
    plane.advance(1 + SOON)
    (one,) = jobs(plane)
    assert one.metadata.name == f"job-{EPOCH_MINUTES + 30}"
    assert one.metadata.labels["a"] == "b"
    assert one.metadata.annotations == {"c": "d", SCHEDULED_AT: "2026-01-01T00:30:00Z"}
    assert not one.metadata.finalizers
    (owner,) = one.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller, owner.block_owner_deletion) == (
        *("CronJob", made.metadata.uid),
        *(True, True),
    )
    found = of(plane)
    assert found.status.last_schedule_time == "2026-01-01T00:30:00Z"
    (running,) = found.status.active
    assert (running.kind, running.api_version, running.name) == ("Job", "batch/v1", one.metadata.name)
    assert (running.uid, running.namespace) == (one.metadata.uid, NAMESPACE)
    assert cron_job_events(plane) == [f"Normal SuccessfulCreate: Created job {one.metadata.name}"]


def test_finished_job_is_removed_from_active_and_sets_last_successful_time(plane: Cluster) -> None:
    plane.add(cron_job(schedule="0 * * * *"))
    plane.advance(HOUR + SOON)
    (one,) = jobs(plane)
    plane.advance(60)
    finish(plane, one)
    plane.settle()
    found = of(plane)
    assert not found.status.active
    assert found.status.last_successful_time == "2026-01-01T01:01:00Z"
    assert (
        cron_job_events(plane)[-1]
        == f"Normal SawCompletedJob: Saw completed job: {one.metadata.name}, condition: Complete"
    )
    plane.advance(HOUR)
    finish(plane, jobs(plane)[-1], "Failed")
    plane.settle()
    assert of(plane).status.last_successful_time == "2026-01-01T01:01:00Z"
    assert cron_job_events(plane)[-1].endswith("condition: Failed")


def test_jobs_overlap_by_default(plane: Cluster) -> None:
    plane.add(cron_job(schedule="* * * * *"))
    plane.advance(3 * 60 + SOON)
    assert len(active(plane)) == 3


def test_forbid_policy_skips_until_the_next_time(plane: Cluster) -> None:
    plane.add(cron_job(schedule="* * * * *", concurrency_policy="Forbid"))
    plane.advance(3 * 60 + SOON)
    (first,) = jobs(plane)
    assert active(plane) == [first.metadata.name]
    message = "Not starting job because prior execution is running and concurrency policy is Forbid"
    assert cron_job_events(plane)[-1] == f"Normal JobAlreadyActive: {message}"
    finish(plane, first)
    plane.settle()
    assert len(jobs(plane)) == 2, "the time that is due is made up for as soon as there is room"
    assert of(plane).status.last_schedule_time == "2026-01-01T00:03:00Z"


def test_replace_policy_deletes_running_jobs(plane: Cluster) -> None:
    plane.add(cron_job(schedule="* * * * *", concurrency_policy="Replace"))
    plane.advance(60 + SOON)
    (first,) = names(plane)
    plane.advance(60)
    (second,) = names(plane)
    assert second == f"job-{EPOCH_MINUTES + 2}"
    assert active(plane) == [second]
    assert f"Normal SuccessfulDelete: Deleted job {first}" in cron_job_events(plane)


def test_history_limits_are_enforced(plane: Cluster) -> None:
    plane.add(cron_job(schedule="* * * * *", successful_jobs_history_limit=2, failed_jobs_history_limit=1))
    made = []
    for number in range(8):
        plane.advance(60 + SOON)
        made.append(names(plane)[-1])
        finish(plane, jobs(plane)[-1], "Failed" if number % 2 else "Complete")
        plane.settle()
    assert names(plane) == [made[4], made[6], made[7]]
    assert cron_job_events(plane).count(f"Normal SuccessfulDelete: Deleted job {made[0]}") == 1


def test_history_limits_unset_keep_all_and_zero_keep_none(plane: Cluster) -> None:
    plane.add(cron_job(schedule="* * * * *", successful_jobs_history_limit=0))
    plane.advance(60 + SOON)
    finish(plane, jobs(plane)[0])
    plane.settle()
    assert not jobs(plane)
    assert not active(plane)


def test_suspended_cronjob_starts_nothing_and_catches_up_once_when_resumed(plane: Cluster) -> None:
    plane.add(cron_job(schedule="0 * * * *", suspend=True))
    plane.advance(5 * HOUR + 60)
    assert not jobs(plane)
    plane.client.patch(CronJob, "job", {"spec": {"suspend": False}}, NAMESPACE)
    plane.settle()
    assert names(plane) == [f"job-{EPOCH_MINUTES + 5 * 60}"]
    plane.advance(HOUR)
    assert len(jobs(plane)) == 2


def test_missed_starting_deadline_skips_the_run(cluster: Cluster) -> None:
    loop = cluster.start(wire)
    cluster.add(cron_job(schedule="0 * * * *", starting_deadline_seconds=600))
    cluster.advance(HOUR - 60)
    cluster.stop(loop)
    cluster.advance(60 + 900)
    cluster.start(wire)
    cluster.settle()
    assert not jobs(cluster), "the deadline had passed"
    cluster.advance(HOUR - 900 + SOON)
    assert names(cluster) == [f"job-{EPOCH_MINUTES + 120}"]


def test_late_controller_starts_the_latest_missed_run(cluster: Cluster) -> None:
    cluster.add(cron_job(schedule="0 * * * *"))
    cluster.advance(10 * HOUR + 60)
    cluster.start(wire)
    cluster.settle()
    assert names(cluster) == [f"job-{EPOCH_MINUTES + 600}"]
    assert of(cluster).status.last_schedule_time == "2026-01-01T10:00:00Z"
    assert not [one for one in cron_job_events(cluster) if "TooMany" in one]


def test_many_missed_runs_record_a_warning(cluster: Cluster) -> None:
    cluster.add(cron_job(schedule="* * * * *"))
    cluster.advance(101 * 60)
    cluster.start(wire)
    cluster.settle()
    assert names(cluster) == [f"job-{EPOCH_MINUTES + 101}"]
    message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
    assert f"Warning TooManyMissedTimes: {message}" in cron_job_events(cluster)


def test_irregular_schedule_finds_its_most_recent_time(cluster: Cluster) -> None:
    """The first of January 2026 is a Thursday."""
    cluster.add(cron_job(schedule="30 6-16/4 * * 1-5"))
    cluster.advance(days=4, hours=12)  # Monday noon
    cluster.start(wire)
    cluster.settle()
    assert of(cluster).status.last_schedule_time == "2026-01-05T10:30:00Z"


def test_schedule_that_never_fires_records_an_event(plane: Cluster) -> None:
    plane.add(cron_job(schedule="59 23 31 2 *"))
    plane.settle()
    assert cron_job_events(plane) == [
        "Warning InvalidSchedule: invalid schedule: 59 23 31 2 * : "
        "time difference between two schedules is less than 1 second"
    ]
    plane.advance(hours=6)
    assert not jobs(plane)


def test_changed_schedule_starts_at_its_next_time(plane: Cluster) -> None:
    plane.add(cron_job(schedule="0 0 1 1 *"))
    plane.advance(2 * HOUR + 60)
    plane.client.patch(CronJob, "job", {"spec": {"schedule": "0 1-23/2 * * *"}}, NAMESPACE)
    plane.settle()
    assert not jobs(plane), "one o'clock has passed before it was asked for"
    plane.advance(HOUR - 60 + SOON)
    assert names(plane) == [f"job-{EPOCH_MINUTES + 180}"]


def test_every_interval_counts_from_the_last_run(plane: Cluster) -> None:
    plane.advance(17)
    plane.add(cron_job(schedule="@every 90s"))
    plane.advance(90 + SOON)
    assert of(plane).status.last_schedule_time == "2026-01-01T00:01:47Z"
    plane.advance(90)
    assert of(plane).status.last_schedule_time == "2026-01-01T00:03:17Z"
    assert len(jobs(plane)) == 2


def test_deleted_job_is_removed_from_active(plane: Cluster) -> None:
    plane.add(cron_job(schedule="0 * * * *", concurrency_policy="Forbid"))
    plane.advance(HOUR + SOON)
    (name,) = names(plane)
    plane.client.delete(Job, name, NAMESPACE, propagation="Background")
    plane.settle()
    assert not active(plane)
    assert cron_job_events(plane)[-1] == f"Normal MissingJob: Active job went missing: {name}"
    assert not jobs(plane), "its time is not started again"


def test_job_of_another_owner_records_an_event(plane: Cluster) -> None:
    owner = plane.add(cron_job(schedule="0 0 1 1 *"))
    stranger = job("stranger")
    stranger = type(stranger)(metadata=metadata("stranger", NAMESPACE, owner=owner), spec=stranger.spec)
    plane.add(stranger)
    plane.settle()
    message = "Saw a job that the controller did not create or forgot: stranger"
    assert f"Warning UnexpectedJob: {message}" in cron_job_events(plane)


def test_name_collision_with_another_job_is_not_adopted(plane: Cluster) -> None:
    plane.add(cron_job(schedule="0 * * * *"), job(f"job-{EPOCH_MINUTES + 60}"))
    plane.advance(HOUR + SOON)
    assert len(jobs(plane)) == 1
    assert not active(plane)


@pytest.mark.parametrize("lost", ["jobs", "cronjobs"])
def test_lost_responses_start_no_run_twice(plane: Cluster, lost: str) -> None:
    plane.add(cron_job(schedule="0 * * * *"))
    plane.faults.lose_answers("write", lost, times=3)
    plane.advance(HOUR + 60)
    (one,) = jobs(plane)
    assert active(plane) == [one.metadata.name]
    assert of(plane).status.last_schedule_time == "2026-01-01T01:00:00Z"


def test_crash_between_job_and_status_is_recovered(cluster: Cluster) -> None:
    loop = cluster.start(wire)
    cluster.add(cron_job(schedule="0 * * * *"))
    cluster.faults.fail("patch", "cronjobs", times=None)
    cluster.advance(HOUR + SOON)
    cluster.stop(loop)
    assert len(jobs(cluster)) == 1
    assert not active(cluster)
    cluster.faults.clear()
    cluster.start(wire)
    cluster.advance(1)
    assert active(cluster) == names(cluster)
    assert len(jobs(cluster)) == 1


def test_deleted_cronjob_starts_nothing(plane: Cluster) -> None:
    plane.add(cron_job(schedule="0 * * * *"))
    plane.client.delete(CronJob, "job", NAMESPACE, propagation="Foreground")
    plane.advance(2 * HOUR)
    assert not jobs(plane)


def test_rejected_job_records_an_event_and_is_retried(plane: Cluster) -> None:
    plane.faults.fail("create", "jobs", times=2)
    plane.add(cron_job(schedule="0 * * * *"))
    plane.advance(HOUR + 5)
    assert len(jobs(plane)) == 1
    assert cron_job_events(plane)[0].startswith("Warning FailedCreate: Error creating job: ")


def test_unknown_time_zone_is_not_prefixed_to_the_schedule() -> None:
    """A server rejects the zone, but it may be stored from a machine with newer zone data."""
    unknown = cron_job(schedule="0 9 * * *", time_zone="Nowhere/City")
    assert schedule_text(unknown) == "0 9 * * *"
    known = cron_job(schedule="0 9 * * *", time_zone="Asia/Tokyo")
    assert schedule_text(known) == "TZ=Asia/Tokyo 0 9 * * *"


def stored(cluster: Cluster, **spec: Any) -> None:
    """Put a CronJob into the store that a server would refuse by now."""
    cluster.add(cron_job(schedule="0 * * * *"))
    store = cluster.server.registry.store
    (record,) = [one for one in store.range("").records if one.key.endswith("/cronjobs/default/job")]
    body = json.loads(record.value)
    body["spec"] |= spec

    async def write() -> None:
        await store.write(record.key, json.dumps(body).encode(), record.mod_revision)

    cluster.run(write())


def test_zone_in_the_schedule_works_with_a_warning(cluster: Cluster) -> None:
    stored(cluster, schedule="CRON_TZ=Asia/Tokyo 0 9 * * *")
    cluster.start(wire)
    cluster.advance(24 * HOUR + SOON)
    assert [one.metadata.annotations[SCHEDULED_AT] for one in jobs(cluster)] == ["2026-01-02T00:00:00Z"]
    message = (
        'CRON_TZ or TZ used in schedule "CRON_TZ=Asia/Tokyo 0 9 * * *" is not officially supported, see '
        "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
    )
    assert f"Warning UnsupportedSchedule: {message}" in cron_job_events(cluster)


def test_invalid_schedule_records_an_event(cluster: Cluster) -> None:
    stored(cluster, schedule="61 * * * *")
    cluster.start(wire)
    cluster.settle()
    problem = "end of range (61) above maximum (59): 61"
    assert cron_job_events(cluster) == [f'Warning UnparseableSchedule: unparseable schedule: "61 * * * *" : {problem}']


def test_unknown_time_zone_records_an_event(cluster: Cluster) -> None:
    stored(cluster, timeZone="Nowhere/City")
    cluster.start(wire)
    cluster.settle()
    problem = 'invalid timeZone: "Nowhere/City": unknown time zone Nowhere/City'
    assert cron_job_events(cluster) == [f"Warning UnknownTimeZone: {problem}"]


def test_time_zone_applies_to_the_schedule_and_the_annotation(plane: Cluster) -> None:
    plane.add(cron_job(schedule="0 9 * * *", time_zone="Asia/Tokyo"))
    plane.advance(24 * HOUR + SOON)
    (one,) = jobs(plane)
    assert one.metadata.annotations[SCHEDULED_AT] == "2026-01-02T09:00:00+09:00"


def test_schedule_over_a_daylight_saving_change(make_cluster: Callable[..., Cluster]) -> None:
    plane = make_cluster(start=datetime(2026, 3, 25, tzinfo=UTC))
    plane.start(wire)
    specs = {
        "missing-hour": cron_job("missing-hour", schedule="30 2 * * *", time_zone="Europe/Berlin"),
        "morning": cron_job("morning", schedule="0 8 * * *", time_zone="Europe/Berlin"),
        "hourly": cron_job("hourly", schedule="0 * * * *", time_zone="Europe/Berlin"),
        "elsewhere": cron_job("elsewhere", schedule="30 2 * * *", time_zone="America/Phoenix"),
    }
    plane.add(*specs.values())
    plane.advance(7 * 24 * HOUR + SOON)
    stamps: dict[str, list[str]] = {name: [] for name in specs}
    for one in jobs(plane):
        stamps[one.metadata.owner_references[0].name].append(one.metadata.annotations[SCHEDULED_AT])
    days = [f"2026-03-{day}T02:30" for day in (25, 26, 27, 28, 30, 31)]
    assert [one[:16] for one in stamps["missing-hour"]] == days
    assert [one[11:] for one in stamps["morning"]] == ["08:00:00+01:00"] * 4 + ["08:00:00+02:00"] * 3
    assert len(stamps["hourly"]) == 7 * 24
    assert len(stamps["elsewhere"]) == 7


def test_idle_cronjobs_are_not_written(plane: Cluster) -> None:
    plane.add(cron_job(schedule="0 0 1 1 *"), config_map("other"))
    plane.settle()
    before = of(plane).metadata.resource_version
    plane.advance(hours=6)
    assert of(plane).metadata.resource_version == before
    assert plane.client.get(ConfigMap, "other", NAMESPACE)
