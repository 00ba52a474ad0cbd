# SPDX-License-Identifier: Apache-2.0
"""Tests of signature results: cached results equal recomputed ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.scheduler.cycle.signature_results import SignatureResults, WeightedPlugin
from kubeloop.scheduler.cycle.stopwatch import Stopwatch
from kubeloop.scheduler.plugins.balanced_allocation import BalancedAllocation
from kubeloop.scheduler.plugins.image_locality import ImageLocality
from kubeloop.scheduler.plugins.node_resources_fit import NodeResourcesFit
from kubeloop.scheduler.plugins.nodes.node_affinity import NodeAffinity
from kubeloop.scheduler.plugins.nodes.node_ports import NodePorts
from kubeloop.scheduler.plugins.nodes.node_unschedulable import NodeUnschedulable
from kubeloop.scheduler.plugins.nodes.taint_toleration import TaintToleration
from tests.unit.scheduler import random_clusters as w
from tests.unit.scheduler.plugins.test_per_node_plugins import node_rules
from tests.unit.scheduler.random_clusters import RandomCluster, generated_clusters, nodes, pods

FILTERS = (NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit)
SCORES = (TaintToleration, NodeAffinity, NodeResourcesFit, BalancedAllocation, ImageLocality)
_rules = st.builds(lambda rules, more: {**rules, "tolerations": more}, node_rules, w.tolerations)


def new_view(env: RandomCluster, pod: Pod) -> SignatureResults:
    filters = [env.plugin(kind) for kind in FILTERS]
    return SignatureResults(filters, [WeightedPlugin(env.plugin(kind), 2) for kind in SCORES], env.info(pod).signature)


def change(env: RandomCluster, data: st.DataObject, number: int) -> None:
    what = data.draw(st.sampled_from(("pod comes", "pod goes", "node changes", "node goes")))
    names = sorted(env.nodes)
    if what == "pod comes" and names:
        env.add_pod(data.draw(pods(f"later{number}")), data.draw(st.sampled_from(names)))
    elif what == "pod goes" and any(env.pods[name] for name in names):
        name = data.draw(st.sampled_from([name for name in names if env.pods[name]]))
        env.remove_pod(env.pods[name][0], name)
    elif what == "node goes" and names:
        name = data.draw(st.sampled_from(names))
        del env.nodes[name]
        env.cluster.remove_node(name)
    else:
        env.add_node(data.draw(nodes(data.draw(st.integers(0, 20)))))


def facts(view: SignatureResults, env: RandomCluster) -> Any:
    if view.pre_filter_status is not None:
        return view.pre_filter_status
    alive = env.cluster.in_use
    return (
        view.feasible.tolist(),
        view.static_scores[alive].tolist(),
        view.static_ranking[alive].tolist(),
        [(part.plugin.name, part.results[alive].tolist()) for part in (*view.filters, *view.scores)],
    )


@settings(max_examples=60, deadline=None)
@given(generated_clusters(), pods(spec=_rules), st.data())
def test_incrementally_updated_view_equals_a_new_one(env: RandomCluster, pod: Pod, data: st.DataObject) -> None:
    followed, info = new_view(env, pod), env.info(pod)
    followed.refresh(info, env.cluster, Stopwatch(env.around.clock.monotonic))
    for number in range(data.draw(st.integers(1, 6))):
        change(env, data, number)
        if data.draw(st.booleans()):
            followed.refresh(info, env.cluster, Stopwatch(env.around.clock.monotonic))
    followed.refresh(info, env.cluster, Stopwatch(env.around.clock.monotonic))
    fresh = new_view(env, pod)
    fresh.refresh(info, env.cluster, Stopwatch(env.around.clock.monotonic))
    assert facts(followed, env) == facts(fresh, env)
    assert not np.any(followed.feasible & ~env.cluster.in_use)


def test_cluster_state_grows_with_the_number_of_nodes() -> None:
    env = RandomCluster()
    for number in range(100):
        room = {"cpu": "2", "pods": str(number + 1)}
        plain = {"metadata": {"name": f"n{number}"}, "spec": {"unschedulable": number % 2 == 0}}
        env.add_node(from_plain({**plain, "status": {"allocatable": room}}, Node))
    cluster = env.cluster
    rows = [cluster.row_of(f"n{number}") for number in range(100)]
    assert (len(cluster), cluster.in_use.sum(), len(set(rows))) == (100, 100, 100)
    assert cluster.allowed_pod_number[rows].tolist() == list(range(1, 101))
    assert cluster.unschedulable[rows].tolist() == [number % 2 == 0 for number in range(100)]
