# SPDX-License-Identifier: Apache-2.0
"""Tests of preemption victims against a simple calculation over small clusters."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.scheduler.config.configuration import default_profile
from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.registry import PluginRegistry
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.preemption.victims import (
    PreemptionCandidate,
    filter_victims_with_pdb_violation,
    pick_one_node_for_preemption,
    select_victims_on_node,
)
from kubeloop.scheduler.queue.nominator import Nominator
from tests.unit.scheduler.random_clusters import RandomCluster


class RunningPod(NamedTuple):
    """A pod on a node, as plain as can be."""

    name: str
    cpu: int
    priority: int
    started: int  # minutes after noon
    app: str


running = st.builds(
    RunningPod, st.just(""), st.integers(1, 3), st.sampled_from((0, 5, 10)), st.integers(0, 3), st.sampled_from("ab")
)
# Sizes of nodes and their pods: at most what fits.
nodes = st.lists(st.tuples(st.integers(2, 6), st.lists(running, max_size=4)), min_size=1, max_size=3)
budgets = st.dictionaries(st.sampled_from("ab"), st.integers(0, 1))


def built(layout: list[tuple[int, list[RunningPod]]]) -> tuple[RandomCluster, dict[str, tuple[int, list[RunningPod]]]]:
    env, plain = RandomCluster(), {}
    for index, (size, pods) in enumerate(layout):
        name, left, kept = f"n{index}", size, []
        room = {"cpu": str(size), "pods": "110", "memory": "1Gi"}
        env.add_node(from_plain({"metadata": {"name": name}, "status": {"allocatable": room}}, Node))
        for number, one in enumerate(pods):
            if one.cpu <= left:
                left -= one.cpu
                kept.append(one._replace(name=f"{name}-{number}"))
                env.add_pod(made(kept[-1]), name)
        plain[name] = (size, kept)
    return env, plain


def made(one: RunningPod) -> Pod:
    meta = {"name": one.name, "uid": one.name, "namespace": "default", "labels": {"app": one.app}}
    container = {"name": "c", "resources": {"requests": {"cpu": str(one.cpu)}}}
    status = {"startTime": f"2026-01-01T12:0{one.started}:00Z"}
    spec = {"containers": [container], "priority": one.priority, "schedulerName": "default-scheduler"}
    return from_plain({"metadata": meta, "spec": spec, "status": status}, Pod)


def budget(app: str, allowed: int) -> PodDisruptionBudget:
    plain = {
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }
    return from_plain(plain, PodDisruptionBudget)


def cycle_of(env: RandomCluster, pod: Pod) -> SchedulingCycle:
    around: Any = env.around
    around.nominator = Nominator()
    profile = Profile(default_profile(), PluginRegistry(), around)
    cycle = SchedulingCycle(profile, env.cluster, env.info(pod))
    cycle.find_nodes_that_fit()
    return cycle


# The plain calculation.


def by_hand(size: int, pods: list[RunningPod], cpu: int, allowed: dict[str, int]) -> tuple[list[str], int] | None:
    """Return victims and the number of PDB violations; None if the pod never fits, or needs none."""
    stay = [one for one in pods if one.priority >= 10]
    lower = sorted((one for one in pods if one.priority < 10), key=lambda one: (-one.priority, one.started))
    if not lower or cpu > size - sum(one.cpu for one in stay):
        return None
    left, protected = dict(allowed), []
    for one in lower:
        if one.app in left:
            left[one.app] -= 1
            if left[one.app] < 0:
                protected.append(one)
    victims: list[RunningPod] = []
    for one in [*protected, *(one for one in lower if one not in protected)]:
        if cpu + sum(each.cpu for each in (*stay, one)) <= size:
            stay.append(one)
        else:
            victims.append(one)
    victims.sort(key=lambda one: (-one.priority, one.started))
    return [one.name for one in victims], sum(one in protected for one in victims)


@settings(max_examples=60, deadline=None)
@given(nodes, st.integers(1, 6), budgets)
def test_victims_match_a_simple_calculation(
    layout: list[tuple[int, list[RunningPod]]], cpu: int, allowed: dict[str, int]
) -> None:
    env, plain = built(layout)
    cycle = cycle_of(env, made(RunningPod("new", cpu, 10, 0, "c")))
    limits = [budget(*one) for one in allowed.items()]
    before = env.cluster.requested["cpu"].tolist() if "cpu" in env.cluster.requested else []
    for name, (size, pods) in plain.items():
        row = env.cluster.row_of(name)
        assert row is not None
        found = select_victims_on_node(cycle, row, limits)
        expected = by_hand(size, pods, cpu, allowed)
        if expected is None:
            assert isinstance(found, Status)
        else:
            assert isinstance(found, PreemptionCandidate)
            assert sorted(one.uid for one in found.victims) == sorted(expected[0])
            assert found.num_pdb_violations == expected[1]
    after = env.cluster.requested["cpu"].tolist() if "cpu" in env.cluster.requested else []
    assert after == before  # trying leaves no trace


def test_pod_protected_by_one_budget_is_not_charged_to_the_next() -> None:
    env = RandomCluster()
    first, second = (env.info(made(RunningPod(name, 1, 0, 0, "a"))) for name in ("first", "second"))
    exhausted, roomy = budget("a", 0), budget("a", 1)
    assert filter_victims_with_pdb_violation([first, second], [exhausted, roomy]) == ([first, second], [])
    assert filter_victims_with_pdb_violation([first, second], [roomy]) == ([second], [first])
    assert filter_victims_with_pdb_violation([first, second], [roomy, exhausted]) == ([first, second], [])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(running, min_size=1, max_size=3), st.integers(0, 2)), min_size=1, max_size=4))
def test_node_with_the_least_disruption_is_chosen(offers: list[tuple[list[RunningPod], int]]) -> None:
    """Check that no other candidate is better by the first differing criterion."""
    env = RandomCluster()
    candidates = []
    for index, (pods, violations) in enumerate(offers):
        named = [one._replace(name=f"{index}-{number}") for number, one in enumerate(pods)]
        named.sort(key=lambda one: (-one.priority, one.started))
        candidates.append(PreemptionCandidate(f"n{index}", [env.info(made(one)) for one in named], violations))

    def harm(index: int) -> tuple[int, ...]:
        pods, violations = offers[index]
        highest = max(one.priority for one in pods)
        first = min(one.started for one in pods if one.priority == highest)
        total = sum(one.priority + 2**31 for one in pods)
        return violations, highest, total, len(pods), -first

    chosen = int(pick_one_node_for_preemption(candidates).node[1:])
    assert harm(chosen) == min(map(harm, range(len(offers))))
