# SPDX-License-Identifier: Apache-2.0
"""Init containers and sidecars on simulated nodes."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.testing import Cluster
from tests.kubelet.pods import condition_tuple, container, get, is_gone, put, runs, state


def test_init_containers_run_sequentially_before_the_others(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, init_containers=(runs("sleep", "5", name="one"), runs("sleep", "7", name="two")))
    pod = get(cluster)
    assert pod.status.phase == "Pending"
    assert [state(pod, name) for name in ("one", "two", "app")] == ["running", "PodInitializing", "PodInitializing"]
    assert condition_tuple(pod, "Initialized") == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [one two]",
    )
    assert condition_tuple(pod, "Ready") == ("False", "ContainersNotReady", "containers with unready status: [app]")
    cluster.advance(6)
    pod = get(cluster)
    assert [state(pod, name) for name in ("one", "two", "app")] == ["ended 0", "running", "PodInitializing"]
    assert condition_tuple(pod, "Initialized")[2] == "containers with incomplete status: [two]"
    assert container(pod, "one").ready
    cluster.advance(7)
    pod = get(cluster)
    assert pod.status.phase == "Running"
    assert condition_tuple(pod, "Initialized")[0] == condition_tuple(pod, "Ready")[0] == "True"


def test_permanently_failed_init_container_fails_the_pod(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, restart_policy="Never", init_containers=(runs("sh", "-c", "exit 3", name="init"),))
    pod = get(cluster)
    assert pod.status.phase == "Failed"
    assert state(pod, "init") == "ended 3"
    assert state(pod) == "PodInitializing"
    cluster.client.patch(Pod, "pod", {"metadata": {"annotations": {"a": "b"}}}, "default")
    cluster.advance(60)
    pod = get(cluster)
    assert pod.status.phase == "Failed"
    assert container(pod, "init").restart_count == 0


def test_failed_init_container_is_retried_with_backoff(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, init_containers=(runs("false", name="init"),))
    pod = get(cluster)
    assert pod.status.phase == "Pending"
    assert state(pod, "init") == "CrashLoopBackOff"
    cluster.advance(11)
    assert container(get(cluster), "init").restart_count == 2


def test_sidecar_starts_before_and_stays_beside_the_others(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    sidecar = runs("server", name="sidecar", restart_policy="Always")
    put(cluster, init_containers=(sidecar, runs("sleep", "5", name="init")))
    pod = get(cluster)
    assert [state(pod, name) for name in ("sidecar", "init", "app")] == ["running", "running", "PodInitializing"]
    assert pod.status.phase == "Pending"
    cluster.advance(6)
    pod = get(cluster)
    assert pod.status.phase == "Running"
    assert [state(pod, name) for name in ("sidecar", "init", "app")] == ["running", "ended 0", "running"]


def test_unstarted_sidecar_blocks_the_next_container(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    sidecar = runs("server", name="sidecar", restart_policy="Always")
    put(cluster, init_containers=(sidecar,), script={"start-delay.sidecar": "5s"})
    pod = get(cluster)
    assert state(pod) == "PodInitializing"
    cluster.advance(6)
    assert state(get(cluster)) == "running"


def test_terminated_sidecar_is_restarted_regardless_of_restart_policy(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    sidecar = runs("sleep", "5", name="sidecar", restart_policy="Always")
    put(cluster, restart_policy="Never", init_containers=(sidecar,))
    cluster.advance(6)
    pod = get(cluster)
    assert container(pod, "sidecar").restart_count == 1
    assert pod.status.phase == "Running"


def test_sidecars_are_terminated_after_the_containers(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    sidecars = tuple(runs("server", name=name, restart_policy="Always") for name in ("first", "second"))
    script = {"stop-delay.first": "2s", "stop-delay.second": "3s"}
    put(cluster, restart_policy="Never", containers=(runs("sleep", "5"),), init_containers=sidecars, script=script)
    cluster.advance(6)
    pod = get(cluster)
    assert [state(pod, name) for name in ("first", "second", "app")] == ["running", "running", "ended 0"]
    assert pod.status.phase == "Running"
    cluster.advance(3)
    assert [state(get(cluster), name) for name in ("first", "second")] == ["running", "ended 0"]
    cluster.advance(3)
    pod = get(cluster)
    assert [state(pod, name) for name in ("first", "second")] == ["ended 0", "ended 0"]
    assert pod.status.phase == "Succeeded"


def test_deleted_pod_terminates_its_sidecars_last(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    sidecar = runs("server", name="sidecar", restart_policy="Always")
    put(cluster, init_containers=(sidecar,), script={"stop-delay.app": "3s", "stop-delay.sidecar": "4s"})
    cluster.client.delete(Pod, "pod", "default")
    cluster.advance(2)
    assert [state(get(cluster), name) for name in ("sidecar", "app")] == ["running", "running"]
    cluster.advance(2)
    assert [state(get(cluster), name) for name in ("sidecar", "app")] == ["running", "ended 0"]
    cluster.advance(4)
    assert is_gone(cluster)
