# SPDX-License-Identifier: Apache-2.0
"""Jobs and pods for tests of the job controller; the tests play the kubelet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.scalars.times import format_time
from kubeloop.testing import Cluster

NAMESPACE = "default"
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
SECOND = 1.0  # long enough for all that isn't backed off


def job_of(cluster: Cluster, name: str = "job") -> Job:
    found: Job = cluster.client.get(Job, name, NAMESPACE)
    return found


def status(cluster: Cluster, name: str = "job") -> dict[str, Any]:
    """A job's status without its times and conditions, and without what is always there."""
    plain: dict[str, Any] = codec.to_plain(job_of(cluster, name).status)
    for key in ("conditions", "startTime", "completionTime"):
        plain.pop(key, None)
    return {key: value for key, value in plain.items() if value not in (0, {})}


def conditions(cluster: Cluster, name: str = "job") -> dict[str, tuple[str, str, str]]:
    """Type to status, reason and message."""
    return {one.type: (one.status, one.reason, one.message) for one in job_of(cluster, name).status.conditions}


def pods(cluster: Cluster, phase: str = "", name: str = "job") -> list[Pod]:
    """A job's pods, oldest first."""
    found = cluster.client.list(Pod, NAMESPACE, labels={"job-name": name}).items
    chosen = [one for one in found if phase in ("", one.status.phase)]
    return sorted(chosen, key=lambda one: (one.metadata.creation_timestamp, one.metadata.name))


def active(cluster: Cluster, name: str = "job") -> list[Pod]:
    return [one for one in pods(cluster, "Pending", name) + pods(cluster, "Running", name) if not deleted(one)]


def deleted(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def indexes(found: Sequence[Pod]) -> list[int]:
    return sorted(int(one.metadata.annotations[INDEX]) for one in found)


def of_index(found: Sequence[Pod], index: int) -> Pod:
    return next(one for one in found if one.metadata.annotations[INDEX] == str(index))


def report(cluster: Cluster, pod: Pod, **fields: Any) -> Pod:
    """Write a pod status like a kubelet; returns the pod."""
    meta = pod.metadata
    said: Pod = cluster.client.patch(Pod, meta.name, {"status": fields}, meta.namespace, subresource="status")
    return said


def run(cluster: Cluster, *which: Pod) -> None:
    for pod in which:
        report(cluster, pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}])


def succeed(cluster: Cluster, *which: Pod) -> None:
    for pod in which:
        report(cluster, pod, phase="Succeeded", containerStatuses=[_ended(cluster, 0)])


def fail(cluster: Cluster, *which: Pod, code: int = 1, conditions: Sequence[tuple[str, str]] = ()) -> None:
    said = [{"type": kind, "status": value} for kind, value in conditions]
    for pod in which:
        report(cluster, pod, phase="Failed", containerStatuses=[_ended(cluster, code)], conditions=said)


def bind(cluster: Cluster, *which: Pod) -> None:
    """Give pods a node, so that their deletion takes time."""
    for pod in which:
        cluster.client.bind(pod.metadata.name, pod.metadata.namespace, "node")


def end_deleted(cluster: Cluster) -> None:
    """Terminate deleted pods like a kubelet, then remove them."""
    for pod in cluster.client.list(Pod, NAMESPACE).items:
        if deleted(pod):
            cluster.client.delete(Pod, pod.metadata.name, pod.metadata.namespace, grace_seconds=0)


def _ended(cluster: Cluster, code: int) -> dict[str, Any]:
    now = format_time(cluster.clock.now())
    terminated = {"exitCode": code, "startedAt": now, "finishedAt": now}
    state = {"terminated": terminated}
    return {"name": "app", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}


def job_events(cluster: Cluster, kind: str = "Job") -> list[str]:
    """Events about jobs, oldest first, with the names of pods left out."""
    return [
        f"{one.type} {one.reason}: {one.message.partition(' pod: ')[0]}"
        for one in cluster.events()
        if one.involved_object.kind == kind
    ]
