# SPDX-License-Identifier: Apache-2.0
"""Tests of replica calculations; the cases are those of upstream's replica calculator."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.generated.autoscaling_v2 import MetricStatus
from kubeloop.api.generated.core_v1 import (
    Container,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Quantity, Time
from kubeloop.controllers.horizontal_pod_autoscaler.metrics_client import MetricsError, PodMetric
from kubeloop.controllers.horizontal_pod_autoscaler.proposals import MetricProposal, largest_proposal
from kubeloop.controllers.horizontal_pod_autoscaler.replica_calculator import (
    PodGroupsByUsability,
    PodStartupDelays,
    PodUsage,
    Tolerances,
    group_pods,
    replicas_by_average,
    replicas_by_utilization,
    replicas_by_value,
    replicas_by_value_per_pod,
    requests_of,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PATIENCE = PodStartupDelays(timedelta(minutes=2), timedelta(seconds=10))
USUAL = Tolerances(0.1, 0.1)


def stamp(minutes: float) -> Time:
    return Time(format_time(NOW - timedelta(minutes=minutes)))


def a_pod(name: str, phase: str = "Running", ready: bool = True, started: float = 60, changed: float = 60) -> Pod:
    condition = PodCondition(type="Ready", status=str(ready), last_transition_time=stamp(changed))
    status = PodStatus(phase=phase, start_time=stamp(started), conditions=(condition,))
    return Pod(metadata=ObjectMeta(name=name), status=status)


def metric(value: int, age: float = 0) -> PodMetric:
    return PodMetric(value, NOW - timedelta(minutes=age), timedelta(seconds=30))


def counted(used: list[int], unready: int = 0, missing: int = 0) -> PodUsage:
    metrics = {f"p{at}": metric(value) for at, value in enumerate(used)}
    groups = PodGroupsByUsability(
        len(used),
        frozenset(f"u{at}" for at in range(unready)),
        frozenset(f"m{at}" for at in range(missing)),
        frozenset(),
    )
    return PodUsage(metrics, groups)


def requests(of: PodUsage, each: int = 1000) -> dict[str, int]:
    return dict.fromkeys([*of.metrics, *of.groups.unready, *of.groups.missing], each)


@pytest.mark.parametrize(
    ("current", "target", "used", "unready", "missing", "expected", "utilization"),
    [
        (3, 30, [300, 500, 700], 0, 0, 5, 50),
        (3, 30, [300, 300, 300], 0, 0, 3, 30),
        (3, 100, [1010, 1030, 1020], 0, 0, 3, 102),  # near enough
        (5, 50, [100, 300, 500, 250, 250], 0, 0, 3, 28),
        (3, 30, [500, 700], 1, 0, 4, 60),  # an unready one counts as idle
        (3, 50, [600, 600], 1, 0, 3, 60),  # so that it has no effect
        (2, 75, [1000], 0, 1, 2, 100),  # a missing one as idle when growing…
        (2, 30, [200], 0, 1, 2, 20),  # …as busy when shrinking
        (2, 110, [1000], 0, 1, 2, 100),
    ],
)
def test_utilization(  # one row a case
    current: int, target: int, used: list[int], unready: int, missing: int, expected: int, utilization: int
) -> None:
    given = counted(used, unready, missing)
    found = replicas_by_utilization(current, target, USUAL, given, requests(given))
    assert (found.replicas, found.utilization) == (expected, utilization)


@pytest.mark.parametrize(
    ("current", "target", "used", "unready", "missing", "expected"),
    [
        (3, 15000, [20000, 10000, 30000], 0, 0, 4),
        (3, 20000, [20000, 21000, 20000], 0, 0, 3),
        (4, 9000, [7000, 2000], 0, 0, 1),
        (3, 15000, [50000, 30000], 1, 0, 6),
        (3, 15000, [50000, 30000], 0, 1, 6),
        (3, 30000, [10000], 0, 1, 2),
    ],
)
def test_average(current: int, target: int, used: list[int], unready: int, missing: int, expected: int) -> None:
    assert replicas_by_average(current, target, USUAL, counted(used, unready, missing)).replicas == expected


@given(
    st.integers(1, 20),
    st.integers(1, 100),
    st.lists(st.integers(0, 3000), min_size=1, max_size=8),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_unready_pods_never_enlarge_or_reverse_a_change(
    current: int, target: int, used: list[int], unready: int, missing: int
) -> None:
    known = replicas_by_utilization(current, target, USUAL, counted(used), requests(counted(used)))
    doubtful = counted(used, unready, missing)
    found = replicas_by_utilization(current, target, USUAL, doubtful, requests(doubtful))
    assert found.utilization == known.utilization
    if missing or (unready and (known.utilization or 0) > target):
        is_growing = (known.utilization or 0) > target
        assert found.replicas >= current if is_growing else found.replicas <= current


def test_metrics_without_ready_pods() -> None:
    with pytest.raises(MetricsError, match=r"did not receive metrics for targeted pods \(pods might be unready\)"):
        replicas_by_average(1, 10, USUAL, counted([], unready=2))
    with pytest.raises(MetricsError, match="no metrics returned matched known pods"):
        replicas_by_utilization(1, 10, USUAL, counted([5]), {})


def test_single_values() -> None:
    pods = [a_pod("a"), a_pod("b"), a_pod("c", ready=False), a_pod("d", phase="Pending")]
    assert replicas_by_value(2, 200, 100, USUAL, pods).replicas == 4  # two are ready
    assert replicas_by_value(2, 105, 100, USUAL, pods).replicas == 2
    assert replicas_by_value(0, 250, 100, USUAL, []).replicas == 3
    assert replicas_by_value(2, 10**30, 1, USUAL, pods).replicas == 2**31 - 1
    with pytest.raises(MetricsError, match="unable to calculate ready pods: no pods returned by selector"):
        replicas_by_value(2, 300, 100, USUAL, [])


def test_average_values() -> None:
    assert replicas_by_value_per_pod(3, 6000, 1000, USUAL) == (6, 2000, None)
    assert replicas_by_value_per_pod(3, 3100, 1000, USUAL) == (3, 1034, None)
    assert replicas_by_value_per_pod(0, 3100, 1000, USUAL).replicas == 4


@pytest.mark.parametrize(
    ("pod", "sample_age", "resource", "group"),
    [
        (a_pod("p"), 0, "cpu", "ready"),
        (a_pod("p", phase="Failed"), 0, "cpu", "ignored"),
        (a_pod("p", phase="Pending"), 0, "cpu", "unready"),
        (a_pod("p", ready=False, started=60, changed=59.95), 0, "cpu", "unready"),  # was never ready
        (a_pod("p", ready=False, started=60, changed=30), 0, "cpu", "ready"),  # was ready before
        (a_pod("p", ready=False, started=60, changed=59.95), 0, "memory", "ready"),
        (a_pod("p", started=1, changed=1), 0, "cpu", "ready"),
        (a_pod("p", ready=False, started=1, changed=1), 0, "cpu", "unready"),
        (a_pod("p", started=1, changed=0.25), 0, "cpu", "unready"),  # a sample from before it was ready
        (Pod(metadata=ObjectMeta(name="p"), status=PodStatus(phase="Running")), 0, "cpu", "unready"),
    ],
)
def test_pods_are_grouped_by_usable_metrics(pod: Pod, sample_age: float, resource: str, group: str) -> None:
    groups = group_pods([pod], {"p": metric(1, sample_age)}, resource, PATIENCE, NOW)
    assert {
        "ready": groups.ready == 1,
        "unready": "p" in groups.unready,
        "ignored": "p" in groups.ignored,
    } == {"ready": group == "ready", "unready": group == "unready", "ignored": group == "ignored"}


def test_pod_without_metrics_is_missing() -> None:
    assert group_pods([a_pod("p")], {}, "cpu", PATIENCE, NOW).missing == {"p"}


def asking(name: str, amount: str, restart_policy: str | None = None) -> Container:
    wanted = ResourceRequirements(requests={"cpu": Quantity(amount)})
    return Container(name=name, resources=wanted, restart_policy=restart_policy)


def test_requests_of_containers_and_sidecars_are_summed() -> None:
    sidecar, first = asking("s", "50m", restart_policy="Always"), asking("i", "1")
    spec = PodSpec(containers=(asking("a", "100m"), asking("b", "1")), init_containers=(sidecar, first))
    pod = Pod(metadata=ObjectMeta(name="p"), spec=spec)
    assert requests_of([pod], "cpu") == {"p": 1150}
    assert requests_of([pod], "cpu", "b") == {"p": 1000}
    with pytest.raises(MetricsError, match="missing request for memory in container a of Pod p"):
        requests_of([pod], "memory")
    with pytest.raises(MetricsError, match="container c not found in Pod p"):
        requests_of([pod], "cpu", "c")


def test_pod_level_request_takes_precedence() -> None:
    whole = ResourceRequirements(requests={"cpu": Quantity("3")})
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=(asking("a", "1"),), resources=whole))
    assert requests_of([pod], "cpu") == {"p": 3000}
    assert requests_of([pod], "cpu", "a") == {"p": 1000}
    with pytest.raises(MetricsError, match="missing pod-level request for memory in Pod p"):
        requests_of([pod], "memory")


def test_last_idle_metric_is_named() -> None:
    """Combine like upstream's computeReplicasForMetrics: zero means no proposal yet."""
    proposals = [
        MetricProposal(replicas, name, MetricStatus()) for replicas, name in ((0, "a"), (0, "b"), (3, "c"), (3, "d"))
    ]
    assert largest_proposal([]) is None
    assert [found.name for end in (1, 2, 3, 4) if (found := largest_proposal(proposals[:end]))] == ["a", "b", "c", "c"]
