# SPDX-License-Identifier: Apache-2.0
"""Property tests under faults: no time is started twice, and the status has the active jobs."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.batch_v1 import CronJob, Job
from kubeloop.api.scalars.times import format_time
from kubeloop.controllers.cronjob import wire
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.testing import Cluster, cron_job

NAMESPACE = "default"
MINUTES = 12


class CronJobHarness:
    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.policy = self.chance.choice(["Allow", "Forbid", "Replace"])
        self.informers = cluster.context.informers
        self.loop = cluster.start(wire)
        self.made: dict[str, set[str]] = {}  # UIDs of all jobs ever created; their names have their times
        self.kept = self.chance.choice([(2, 1), (0, 0)])
        limits: dict[str, Any] = {
            "successful_jobs_history_limit": self.kept[0],
            "failed_jobs_history_limit": self.kept[1],
        }
        cluster.add(cron_job(schedule="* * * * *", concurrency_policy=self.policy, **limits))

    def jobs(self) -> list[Job]:
        found: list[Job] = list(self.cluster.client.list(Job, NAMESPACE).items)
        for one in found:
            self.made.setdefault(one.metadata.name, set()).add(one.metadata.uid)
        return [one for one in found if one.metadata.deletion_timestamp is None]

    def running(self) -> list[Job]:
        return [one for one in self.jobs() if not one.status.conditions]

    def step(self) -> None:
        actions = (self.finish, self.finish, self.crash, self.disturb, self.disturb, self.drop_watches)
        self.chance.choice(actions)()
        self.cluster.run(_ticks(self.chance.randint(0, 20)))
        running = self.running()
        assert self.policy == "Allow" or len(running) <= 1
        assert all(len(uids) == 1 for uids in self.made.values()), "no time has two jobs"

    def finish(self) -> None:
        running = self.running()
        if not running:
            return
        chosen, good = self.chance.choice(running), self.chance.random() < 0.7
        now = format_time(self.cluster.clock.now())
        kinds = ("SuccessCriteriaMet", "Complete") if good else ("FailureTarget", "Failed")
        conditions = [{"type": one, "status": "True", "lastTransitionTime": now} for one in kinds]
        status = {"conditions": conditions, "startTime": now} | ({"completionTime": now} if good else {})
        name = chosen.metadata.name
        self.cluster.client.patch(Job, name, {"status": status}, NAMESPACE, subresource="status")

    def disturb(self) -> None:
        faults, resource = self.cluster.faults, self.chance.choice(["jobs", "cronjobs"])
        times = self.chance.randint(1, 3)
        self.chance.choice([faults.lose_answers, faults.fail])("write", resource, times=times)

    def drop_watches(self) -> None:
        resource = self.chance.choice(["jobs", "cronjobs"])
        faults = self.cluster.faults
        faults.drop_watches(resource)
        faults.fail("watch", resource, times=self.chance.randint(0, 3))

    def crash(self) -> None:
        """Kill the manager at any point; the next one starts with the server's state only."""
        cluster = self.cluster
        cluster.stop(self.loop)
        cluster.run(self.informers.stop())
        self.informers = SharedInformerFactory(cluster.async_client, cluster.clock)
        self.loop = wire(replace(cluster.context, informers=self.informers))

        async def start() -> None:
            self.informers.start()

        cluster.run(start())
        cluster.start(self.loop)


async def _ticks(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@settings(max_examples=16, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@example(seed=484252)  # conflicts while the watch is broken
@example(seed=22664)  # a job to replace is gone, and the watch is broken
@given(st.integers(0, 2**32))
def test_each_run_is_started_at_most_once_and_status_shows_active_jobs(seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        env = CronJobHarness(cluster, seed)
        for _ in range(MINUTES):
            for _ in range(3):
                env.step()
                cluster.advance(20)
        cluster.faults.clear()
        cluster.advance(59)  # not over the next minute's jobs, but over all retries
        found = cluster.client.get(CronJob, "job", NAMESPACE)
        assert {one.name for one in found.status.active} == {one.metadata.name for one in env.running()}
        assert len(env.running()) <= 1 or env.policy == "Allow"
        if env.policy == "Allow":
            assert len(env.made) >= MINUTES - 1, "the manager was never away for long"
        ended = [one for one in env.jobs() if one.status.conditions]
        assert len(ended) <= sum(env.kept), "no more are kept than were asked for"
