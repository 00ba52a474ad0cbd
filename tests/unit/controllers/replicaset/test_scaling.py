# SPDX-License-Identifier: Apache-2.0
"""Tests of the number and choice of pods to create and delete."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubeloop.api.generated.core_v1 import Pod, PodCondition, PodSpec, PodStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.replicaset.pod_class import group_by_class
from kubeloop.controllers.replicaset.scaling import age_ratios, pods_per_node, pods_to_delete, surplus
from kubeloop.controllers.shared.pods.batch_period import batch_period

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)


def pod(name: str, node: str = "n", ready: bool = True, created: str = "2026-01-01T00:00:00Z") -> Pod:
    since = PodCondition(type="Ready", status="True" if ready else "False", last_transition_time=Time(created))
    return Pod(
        metadata=ObjectMeta(name=name, uid=name, creation_timestamp=Time(created)),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase="Running", conditions=(since,)),
    )


def names(pods: list[Pod]) -> list[str]:
    return [one.metadata.name for one in pods]


@pytest.mark.parametrize(
    ("active", "wanted", "expected"),
    [(3, 3, 0), (0, 5, -5), (5, 0, 5), (0, 500, -500), (0, 501, -500), (2000, 3, 500), (1, 3, -2)],
)
def test_batch_size_is_limited(active: int, wanted: int, expected: int) -> None:
    assert surplus(active, wanted) == expected


def test_pods_on_nodes_with_most_related_pods_are_deleted_first() -> None:
    pods = [pod("a", "n1"), pod("b", "n2"), pod("c", "n3")]
    related = [group_by_class(*pods), group_by_class(pod("x", "n2"), pod("y", "n2"), pod("z", "n3"))]
    assert names(pods_to_delete(group_by_class(*pods), pods_per_node(related), 2, NOW)) == ["b", "c"]


def test_terminated_related_pods_do_not_count() -> None:
    pods = [pod("a", "n1"), pod("b", "n2")]
    ended = Pod(spec=PodSpec(node_name="n2"), status=PodStatus(phase="Succeeded"))
    assert pods_per_node([group_by_class(*pods, pod("x", "n1"), ended, ended, ended)]) == {"n1": 2, "n2": 1}


def test_unready_pods_are_deleted_first() -> None:
    pods = [pod("a", "n1"), pod("b", "n2", ready=False)]
    assert names(pods_to_delete(group_by_class(*pods), {"n1": 2, "n2": 1}, 1, NOW)) == ["b"]


def test_ages_are_compared_with_the_youngest_ready_pod() -> None:
    old, young = pod("a", created="2026-01-01T00:00:00Z"), pod("b", created="2026-01-01T00:30:00Z")
    newest = pod("c", created="2026-01-01T00:59:00Z", ready=False)
    assert list(age_ratios([old, newest], group_by_class(old, young, newest), NOW)) == [2.0]
    assert list(age_ratios([newest], group_by_class(newest), NOW)) == []


def test_only_large_groups_coalesce_changes() -> None:
    assert batch_period(0) == batch_period(49) == 0
    assert batch_period(1000) == pytest.approx(0.02)
