# SPDX-License-Identifier: Apache-2.0
"""The loops of jobs and cron jobs need no other rights than upstream gives their accounts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kubeloop.api.generated.batch_v1 import CronJob, Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.client import Client
from kubeloop.controllers import cronjob
from kubeloop.controllers import job as jobs
from kubeloop.controllers.app.context import Wire
from kubeloop.testing import Cluster, cron_job, job
from tests.controllers.jobs import NAMESPACE, SECOND, bind, conditions, fail, pods, run, status, succeed


def start_as(cluster: Cluster, account: str, wire: Wire) -> None:
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED)
    user = User(f"system:serviceaccount:kube-system:{account}", groups)
    cluster.start(wire(replace(cluster.context, client=Client(InProcessTransport(cluster.server, user)))))


def test_job_controllers_role_is_sufficient(cluster: Cluster) -> None:
    start_as(cluster, "job-controller", jobs.wire)
    cluster.add(job(parallelism=2, completions=2))
    cluster.advance(SECOND)
    one, other = pods(cluster)
    fail(cluster, one)
    succeed(cluster, other)
    cluster.advance(30)
    assert status(cluster) == {"active": 1, "succeeded": 1, "failed": 1}
    (lone,) = pods(cluster, "Pending")
    cluster.client.patch(Pod, lone.metadata.name, {"metadata": {"ownerReferences": [], "finalizers": []}}, NAMESPACE)
    cluster.advance(SECOND)
    succeed(cluster, lone)
    cluster.advance(SECOND)
    assert "Complete" in conditions(cluster)


def test_job_controllers_role_is_sufficient_to_suspend(cluster: Cluster) -> None:
    start_as(cluster, "job-controller", jobs.wire)
    cluster.add(job())
    cluster.advance(SECOND)
    bind(cluster, *pods(cluster))
    run(cluster, *pods(cluster))
    cluster.client.patch(Job, "job", {"spec": {"suspend": True}}, NAMESPACE)
    cluster.advance(SECOND)
    assert status(cluster) == {"terminating": 1}
    assert conditions(cluster)["Suspended"][0] == "True"


def test_cronjob_controllers_role_is_sufficient(make_cluster: Callable[..., Any]) -> None:
    cluster = make_cluster()
    start_as(cluster, "cronjob-controller", cronjob.wire)
    cluster.add(cron_job(schedule="* * * * *", concurrency_policy="Replace"))
    cluster.advance(60.2)
    (first,) = cluster.client.list(Job, NAMESPACE).items
    cluster.advance(60)
    found = [one for one in cluster.client.list(Job, NAMESPACE).items if one.metadata.deletion_timestamp is None]
    assert [one.metadata.name for one in found] != [first.metadata.name]
    assert [one.name for one in cluster.client.get(CronJob, "job", NAMESPACE).status.active] == [
        one.metadata.name for one in found
    ]
