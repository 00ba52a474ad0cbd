"""How pods end on simulated nodes: grace, hooks, deadlines, failures to start."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import (
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    PodReadinessGate,
    SleepAction,
)
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.testing import Cluster
from tests.kubelet.pods import container, get, is_gone, put, runs, said, state


def test_container_that_takes_longer_than_its_grace_is_killed(cluster: Cluster) -> None:
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


def test_shorter_grace_counts_even_while_a_pod_ends(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, script={"stop-delay": "1m"}, termination_grace_period_seconds=50)
    cluster.client.delete(Pod, "pod", "default")
    cluster.advance(3)
    cluster.client.delete(Pod, "pod", "default", grace_seconds=5)
    cluster.advance(6)
    assert is_gone(cluster)


def test_hook_runs_before_a_container_ends(cluster: Cluster) -> None:
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


def test_pod_that_is_active_for_too_long_fails(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, active_deadline_seconds=60)
    cluster.advance(59)
    assert get(cluster).status.phase == "Running"
    cluster.advance(2)
    pod = get(cluster)
    assert (pod.status.phase, pod.status.reason) == ("Failed", "DeadlineExceeded")
    assert pod.status.message == "Pod was active on the node longer than the specified deadline"
    assert state(pod) == "ended 0"
    assert said(pod, "Ready")[:2] == ("False", "PodFailed")


def test_readiness_gate_of_somebody_else_is_waited_for(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, readiness_gates=(PodReadinessGate(condition_type="example.com/gate"),))
    pod = get(cluster)
    assert said(pod, "ContainersReady")[0] == "True"
    assert said(pod, "Ready") == (
        "False",
        "ReadinessGatesNotReady",
        'corresponding condition of pod readiness gate "example.com/gate" does not exist.',
    )
    patch = {"status": {"conditions": [{"type": "example.com/gate", "status": "True"}]}}
    cluster.client.patch(Pod, "pod", patch, "default", subresource="status", type=STRATEGIC_PATCH)
    cluster.settle()
    assert said(get(cluster), "Ready")[0] == "True"
    patch["status"]["conditions"][0]["status"] = "False"
    cluster.client.patch(Pod, "pod", patch, "default", subresource="status", type=STRATEGIC_PATCH)
    cluster.settle()
    message = 'the status of pod readiness gate "example.com/gate" is not "True", but False'
    assert said(get(cluster), "Ready") == ("False", "ReadinessGatesNotReady", message)


def test_image_that_cannot_be_had_is_tried_again(cluster: Cluster) -> None:
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


def test_container_that_never_began_counts_as_lost_once_its_pod_is_over(cluster: Cluster) -> None:
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


def test_containers_whose_turn_never_came_wait_for_good(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    init = (runs("sleep", "100", name="first"), runs("true", name="second"))
    put(cluster, init_containers=init, script={"start-error.first": "ErrImagePull"})
    cluster.client.patch(Pod, "pod", {"metadata": {"finalizers": ["example.com/mine"]}}, "default")
    cluster.client.delete(Pod, "pod", "default")
    cluster.settle()
    pod = get(cluster)
    states = [state(pod, name) for name in ("first", "second", "app")]
    assert (states, pod.status.phase) == (["ended 137", "PodInitializing", "PodInitializing"], "Failed")


def test_container_that_starts_late_is_being_created(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, script={"start-delay": "20s"})
    pod = get(cluster)
    assert (pod.status.phase, state(pod)) == ("Pending", "ContainerCreating")
    cluster.advance(21)
    assert get(cluster).status.phase == "Running"


def test_scripted_end_says_its_reason(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    script = {"exit-after": "5s", "exit-code": "137", "exit-reason": "OOMKilled"}
    put(cluster, restart_policy="Never", script=script)
    cluster.advance(6)
    end = container(get(cluster)).state.terminated
    assert end is not None
    assert (end.exit_code, end.reason) == (137, "OOMKilled")


def test_pod_that_somebody_else_calls_failed_is_ended(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    cluster.client.patch(Pod, "pod", {"status": {"phase": "Failed", "reason": "Mine"}}, "default", subresource="status")
    cluster.settle()
    pod = get(cluster)
    assert (pod.status.phase, pod.status.reason) == ("Failed", "Mine")
    assert state(pod) == "ended 0"
