# SPDX-License-Identifier: Apache-2.0
"""Tests of restart rules for a container, or all of its pod."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    ContainerStateTerminated,
)
from kubeloop.testing import Cluster
from tests.kubelet.pods import condition_tuple, container, get, put, runs, state

REMOVED = ContainerStateTerminated(
    exit_code=137,
    reason="RestartingAllContainers",
    message="The container is removed because RestartAllContainers in place",
)


def rule(action: str, code: int) -> tuple[ContainerRestartRule, ...]:
    codes = ContainerRestartRuleOnExitCodes(operator="In", values=(code,))
    return (ContainerRestartRule(action=action, exit_codes=codes),)


def ruled(action: str, code: int, seconds: int = 5, **fields: str) -> Container:
    return runs(
        *("sh", "-c", f"sleep {seconds}; exit {code}"),
        restart_policy="Never",
        restart_policy_rules=rule(action, 42),
        **fields,
    )


def test_container_is_restarted_for_exit_codes_of_its_rules(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(ruled("Restart", 42),), restart_policy="Never")
    put(cluster, "other", containers=(ruled("Restart", 1),), restart_policy="Never")
    cluster.advance(6)
    assert (state(get(cluster)), container(get(cluster)).restart_count) == ("running", 1)
    assert get(cluster, "other").status.phase == "Failed"


def test_restart_all_containers_starts_with_init_containers_without_backoff(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(
        cluster,
        init_containers=(runs("true", name="init"),),
        containers=(ruled("RestartAllContainers", 42), runs("server", name="beside")),
        restart_policy="Never",
    )
    assert condition_tuple(get(cluster), "AllContainersRestarting") == ("False", "", "")
    for round in (1, 2, 3):
        cluster.advance(5.5)
        pod = get(cluster)
        assert [container(pod, name).restart_count for name in ("init", "app", "beside")] == [round] * 3
        assert (state(pod), state(pod, "beside"), pod.status.phase) == ("running", "running", "Running")
        ends = [container(pod, name).last_state.terminated for name in ("init", "app", "beside")]
        assert ends == [REMOVED] * 3
    assert condition_tuple(get(cluster), "AllContainersRestarting") == ("False", "", "")


def test_containers_waiting_for_restart_keep_the_pod_running(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(
        cluster,
        init_containers=(runs("sleep", "3", name="init"),),
        containers=(ruled("RestartAllContainers", 42), runs("server", name="beside")),
        restart_policy="Never",
    )
    cluster.advance(9)  # the init container runs again
    pod = get(cluster)
    assert [state(pod, name) for name in ("init", "app", "beside")] == ["running", "PodInitializing", "PodInitializing"]
    assert [container(pod, name).restart_count for name in ("init", "app", "beside")] == [1, 1, 1]
    assert [container(pod, name).last_state.terminated for name in ("app", "beside")] == [REMOVED, REMOVED]
    assert (container(pod).container_id, pod.status.phase) == ("", "Pending")
    cluster.advance(3)
    assert (state(get(cluster)), get(cluster).status.phase) == ("running", "Running")


def test_other_exit_codes_end_the_pod(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(ruled("RestartAllContainers", 1),), restart_policy="Never")
    cluster.advance(6)
    pod = get(cluster)
    assert (pod.status.phase, container(pod).restart_count) == ("Failed", 0)
    assert condition_tuple(pod, "AllContainersRestarting") == ("False", "PodFailed", "")
