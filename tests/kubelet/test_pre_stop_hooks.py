# SPDX-License-Identifier: Apache-2.0
"""Hooks before the end that fail, or take longer than there is."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import (
    Container,
    ExecAction,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from kubeloop.testing import Cluster
from tests.kubelet.pods import container, get, is_gone, put, runs, state


def ends_with(hook: LifecycleHandler, name: str = "app", **fields: object) -> Container:
    return runs("server", name=name, lifecycle=Lifecycle(pre_stop=hook), **fields)


def script(*words: str) -> LifecycleHandler:
    return LifecycleHandler(exec=ExecAction(command=("sh", "-c", *words)))


HTTP = LifecycleHandler(http_get=HTTPGetAction(path="/bye", port=80))


def delete(cluster: Cluster, **options: int) -> None:
    cluster.client.delete(Pod, "pod", "default", **options)
    cluster.settle()


def complaints(cluster: Cluster) -> list[tuple[str, str, str]]:
    cluster.advance(1)
    found = cluster.events(reason="FailedPreStopHook")
    return [(one.type, one.message, one.involved_object.field_path) for one in found for _ in range(one.count or 1)]


TOLD = ("Warning", "PreStopHook failed", "spec.containers{app}")


@pytest.mark.parametrize(
    ("hook", "directions"),
    [
        (script("exit 3"), {}),
        (script("sleep 2; exit 3"), {}),
        (script("true"), {"fail-pre-stop": "broken"}),
        (HTTP, {"fail-pre-stop": "connection refused"}),
        (LifecycleHandler(tcp_socket=TCPSocketAction(port=80)), {}),
    ],
)
def test_failed_pre_stop_hook_records_one_event_and_the_container_ends(
    cluster: Cluster, hook: LifecycleHandler, directions: dict[str, str]
) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(ends_with(hook),), script=directions)
    delete(cluster)
    cluster.advance(3)
    assert is_gone(cluster)
    assert complaints(cluster) == [TOLD]


@pytest.mark.parametrize("hook", [script("sleep 1; true"), HTTP, LifecycleHandler(sleep=SleepAction(seconds=1))])
def test_successful_pre_stop_hook_records_no_event(cluster: Cluster, hook: LifecycleHandler) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(ends_with(hook),))
    delete(cluster)
    cluster.advance(3)
    assert is_gone(cluster)
    assert complaints(cluster) == []


def test_pre_stop_hook_exceeding_the_grace_period_fails(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(ends_with(script("sleep 60")),), termination_grace_period_seconds=10)
    cluster.client.patch(Pod, "pod", {"metadata": {"finalizers": ["example.com/mine"]}}, "default")
    delete(cluster)
    cluster.advance(9)
    assert (state(get(cluster)), complaints(cluster)[1:]) == ("running", [])
    cluster.advance(2)
    assert state(get(cluster)) == "ended 0"  # it was not stopped yet: there are two seconds for that
    assert complaints(cluster) == [TOLD]


def test_container_still_running_after_a_timed_out_hook_is_killed(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    slow = {"stop-delay": "5s"}
    put(cluster, containers=(ends_with(script("sleep 60")),), termination_grace_period_seconds=10, script=slow)
    cluster.client.patch(Pod, "pod", {"metadata": {"finalizers": ["example.com/mine"]}}, "default")
    delete(cluster)
    cluster.advance(11.5)
    assert state(get(cluster)) == "running"
    cluster.advance(1)
    assert state(get(cluster)) == "ended 137"


def test_pre_stop_sleep_exceeding_the_grace_period_is_abandoned(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    sleep = LifecycleHandler(sleep=SleepAction(seconds=9))
    put(cluster, containers=(ends_with(sleep),), termination_grace_period_seconds=10)
    delete(cluster, grace_seconds=5)
    cluster.advance(6)
    assert is_gone(cluster)
    assert complaints(cluster) == []


def test_hook_restarted_for_a_shorter_grace_period_has_failed_once(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    sleep = LifecycleHandler(sleep=SleepAction(seconds=20))
    put(cluster, containers=(ends_with(sleep),), termination_grace_period_seconds=30)
    delete(cluster)
    cluster.advance(2)
    delete(cluster, grace_seconds=5)
    cluster.advance(6)
    assert is_gone(cluster)
    assert complaints(cluster) == [TOLD]


def test_failed_hooks_of_sidecars_record_events(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    side = ends_with(script("sleep 1; exit 1"), "side", restart_policy="Always")
    put(cluster, init_containers=(side,), script={"stop-delay.app": "5s"})
    delete(cluster)
    cluster.advance(2)
    assert complaints(cluster) == [("Warning", "PreStopHook failed", "spec.initContainers{side}")]
    cluster.advance(5)
    assert is_gone(cluster)
    assert len(complaints(cluster)) == 1


def test_container_killed_by_a_probe_restarts_after_a_failed_hook(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    probe = Probe(exec=ExecAction(command=("check",)), period_seconds=1, failure_threshold=1)
    put(cluster, containers=(ends_with(script("exit 1"), liveness_probe=probe),), script={"fail-liveness": "5s-6s"})
    cluster.advance(7)
    assert container(get(cluster)).restart_count == 1
    assert complaints(cluster) == [TOLD]
