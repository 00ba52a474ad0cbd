# SPDX-License-Identifier: Apache-2.0
"""Probes on simulated nodes: what fails when it fails, by script."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import HTTPGetAction, Probe
from kubeloop.kubelet.agent import NodeAgent
from kubeloop.kubelet.agent_config import NodeAgentConfig
from kubeloop.testing import Cluster
from tests.kubelet.pods import condition_tuple, container, get, new_agent, put, runs


def probe(**fields: int) -> Probe:
    return Probe(http_get=HTTPGetAction(port=80), **fields)


def test_pod_is_ready_once_its_readiness_probe_succeeds(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    app = runs("server", readiness_probe=probe(initial_delay_seconds=5, period_seconds=2))
    put(cluster, containers=(app,))
    pod = get(cluster)
    assert pod.status.phase == "Running"
    assert condition_tuple(pod, "Ready") == ("False", "ContainersNotReady", "containers with unready status: [app]")
    cluster.advance(4)
    assert not container(get(cluster)).ready
    cluster.advance(2)
    assert condition_tuple(get(cluster), "Ready")[0] == "True"


def test_readiness_follows_the_thresholds(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    app = runs("server", readiness_probe=probe(period_seconds=10, failure_threshold=3, success_threshold=2))
    put(cluster, containers=(app,), script={"fail-readiness": "25s-95s"})
    changes = []
    for second in range(1, 140):
        cluster.advance(1)
        changes.append((second, container(get(cluster)).ready))
    flips = [second for (second, now), (_, before) in zip(changes[1:], changes, strict=False) if now != before]
    assert flips == [10, 50, 110]  # the second success; the third failure after 25 s; two successes after 95 s
    assert get(cluster).status.container_statuses[0].restart_count == 0
    (event, *_) = cluster.events(reason="Unhealthy")
    assert event.message == "Readiness probe failed: HTTP probe failed with statuscode: 500"
    assert event.type == "Warning"


def test_container_that_fails_its_liveness_probe_is_restarted(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    app = runs("server", liveness_probe=probe(period_seconds=10, failure_threshold=2))
    put(cluster, containers=(app,), script={"fail-liveness": "15s-40s"})
    cluster.advance(29)
    assert container(get(cluster)).restart_count == 0
    cluster.advance(2)
    status = container(get(cluster))
    assert status.restart_count == 1
    assert status.state.running is not None
    messages = [event.message for event in cluster.events(reason="Killing")]
    assert messages == ["Container app failed liveness probe, will be restarted"]


def test_startup_probe_delays_other_probes_and_restarts_on_failure(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    app = runs(
        "server",
        startup_probe=probe(period_seconds=10, failure_threshold=3),
        liveness_probe=probe(period_seconds=1, failure_threshold=1),
    )
    put(cluster, containers=(app,), script={"fail-startup": "0s-15s", "fail-liveness": "0s-15s"})
    status = container(get(cluster))
    assert (status.started, status.ready) == (False, False)
    cluster.advance(21)
    status = container(get(cluster))
    assert (status.started, status.ready, status.restart_count) == (True, True, 0)
    put(cluster, "never", containers=(app,), script={"fail-startup": "always"})
    cluster.advance(21)
    assert container(get(cluster, "never")).restart_count == 1
    assert "Container app failed startup probe, will be restarted" in [
        event.message for event in cluster.events(reason="Killing")
    ]


def test_failed_liveness_with_restart_policy_never_fails_the_pod(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    app = runs("server", liveness_probe=probe(period_seconds=1, failure_threshold=1))
    script = {"fail-liveness": "5s-", "stop-code": "143"}
    put(cluster, restart_policy="Never", containers=(app,), script=script)
    cluster.advance(6)
    assert get(cluster).status.phase == "Failed"
    assert [event.message for event in cluster.events(reason="Killing")] == ["Container app failed liveness probe"]


def test_successful_probes_cause_no_writes(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    app = runs("server", liveness_probe=probe(period_seconds=1), readiness_probe=probe(period_seconds=1))
    put(cluster, containers=(app,))
    cluster.advance(5)
    before = fleet.loops[1].status().reconciles
    cluster.advance(minutes=5)
    assert fleet.loops[1].status().reconciles == before
    assert fleet.loops[1].queue.delayed == 0


def begin_anew(cluster: Cluster, fleet: NodeAgent) -> None:
    for loop in fleet.loops:
        cluster.stop(loop)
    new_agent(cluster, NodeAgentConfig(count=1))


def test_restarted_kubelet_keeps_ready_pods_ready(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    app = runs(
        "server",
        startup_probe=probe(initial_delay_seconds=5),
        readiness_probe=probe(initial_delay_seconds=5, success_threshold=3, period_seconds=5),
    )
    put(cluster, containers=(app,))
    put(cluster, "early", containers=(app,), script={"fail-startup": "always"})
    cluster.advance(30)
    before = get(cluster)
    assert (container(before).started, container(before).ready) == (True, True)
    begin_anew(cluster, fleet)
    cluster.settle()
    assert get(cluster) == before
    cluster.advance(60)
    assert get(cluster) == before
    assert container(get(cluster, "early")).started is False


def test_restarted_kubelet_detects_unready_pods(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    app = runs("server", readiness_probe=probe(period_seconds=5, failure_threshold=2))
    put(cluster, containers=(app,), script={"fail-readiness": "60s-"})
    cluster.advance(10)
    begin_anew(cluster, fleet)
    cluster.advance(40)
    assert container(get(cluster)).ready
    cluster.advance(20)
    assert not container(get(cluster)).ready
