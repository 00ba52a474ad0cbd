# SPDX-License-Identifier: Apache-2.0
"""Finished jobs are deleted when their time is over."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.batch_v1 import Job, JobCondition, JobSpec, JobStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.ttl_after_finished import expiration_of, wire
from kubeloop.runtime.controller import TerminalError
from kubeloop.testing import Cluster
from tests.controllers.controller_harness import ControllerHarness, bench

HOUR = 3600


def job(name: str, seconds: int | None) -> dict[str, Any]:
    container = {"name": "main", "image": "x"}
    spec: dict[str, Any] = {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    if seconds is not None:
        spec["ttlSecondsAfterFinished"] = seconds
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "finalizers": ["test/kept"]},
        "spec": spec,
    }


async def finish(plane: ControllerHarness, name: str, kind: str = "Complete") -> None:
    now = format_time(plane.clock.now())
    before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    conditions = [{"type": one, "status": "True", "lastTransitionTime": now} for one in (before, kind)]
    status: dict[str, Any] = {"conditions": conditions, "startTime": now}
    if kind == "Complete":
        status["completionTime"] = now
    await plane.client.patch(Job, name, {"status": status}, "default", subresource="status")


async def is_deleted(plane: ControllerHarness, name: str) -> bool:
    try:
        found = await plane.client.get(Job, name, "default")
    except NotFound:
        return True
    return found.metadata.deletion_timestamp is not None


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_finished_job_is_deleted_exactly_after_its_ttl(kind: str) -> None:
    async def scenario(plane: ControllerHarness) -> None:
        await plane.start(wire)
        await plane.client.create(job("a", HOUR))
        await plane.loop.advance(10 * HOUR)
        await finish(plane, "a", kind)
        await plane.loop.advance(HOUR - 2)
        assert not await is_deleted(plane, "a")
        await plane.loop.advance(3)
        assert await is_deleted(plane, "a")
        found = await plane.client.get(Job, "a", "default")
        assert "foregroundDeletion" in found.metadata.finalizers

    bench(scenario)


def test_job_without_ttl_is_kept() -> None:
    async def scenario(plane: ControllerHarness) -> None:
        await plane.start(wire)
        await plane.client.create(job("a", None))
        await finish(plane, "a")
        await plane.loop.advance(1000 * HOUR)
        assert not await is_deleted(plane, "a")

    bench(scenario)


def test_extended_ttl_is_honored() -> None:
    async def scenario(plane: ControllerHarness) -> None:
        await plane.start(wire)
        await plane.client.create(job("a", HOUR))
        await finish(plane, "a")
        await plane.loop.advance(HOUR / 2)
        await plane.client.patch(Job, "a", {"spec": {"ttlSecondsAfterFinished": 2 * HOUR}}, "default")
        await plane.loop.advance(HOUR)
        assert not await is_deleted(plane, "a")
        await plane.loop.advance(HOUR / 2 + 1)
        assert await is_deleted(plane, "a")

    bench(scenario)


def test_job_finished_before_the_start_is_deleted() -> None:
    async def scenario(plane: ControllerHarness) -> None:
        await plane.client.create(job("a", 0))
        await finish(plane, "a")
        await plane.loop.advance(HOUR)
        await plane.start(wire)
        await plane.settle()
        assert await is_deleted(plane, "a")

    bench(scenario)


def with_conditions(*conditions: JobCondition, deleted: bool = False) -> Job:
    meta = ObjectMeta(name="a", namespace="b", deletion_timestamp=Time("2026-01-01T00:00:00Z") if deleted else None)
    return Job(metadata=meta, spec=JobSpec(ttl_seconds_after_finished=60), status=JobStatus(conditions=conditions))


def test_running_or_terminating_job_has_no_expiration() -> None:
    moment = Time("2026-01-01T00:00:00Z")
    done = JobCondition(type="Complete", status="True", last_transition_time=moment)
    assert expiration_of(with_conditions(done)) is not None
    assert expiration_of(with_conditions(done, deleted=True)) is None
    assert (
        expiration_of(with_conditions(JobCondition(type="Complete", status="False", last_transition_time=moment)))
        is None
    )
    assert (
        expiration_of(with_conditions(JobCondition(type="Suspended", status="True", last_transition_time=moment)))
        is None
    )
    assert expiration_of(None) is None


def test_job_without_finish_time_is_skipped() -> None:
    with pytest.raises(TerminalError, match="unable to find the time when the Job b/a finished"):
        expiration_of(with_conditions(JobCondition(type="Failed", status="True")))


def test_job_whose_ttl_is_removed_concurrently_is_kept(cluster: Cluster) -> None:
    cluster.start(wire)
    made = cluster.client.create(job("a", 0))
    cluster.faults.delay(5, "delete", "jobs")
    now = format_time(cluster.clock.now())
    conditions = [{"type": one, "status": "True", "lastTransitionTime": now} for one in ("FailureTarget", "Failed")]
    status = {"status": {"conditions": conditions, "startTime": now}}
    cluster.client.patch(Job, "a", status, "default", subresource="status")
    cluster.settle()
    cluster.client.patch(Job, "a", {"spec": {"ttlSecondsAfterFinished": None}}, "default")
    cluster.advance(60)
    found = cluster.client.get(Job, "a", "default")
    assert (found.metadata.uid, found.metadata.deletion_timestamp) == (made.metadata.uid, None)
