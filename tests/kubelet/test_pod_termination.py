# SPDX-License-Identifier: Apache-2.0
"""Tests of pod termination on simulated nodes: grace periods, hooks, deadlines, failed starts."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import (
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    PodReadinessGate,
    SleepAction,
)
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.kubelet.simulated.runtime import SimulatedRuntime
from kubeloop.testing import Cluster
from tests.kubelet.pods import condition_tuple, container, get, is_gone, put, runs, state


def test_container_exceeding_its_grace_period_is_killed(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    app = runs("server")
    put(cluster, containers=(app,), termination_grace_period_seconds=10, script={"stop-delay": "1m"})
    cluster.client.patch(Pod, "pod", {"metadata": {"finalizers": ["example.com/mine"]}}, "default")
    cluster.client.delete(Pod, "pod", "default")
    cluster.advance(9)
    assert state(get(cluster)) == "running"
    cluster.advance(2)
    assert state(get(cluster)) == "ended 137"
    assert get(cluster).status.phase == "Failed"


def test_shorter_grace_period_applies_to_a_terminating_pod(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, script={"stop-delay": "1m"}, termination_grace_period_seconds=50)
    cluster.client.delete(Pod, "pod", "default")
    cluster.advance(3)
    cluster.client.delete(Pod, "pod", "default", grace_seconds=5)
    cluster.advance(6)
    assert is_gone(cluster)


def test_pre_stop_hook_runs_before_termination(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    sleep = runs("server", lifecycle=Lifecycle(pre_stop=LifecycleHandler(sleep=SleepAction(seconds=5))))
    command = LifecycleHandler(exec=ExecAction(command=("sh", "-c", "sleep 4; true")))
    put(cluster, containers=(sleep, runs("server", name="other", lifecycle=Lifecycle(pre_stop=command))))
    cluster.client.delete(Pod, "pod", "default")
    cluster.advance(3)
    assert [state(get(cluster), name) for name in ("app", "other")] == ["running", "running"]
    cluster.advance(1.5)
    assert [state(get(cluster), name) for name in ("app", "other")] == ["running", "ended 0"]
    cluster.advance(1)
    assert is_gone(cluster)
    messages = sorted(event.message for event in cluster.events(reason="Killing"))
    assert messages == ["Stopping container app", "Stopping container other"]


def test_active_deadline_fails_the_pod(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, active_deadline_seconds=60)
    cluster.advance(59)
    assert get(cluster).status.phase == "Running"
    cluster.advance(2)
    pod = get(cluster)
    assert (pod.status.phase, pod.status.reason) == ("Failed", "DeadlineExceeded")
    assert pod.status.message == "Pod was active on the node longer than the specified deadline"
    assert state(pod) == "ended 0"
    assert condition_tuple(pod, "Ready")[:2] == ("False", "PodFailed")


def test_readiness_gate_is_waited_for(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, readiness_gates=(PodReadinessGate(condition_type="example.com/gate"),))
    pod = get(cluster)
    assert condition_tuple(pod, "ContainersReady")[0] == "True"
    assert condition_tuple(pod, "Ready") == (
        "False",
        "ReadinessGatesNotReady",
        'corresponding condition of pod readiness gate "example.com/gate" does not exist.',
    )
    patch = {"status": {"conditions": [{"type": "example.com/gate", "status": "True"}]}}
    cluster.client.patch(Pod, "pod", patch, "default", subresource="status", type=STRATEGIC_PATCH)
    cluster.settle()
    assert condition_tuple(get(cluster), "Ready")[0] == "True"
    patch["status"]["conditions"][0]["status"] = "False"
    cluster.client.patch(Pod, "pod", patch, "default", subresource="status", type=STRATEGIC_PATCH)
    cluster.settle()
    message = 'the status of pod readiness gate "example.com/gate" is not "True", but False'
    assert condition_tuple(get(cluster), "Ready") == ("False", "ReadinessGatesNotReady", message)


def test_failed_image_pull_is_retried(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, script={"start-error": "ErrImagePull"})
    pod = get(cluster)
    assert (pod.status.phase, state(pod)) == ("Pending", "ErrImagePull")
    cluster.advance(2)
    assert state(get(cluster)) == "ImagePullBackOff"
    cluster.client.patch(Pod, "pod", {"metadata": {"annotations": {"sim.kubeloop.io/start-error": None}}}, "default")
    cluster.advance(10)
    assert state(get(cluster)) == "running"
    failed = [event.message for event in cluster.events(reason="Failed")]
    assert failed[0].startswith('Failed to pull image "registry.example/app:1"')
    assert failed[1] == "Error: ErrImagePull"


def test_never_started_container_of_a_finished_pod_is_unknown(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, script={"start-error": "ErrImagePull"})
    put(cluster, "evicted", containers=(runs("false"),), active_deadline_seconds=5)
    cluster.client.patch(Pod, "pod", {"metadata": {"finalizers": ["example.com/mine"]}}, "default")
    cluster.client.delete(Pod, "pod", "default")
    cluster.advance(6)
    for name in ("pod", "evicted"):
        pod = get(cluster, name)
        end = container(pod).state.terminated
        assert end is not None
        assert (pod.status.phase, end.exit_code, end.reason) == ("Failed", 137, "ContainerStatusUnknown")
        assert end.message == "The container could not be located when the pod was terminated"


def test_unstarted_containers_stay_waiting(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    init = (runs("sleep", "100", name="first"), runs("true", name="second"))
    put(cluster, init_containers=init, script={"start-error.first": "ErrImagePull"})
    cluster.client.patch(Pod, "pod", {"metadata": {"finalizers": ["example.com/mine"]}}, "default")
    cluster.client.delete(Pod, "pod", "default")
    cluster.settle()
    pod = get(cluster)
    states = [state(pod, name) for name in ("first", "second", "app")]
    assert (states, pod.status.phase) == (["ended 137", "PodInitializing", "PodInitializing"], "Failed")


def test_container_with_start_delay_is_creating(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, script={"start-delay": "20s"})
    pod = get(cluster)
    assert (pod.status.phase, state(pod)) == ("Pending", "ContainerCreating")
    cluster.advance(21)
    assert get(cluster).status.phase == "Running"


def test_scripted_termination_has_its_reason(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    script = {"exit-after": "5s", "exit-code": "137", "exit-reason": "OOMKilled"}
    put(cluster, restart_policy="Never", script=script)
    cluster.advance(6)
    end = container(get(cluster)).state.terminated
    assert end is not None
    assert (end.exit_code, end.reason) == (137, "OOMKilled")


def test_pod_marked_failed_by_another_client_is_terminated(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    cluster.client.patch(Pod, "pod", {"status": {"phase": "Failed", "reason": "Mine"}}, "default", subresource="status")
    cluster.settle()
    pod = get(cluster)
    assert (pod.status.phase, pod.status.reason) == ("Failed", "Mine")
    assert state(pod) == "ended 0"


def test_resources_are_released_before_the_final_status_is_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    phases: list[str] = []
    failures = [OSError("busy")]

    async def unprepare(runtime: SimulatedRuntime, pod: Pod) -> None:
        phases.append(pod.status.phase)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(SimulatedRuntime, "unprepare_pod", unprepare)
    cluster.add_nodes(1)
    put(cluster, containers=(runs("server"),), restart_policy="Never", script={"exit-after": "5s"})
    cluster.advance(600)
    assert phases[:2] == ["Running", "Running"]  # a failure is repeated
    assert get(cluster).status.phase == "Succeeded"
