# SPDX-License-Identifier: Apache-2.0
"""Hooks of containers, after they have begun and before they end."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import (
    Container,
    Event,
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    SleepAction,
    TCPSocketAction,
)
from kubeloop.testing import Cluster
from tests.kubelet.pods import container, get, is_gone, put, runs, state


def exec_hook(*command: str) -> LifecycleHandler:
    return LifecycleHandler(exec=ExecAction(command=command))


def test_container_is_running_after_its_post_start_hook(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    hook = Lifecycle(post_start=LifecycleHandler(sleep=SleepAction(seconds=10)))
    put(cluster, containers=(runs("server", name="first", lifecycle=hook), runs("server", name="second")))
    assert (state(get(cluster), "first"), state(get(cluster), "second")) == ("ContainerCreating", "ContainerCreating")
    cluster.advance(11)
    assert (state(get(cluster), "first"), state(get(cluster), "second")) == ("running", "running")
    first, second = (container(get(cluster), name).state.running for name in ("first", "second"))
    assert first is not None
    assert second is not None
    assert str(second.started_at) > str(first.started_at)


def test_container_with_a_failed_hook_is_restarted(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    hook = Lifecycle(post_start=exec_hook("sh", "-c", "sleep 2; exit 3"))
    put(cluster, containers=(runs("server", lifecycle=hook),))
    cluster.advance(3)
    assert container(get(cluster)).restart_count == 1
    cluster.advance(3)
    assert state(get(cluster)) == "CrashLoopBackOff"
    assert get(cluster).status.phase == "Running"
    told = [(one.reason, one.message) for one in cluster.client.list(Event, "default").items]
    assert ("FailedPostStartHook", "PostStartHook failed") in told
    assert ("Killing", "FailedPostStartHook") in told


def test_hanging_hook_blocks_its_container(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(runs("server", lifecycle=Lifecycle(post_start=exec_hook("tail", "-f"))),))
    cluster.advance(3600)
    assert state(get(cluster)) == "ContainerCreating"
    cluster.client.delete(Pod, "pod", "default")
    cluster.settle()
    cluster.advance(1)
    assert is_gone(cluster)


def test_unsupported_hook_fails(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    hook = Lifecycle(post_start=LifecycleHandler(tcp_socket=TCPSocketAction(port=80)))
    put(cluster, containers=(runs("server", lifecycle=hook),), restart_policy="Never")
    cluster.advance(1)
    assert get(cluster).status.phase == "Succeeded"
    put(cluster, "again", containers=(runs("server", lifecycle=hook),))
    waiting = container(get(cluster, "again")).state.waiting
    assert waiting is not None
    assert waiting.reason == "CrashLoopBackOff"


def test_pre_stop_sleep_counts_within_the_grace_period(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    hook = Lifecycle(pre_stop=LifecycleHandler(sleep=SleepAction(seconds=20)))
    put(cluster, containers=(runs("server", lifecycle=hook),), termination_grace_period_seconds=30)
    cluster.client.delete(Pod, "pod", "default")
    cluster.settle()
    cluster.advance(19)
    assert not is_gone(cluster)
    cluster.advance(2)
    assert is_gone(cluster)


def sidecar_with_hook(seconds: int) -> tuple[Container, ...]:
    hook = Lifecycle(pre_stop=LifecycleHandler(sleep=SleepAction(seconds=seconds)))
    return (runs("server", name="side", restart_policy="Always", lifecycle=hook),)


def test_pre_stop_hooks_of_sidecars_start_with_the_others(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    script = {"stop-delay.app": "10s"}
    put(cluster, init_containers=sidecar_with_hook(12), termination_grace_period_seconds=30, script=script)
    cluster.client.delete(Pod, "pod", "default")
    cluster.settle()
    cluster.advance(11.5)
    assert not is_gone(cluster)
    cluster.advance(1)
    assert is_gone(cluster)


def test_sidecars_get_the_remaining_grace_period(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    script = {"stop-delay.app": "6s", "stop-delay.side": "1h"}
    put(cluster, init_containers=sidecar_with_hook(0), termination_grace_period_seconds=10, script=script)
    cluster.client.delete(Pod, "pod", "default")
    cluster.settle()
    cluster.advance(9.5)
    assert not is_gone(cluster)
    cluster.advance(1)
    assert is_gone(cluster)
