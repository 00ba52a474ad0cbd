# SPDX-License-Identifier: Apache-2.0
"""Pods are grouped by their priorities as upstream groups them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.api.generated.core_v1 import Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.config.configuration_parts import ShutdownGracePeriodByPodPriority
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
from kubeloop.kubelet.nodeshutdown.shutdown_groups import (
    ShutdownGroup,
    group_pods,
    shutdown_groups,
    termination_reason_of,
)

CRITICAL = 2_000_000_000
GATES = ("GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority", "WindowsGracefulNodeShutdown")
ALL_OFF = tuple(f"{gate}=false" for gate in GATES)


def make_pod(priority: int | None, grace: int | None = 30) -> Pod:
    """Return a pod of a priority."""
    spec = PodSpec(containers=(), priority=priority, termination_grace_period_seconds=grace)
    return Pod(metadata=ObjectMeta(name=f"p{priority}", uid=f"u{priority}"), spec=spec)


def periods(*pairs: tuple[int, int]) -> tuple[ShutdownGracePeriodByPodPriority, ...]:
    return tuple(
        ShutdownGracePeriodByPodPriority(priority=one, shutdown_grace_period_seconds=seconds) for one, seconds in pairs
    )


@pytest.mark.parametrize(
    ("settings", "gates", "expected"),
    [
        ({}, (), ()),
        ({"shutdown_grace_period": 30.0}, (), ((0, 30), (CRITICAL, 0))),
        (
            {"shutdown_grace_period": 30.0, "shutdown_grace_period_critical_pods": 10.0},
            (),
            ((0, 20), (CRITICAL, 10)),
        ),
        ({"shutdown_grace_period_by_pod_priority": periods((9, 1), (3, 2))}, (), ((3, 2), (9, 1))),
        ({"shutdown_grace_period": 30.0}, ALL_OFF, ()),
        (
            {"shutdown_grace_period": 30.0, "shutdown_grace_period_by_pod_priority": periods((9, 1))},
            ("GracefulNodeShutdownBasedOnPodPriority=false",),
            ((0, 30), (CRITICAL, 0)),
        ),
    ],
)
def test_groups_of_a_configuration(
    settings: dict[str, Any], gates: tuple[str, ...], expected: tuple[tuple[int, int], ...]
) -> None:
    found = shutdown_groups(KubeletConfiguration(**settings), parse_feature_gates(gates))
    assert tuple((one.priority, one.seconds) for one in found) == expected


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=4, unique=True).map(sorted),
    st.lists(st.integers(-7, 7) | st.none(), max_size=8),
)
def test_each_pod_is_in_the_highest_group_that_is_not_above_it(priorities: list[int], wanted: list[int | None]) -> None:
    groups = tuple(ShutdownGroup(one, 1) for one in priorities)
    found = group_pods(groups, [make_pod(one) for one in wanted])
    assert sorted(one.priority for one in found) == [one.priority for one in found]
    members = [(group.priority, pod.spec.priority or 0) for group in found for pod in group.pods]
    assert len(members) == len(wanted)
    for group, own in members:
        assert group == max((one for one in priorities if one <= own), default=priorities[0])


@pytest.mark.parametrize(("grace", "seconds", "expected"), [(30, 10, 10.0), (5, 10, 5.0), (None, 40, 40.0)])
def test_the_shorter_grace_period_applies(grace: int | None, seconds: int, expected: float) -> None:
    reason = termination_reason_of(make_pod(0, grace), ShutdownGroup(0, seconds))
    assert reason.grace_period_seconds == expected
    assert (reason.reason, reason.message) == (
        "Terminated",
        "Pod was terminated in response to imminent node shutdown.",
    )
