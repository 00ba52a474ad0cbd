# SPDX-License-Identifier: Apache-2.0
"""A plan of faults on a cluster of a test: what goes wrong, when, and that it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kubeloop.api.errors import ApiError, InternalError
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.chaos.plan import PlanError, plan_of
from kubeloop.client import Client
from kubeloop.client.config.server_config import load_config
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.errors import ConnectionLost
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import SystemClock
from kubeloop.testing import Cluster, config_map

MakeCluster = Callable[..., Cluster]


def plan(*faults: dict[str, Any], duration: str = "10m", seed: int = 1) -> dict[str, Any]:
    head = {"apiVersion": "kubeloop.dev/v1alpha1", "kind": "ChaosPlan", "seed": seed, "duration": duration}
    return {**head, "faults": list(faults)}


def fails(cluster: Cluster, times: int = 1) -> list[str]:
    """Return the results of lists of the code under test, one per second."""

    async def attempt() -> str:
        try:
            await cluster.async_client.list(ConfigMap, "default")
        except (ApiError, ConnectionLost) as error:
            return type(error).__name__
        return "ok"

    outcomes = []
    for _ in range(times):
        outcomes.append(cluster.run(attempt()))
        cluster.advance(1)
    return outcomes


def test_calls_under_test_fail_until_the_plan_ends_and_the_tests_own_never(cluster: Cluster) -> None:
    chaos = cluster.chaos(plan({"fault": "errors", "chance": 1}, duration="1m"))
    assert fails(cluster) == ["ServiceUnavailable"]
    cluster.client.list(ConfigMap, "default")
    assert chaos.hits == 1
    cluster.advance(minutes=1)
    assert fails(cluster) == ["ok"]


def test_plan_can_be_ended_early(cluster: Cluster) -> None:
    chaos = cluster.chaos(plan({"fault": "errors", "chance": 1}, {"fault": "clock-jump", "by": "1h", "every": "1s"}))
    cluster.advance(5)
    chaos.end()
    assert fails(cluster) == ["ok"]
    assert cluster.clock.wall_offset == 0


def test_the_same_seed_gives_the_same_failures(make_cluster: MakeCluster) -> None:
    def outcomes(seed: int) -> list[str]:
        cluster = make_cluster()
        cluster.chaos(plan({"fault": "errors", "chance": 0.3}, seed=seed))
        return fails(cluster, 60)

    assert outcomes(1) == outcomes(1)
    assert outcomes(1) != outcomes(2)
    assert set(outcomes(1)) == {"ok", "ServiceUnavailable"}


def test_lost_response_has_executed_and_slow_call_is_delayed(cluster: Cluster) -> None:
    cluster.chaos(
        plan(
            {"fault": "lost-answers", "verbs": ["create"], "chance": 1},
            {"fault": "slow", "verbs": ["get"], "by": "7s", "chance": 1},
        )
    )
    with pytest.raises(ConnectionLost):
        cluster.run(cluster.async_client.create(config_map("a")))
    before = cluster.clock.monotonic()
    assert cluster.run(cluster.async_client.get(ConfigMap, "a", "default")).metadata.name == "a"
    assert cluster.clock.monotonic() - before == pytest.approx(7.0)


def test_watches_break_and_events_are_late_but_caches_converge(cluster: Cluster) -> None:
    informer = cluster.context.informers.for_resource(resource_of_class(ConfigMap))

    async def start() -> None:
        cluster.context.informers.start()

    cluster.run(start())
    chaos = cluster.chaos(plan({"fault": "cut-watches", "every": "10s"}, {"fault": "slow", "by": "3s", "chance": 1}))
    for number in range(60):
        cluster.add(config_map(f"map-{number}"))
        cluster.advance(10)
    assert chaos.hits > 10
    cluster.advance(minutes=2)
    assert all(informer.get("default", f"map-{number}") is not None for number in range(60))


def test_wall_clock_jumps_and_returns_while_time_passes(cluster: Cluster) -> None:
    cluster.chaos(plan({"fault": "clock-jump", "by": "-10m", "every": "20s", "for": "5s"}, duration="1m"))
    began, elapsed = cluster.clock.now(), cluster.clock.monotonic()
    jumps = set()
    for _ in range(70):
        cluster.advance(1)
        true = began + timedelta(seconds=cluster.clock.monotonic() - elapsed)
        jumps.add((cluster.clock.now() - true).total_seconds())
    assert jumps == {0.0, -600.0}
    assert cluster.clock.monotonic() - elapsed == pytest.approx(70)
    assert cluster.clock.now() - began == timedelta(seconds=70)


def test_plan_is_loaded_from_a_file_or_given(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        "{apiVersion: kubeloop.dev/v1alpha1, kind: ChaosPlan, faults: [{fault: errors, chance: 1}]}"
    )
    for given in (tmp_path / "plan.yaml", str(tmp_path / "plan.yaml"), plan_of(plan({"fault": "errors", "chance": 1}))):
        chaos = cluster.chaos(given)
        assert fails(cluster) == ["ServiceUnavailable"]
        chaos.end()


def test_process_faults_are_rejected(cluster: Cluster) -> None:
    with pytest.raises(PlanError, match=r"faults\[0\]: a cluster in a test has no processes"):
        cluster.chaos(plan({"fault": "kill", "every": "1s"}))


def test_external_programs_are_affected(live_cluster: Cluster) -> None:
    async def ask() -> Any:
        transport = HttpTransport(load_config(os.environ["KUBECONFIG"]), SystemClock())
        try:
            return await Client(transport).list(ConfigMap, "default")
        finally:
            await transport.close()

    chaos = live_cluster.chaos(plan({"fault": "errors", "resources": ["configmaps"], "chance": 1, "code": 500}))
    with pytest.raises(InternalError) as refused:
        live_cluster.run(ask())
    assert refused.value.causes[-1].reason == "FailedOnPurpose"
    assert chaos.hits == 1
    chaos.end()
    live_cluster.run(ask())
