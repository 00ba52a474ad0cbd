# SPDX-License-Identifier: Apache-2.0
"""Tests of DaemonSet decisions with plain values: missing, surplus and outdated pods."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import DaemonSet, DaemonSetUpdateStrategy, RollingUpdateDaemonSet
from kubeloop.api.generated.core_v1 import Pod, PodCondition, PodStatus
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.daemonset import manage, rolling_update
from kubeloop.controllers.daemonset.manage import PodChanges
from kubeloop.controllers.daemonset.nodes import NodeShouldRun
from kubeloop.controllers.daemonset.pods import DaemonSetView, by_node, is_updated, new_pod, template_generation
from kubeloop.controllers.daemonset.status import status_of
from kubeloop.testing import daemon_set

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO = Time("2025-01-01T00:00:00Z")
WANTED, MAY_STAY, UNWANTED = NodeShouldRun(True, True), NodeShouldRun(False, True), NodeShouldRun(False, False)


def given_set(unavailable: Any = 1, surge: Any = 0, **annotations: str) -> DaemonSet:
    limits = RollingUpdateDaemonSet(max_unavailable=unavailable, max_surge=surge)
    strategy = DaemonSetUpdateStrategy(type="RollingUpdate", rolling_update=limits)
    made = daemon_set("web", update_strategy=strategy)
    return replace(made, metadata=replace(made.metadata, annotations=annotations))


def pod(what: str) -> Pod:
    """Words: `node:state:revision`, and `:number` for its age."""
    node, state, revision, *age = what.split(":")
    made = new_pod(daemon_set("web"), node, revision)
    phase = {"ready": "Running", "unready": "Running", "going": "Running", "waiting": "Pending"}.get(state, state)
    ready = PodCondition(type="Ready", status="True" if state in ("ready", "going") else "False")
    meta = replace(
        made.metadata,
        name=what,
        creation_timestamp=Time(f"2025-01-0{(age or ['1'])[0]}T00:00:00Z"),
        deletion_timestamp=LONG_AGO if state == "going" else None,
    )
    spec = made.spec if state == "waiting" else replace(made.spec, node_name=node)
    return replace(made, metadata=meta, spec=spec, status=PodStatus(phase=phase, conditions=(ready,)))


def view(set: DaemonSet, verdicts: dict[str, NodeShouldRun], *pods: str) -> DaemonSetView:
    return DaemonSetView(set, verdicts, by_node(map(pod, pods)), "new", None, NOW)


def wanted(*names: str) -> dict[str, NodeShouldRun]:
    return dict.fromkeys(names, WANTED)


def deleted(changes: PodChanges) -> list[str]:
    return sorted(one.metadata.name for one in changes.delete)


# One pod a node


def test_nodes_without_a_pod_get_one() -> None:
    found = manage.decide(view(given_set(), {**wanted("a", "b"), "c": MAY_STAY, "d": UNWANTED}, "a:ready:new"))
    assert (found.create_on, deleted(found)) == (["b"], [])


def test_pods_are_kept_on_matching_nodes_and_deleted_elsewhere() -> None:
    found = manage.decide(view(given_set(), {"a": MAY_STAY, "b": UNWANTED}, "a:ready:new", "b:ready:new"))
    assert (found.create_on, deleted(found)) == ([], ["b:ready:new"])


def test_node_with_a_terminating_pod_waits_unless_surging() -> None:
    assert manage.decide(view(given_set(), wanted("a"), "a:going:new")).create_on == []
    assert manage.decide(view(given_set(0, 1), wanted("a"), "a:going:new")).create_on == ["a"]


def test_oldest_pod_is_kept_and_bound_ones_count_first() -> None:
    found = manage.decide(view(given_set(), wanted("a"), "a:ready:new:3", "a:ready:new:2", "a:waiting:new:1"))
    assert deleted(found) == ["a:ready:new:3", "a:waiting:new:1"]


def test_terminated_pods_are_distinguished() -> None:
    found = manage.decide(view(given_set(), wanted("a", "b"), "a:Failed:new", "b:Succeeded:new"))
    assert [node for node, _ in found.failed] == ["a"]
    assert [node for node, _ in found.succeeded] == ["b"]
    assert found.create_on == []


def test_pending_pods_of_a_missing_node_are_deleted_and_others_are_left_to_pod_gc() -> None:
    found = manage.decide(view(given_set(), {}, "gone:waiting:new", "gone:ready:old"))
    assert deleted(found) == ["gone:waiting:new"]


@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        ("ready", "unready", []),
        ("ready", "ready", ["a:ready:old:1"]),
        ("unready", "unready", ["a:unready:old:1"]),
        ("unready", "ready", ["a:unready:old:1"]),
    ],
)
def test_surge_keeps_an_old_pod_until_the_new_one_is_available(old: str, new: str, gone: list[str]) -> None:
    found = manage.decide(view(given_set(0, 1), wanted("a"), f"a:{old}:old:1", f"a:{new}:new:2"))
    assert deleted(found) == gone


def test_surge_has_at_most_one_old_and_one_new_pod() -> None:
    pods = ("a:ready:old:1", "a:ready:old:2", "a:unready:new:3", "a:unready:new:4")
    assert deleted(manage.decide(view(given_set(0, 1), wanted("a"), *pods))) == ["a:ready:old:2", "a:unready:new:4"]


# Updates


@pytest.mark.parametrize(
    ("limit", "pods", "count"),
    [
        (1, ("a:ready:old", "b:ready:old", "c:ready:old"), 1),
        (2, ("a:ready:old", "b:ready:old", "c:ready:old"), 2),
        ("50%", ("a:ready:old", "b:ready:old", "c:ready:old"), 2),
        (0, ("a:ready:old", "b:ready:old", "c:ready:old"), 1),
        (1, ("a:ready:old", "b:unready:new", "c:ready:old"), 0),
        (1, ("a:ready:old", "b:going:old", "c:ready:old"), 0),
        (1, ("a:ready:old", "b:ready:old"), 0),
        (1, ("a:ready:old", "b:ready:new", "c:ready:new"), 1),
        (1, ("a:unready:old", "b:unready:old", "c:ready:old"), 2),
        (1, ("a:ready:new", "b:ready:new", "c:ready:new"), 0),
    ],
)
def test_old_pods_are_deleted_within_the_limit(limit: Any, pods: tuple[str, ...], count: int) -> None:
    found = rolling_update.decide(view(given_set(limit), wanted("a", "b", "c"), *pods))
    assert len(found.delete) == count
    assert all(":old" in one.metadata.name for one in found.delete)
    assert found.create_on == []


@pytest.mark.parametrize(
    ("limit", "pods", "created", "gone"),
    [
        (1, ("a:ready:old", "b:ready:old"), ["a"], []),
        ("100%", ("a:ready:old", "b:ready:old"), ["a", "b"], []),
        (1, ("a:ready:old", "a:unready:new", "b:ready:old"), [], []),
        (1, ("a:ready:old", "a:ready:new", "b:ready:old"), ["b"], ["a:ready:old"]),
        (1, ("a:unready:old", "b:unready:old"), ["a", "b"], []),
    ],
)
def test_new_pods_are_created_beside_old_ones(
    limit: Any, pods: tuple[str, ...], created: list[str], gone: list[str]
) -> None:
    found = rolling_update.decide(view(given_set(0, limit), wanted("a", "b"), *pods))
    assert (found.create_on, deleted(found)) == (created, gone)


def test_surge_deletes_misplaced_pods_only_if_enough_are_available() -> None:
    verdicts = {"a": WANTED, "b": MAY_STAY}
    waiting = rolling_update.decide(view(given_set(0, 1), verdicts, "a:unready:new", "b:ready:old"))
    assert deleted(waiting) == []
    serving = rolling_update.decide(view(given_set(0, 1), verdicts, "a:ready:new", "b:ready:old"))
    assert deleted(serving) == ["b:ready:old"]
    useless = rolling_update.decide(view(given_set(0, 1), verdicts, "a:unready:new", "b:unready:old"))
    assert deleted(useless) == ["b:unready:old"]


# Counting


def test_status_uses_the_most_established_pod_of_each_node() -> None:
    verdicts = {**wanted("a", "b", "c"), "d": MAY_STAY}
    pods = ("a:ready:old:1", "a:unready:new:2", "b:unready:new", "d:ready:new")
    status = status_of(view(given_set(), verdicts, *pods), processed=False)
    assert (status.desired_number_scheduled, status.current_number_scheduled, status.number_misscheduled) == (3, 2, 1)
    assert (status.number_ready, status.number_available, status.number_unavailable) == (1, 1, 2)
    assert (status.updated_number_scheduled, status.observed_generation) == (1, 0)


def test_template_generation_also_identifies_updated_pods() -> None:
    set = given_set(**{"deprecated.daemonset.template.generation": "7"})
    made = new_pod(set, "a", "hash")
    assert template_generation(set) == 7
    assert is_updated(made, "another", 7)
    assert not is_updated(made, "another", 8)
    assert not is_updated(made, "", None)
    assert template_generation(given_set(**{"deprecated.daemonset.template.generation": "x"})) is None
