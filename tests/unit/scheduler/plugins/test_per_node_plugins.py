# SPDX-License-Identifier: Apache-2.0
"""Tests of per-node plugins: vectorized results equal a plain function per node."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import ContainerImage, Node, Pod, Taint
from kubeloop.api.pods.placement import (
    first_untolerated,
    node_affinity_matches,
    term_matches,
    tolerates,
)
from kubeloop.scheduler.cache import resources as amounts
from kubeloop.scheduler.plugins.balanced_allocation import BalancedAllocation
from kubeloop.scheduler.plugins.image_locality import ImageLocality
from kubeloop.scheduler.plugins.node_resources_fit import NodeResourcesFit
from kubeloop.scheduler.plugins.nodes.node_affinity import NodeAffinity
from kubeloop.scheduler.plugins.nodes.node_declared_features import NodeDeclaredFeatures
from kubeloop.scheduler.plugins.nodes.node_name import NodeName
from kubeloop.scheduler.plugins.nodes.node_ports import NodePorts
from kubeloop.scheduler.plugins.nodes.node_unschedulable import NodeUnschedulable
from kubeloop.scheduler.plugins.nodes.taint_toleration import TaintToleration
from tests.unit.scheduler import random_clusters as w
from tests.unit.scheduler.random_clusters import RandomCluster, by_node, generated_clusters, pods

some = settings(max_examples=60, deadline=None)
few = settings(max_examples=25, deadline=None)

_requirement = st.fixed_dictionaries({"key": st.sampled_from(("color", "size", "absent"))}).flatmap(
    lambda base: st.one_of(
        st.builds(lambda op: {**base, "operator": op}, st.sampled_from(("Exists", "DoesNotExist"))),
        st.builds(
            lambda op, values: {**base, "operator": op, "values": values},
            st.sampled_from(("In", "NotIn")),
            st.lists(st.sampled_from(("a", "b", "3")), min_size=1, max_size=2),
        ),
        st.builds(lambda op: {**base, "operator": op, "values": ["2"]}, st.sampled_from(("Gt", "Lt"))),
    )
)
_by_name = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(("In", "NotIn")),
        "values": st.sampled_from((["n0"], ["n1"])),
    }
)
_term = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(_requirement, max_size=2), "matchFields": st.lists(_by_name, max_size=1)}
)
_affinity = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(_term, min_size=1, max_size=2)}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": _term}), max_size=2
        ),
    },
)
node_rules = st.fixed_dictionaries(
    {}, optional={"nodeSelector": w.labels, "affinity": st.fixed_dictionaries({"nodeAffinity": _affinity})}
)


@some
@given(generated_clusters(), pods(spec=st.fixed_dictionaries({"nodeName": st.sampled_from(("", "n0", "n9"))})))
def test_node_name(env: RandomCluster, pod: Pod) -> None:
    def why_not(node: Node) -> tuple[str, ...]:
        wanted = pod.spec.node_name
        return ("node(s) didn't match the requested node name",) if wanted not in ("", node.metadata.name) else ()

    assert env.refusals(env.plugin(NodeName), pod) == by_node(env, why_not)


@some
@given(generated_clusters(), pods(spec=st.fixed_dictionaries({"tolerations": w.tolerations})))
def test_node_unschedulable(env: RandomCluster, pod: Pod) -> None:
    taint = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

    def why_not(node: Node) -> tuple[str, ...]:
        tolerated = any(tolerates(one, taint) for one in pod.spec.tolerations)
        return ("node(s) were unschedulable",) if node.spec.unschedulable and not tolerated else ()

    assert env.refusals(env.plugin(NodeUnschedulable), pod) == by_node(env, why_not)


@some
@given(generated_clusters(), pods(spec=st.fixed_dictionaries({"tolerations": w.tolerations})))
def test_taint_toleration(env: RandomCluster, pod: Pod) -> None:
    def why_not(node: Node) -> tuple[str, ...]:
        hard = ("NoSchedule", "NoExecute")
        found = first_untolerated(node.spec.taints, pod.spec.tolerations, hard)
        return () if found is None else ("node(s) had untolerated taint(s)",)

    plugin = env.plugin(TaintToleration)
    assert env.refusals(plugin, pod) == by_node(env, why_not)
    soft = [one for one in pod.spec.tolerations if one.effect in ("", "PreferNoSchedule")]
    counts = {
        name: sum(
            taint.effect == "PreferNoSchedule" and not any(tolerates(one, taint) for one in soft)
            for taint in node.spec.taints
        )
        for name, node in env.nodes.items()
    }
    most = max(counts.values())
    expected = {name: 100 - 100 * count // most if most else 100 for name, count in counts.items()}
    found = env.scores(plugin, pod)
    assert found == expected or (found is None and most == 0)


@some
@given(generated_clusters(), pods(spec=node_rules))
def test_node_affinity(env: RandomCluster, pod: Pod) -> None:
    def why_not(node: Node) -> tuple[str, ...]:
        return () if node_affinity_matches(pod.spec, node) else ("node(s) didn't match Pod's node affinity/selector",)

    plugin = env.plugin(NodeAffinity)
    found = env.refusals(plugin, pod)
    if any("pod affinity terms conflict" in reasons for reasons in found.values()):
        assert len(by_node(env, why_not)) == len(env.nodes)
    else:
        assert found == by_node(env, why_not)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    preferences = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    if preferences:
        raw = {
            name: sum(one.weight for one in preferences if term_matches(one.preference, node))
            for name, node in env.nodes.items()
        }
        most = max(raw.values())
        expected = {name: 100 * score // most if most else 0 for name, score in raw.items()}
        assert env.scores(plugin, pod) == expected


@some
@given(generated_clusters(), pods())
def test_node_ports(env: RandomCluster, pod: Pod) -> None:
    def ports(one: Pod) -> list[tuple[str, str, int]]:
        return [
            (port.host_ip or "0.0.0.0", port.protocol, port.host_port)
            for container in one.spec.containers or ()
            for port in container.ports
            if port.host_port
        ]

    def why_not(node: Node) -> tuple[str, ...]:
        for wanted in ports(pod):
            for one in env.pods[node.metadata.name]:
                for taken in ports(one):
                    same_address = wanted[0] == taken[0] or "0.0.0.0" in (wanted[0], taken[0])
                    if wanted[1:] == taken[1:] and same_address:
                        return ("node(s) didn't have free ports for the requested pod ports",)
        return ()

    assert env.refusals(env.plugin(NodePorts), pod) == by_node(env, why_not)


def used(env: RandomCluster, node: Node, name: str, presumed: bool = False) -> int:
    reading = amounts.nonzero_pod_requests if presumed else amounts.pod_requests
    return sum(reading(one).get(name, 0) for one in env.pods[node.metadata.name])


@some
@given(generated_clusters(), pods())
def test_node_resources_fit(env: RandomCluster, pod: Pod) -> None:
    wanted = amounts.pod_requests(pod)

    def why_not(node: Node) -> tuple[str, ...]:
        have = amounts.to_amounts(node.status.allocatable)
        reasons = []
        if len(env.pods[node.metadata.name]) + 1 > have["pods"]:
            reasons.append("Too many pods")
        for name in ("cpu", "memory", "example.com/gpu"):
            amount = wanted.get(name, 0)
            if amount and amount > have.get(name, 0) - used(env, node, name):
                reasons.append(f"Insufficient {name}")
        return tuple(reasons)

    assert env.refusals(env.plugin(NodeResourcesFit), pod) == by_node(env, why_not)


def strategies() -> st.SearchStrategy[dict[str, Any]]:
    resources = st.sampled_from(
        (
            None,
            [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}],
            [{"name": "example.com/gpu", "weight": 2}],
        )
    )
    shape = {
        "shape": [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 8}, {"utilization": 100, "score": 10}]
    }
    kinds = st.sampled_from(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    return st.builds(
        lambda kind, of: {"type": kind, "resources": of, "requestedToCapacityRatio": shape}, kinds, resources
    )


def line(percent: int) -> int:
    return 80 * percent // 50 if percent <= 50 else 80 + 20 * (percent - 50) // 50


@some
@given(generated_clusters(), pods(), strategies())
def test_node_resources_fit_scores(env: RandomCluster, pod: Pod, strategy: dict[str, Any]) -> None:
    wanted = amounts.nonzero_pod_requests(pod)
    resources = strategy["resources"] or [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]

    def one_score(kind: str, after: int, capacity: int) -> int:
        if kind == "LeastAllocated":
            return 0 if after > capacity else (capacity - after) * 100 // capacity
        if kind == "MostAllocated":
            return min(after, capacity) * 100 // capacity
        return line(100) if after > capacity else line(after * 100 // capacity)

    def score(node: Node) -> int:
        have = amounts.to_amounts(node.status.allocatable)
        total = weights = 0
        for one in resources:
            name, weight = one["name"], one["weight"]
            capacity, amount = have.get(name, 0), wanted.get(name, 0)
            if not capacity or (name == "example.com/gpu" and not amount):
                continue
            points = one_score(strategy["type"], used(env, node, name, True) + amount, capacity)
            if points > 0 or strategy["type"] != "RequestedToCapacityRatio":
                total += points * weight
                weights += weight
        if not weights:
            return 0
        exact = strategy["type"] == "RequestedToCapacityRatio"
        return int(total / weights + 0.5) if exact else total // weights

    plugin = env.plugin(NodeResourcesFit, {"scoringStrategy": strategy})
    assert env.scores(plugin, pod) == {name: score(node) for name, node in env.nodes.items()}


@some
@given(generated_clusters(), pods())
def test_balanced_allocation(env: RandomCluster, pod: Pod) -> None:
    wanted = amounts.pod_requests(pod)

    def evenness(parts: list[float]) -> int:
        deviation = abs(parts[0] - parts[1]) / 2
        return int((1 - deviation) * 100)

    def score(node: Node) -> int:
        have = amounts.to_amounts(node.status.allocatable)
        before = [min(used(env, node, name) / have[name], 1) for name in ("cpu", "memory")]
        after = [min((used(env, node, name) + wanted.get(name, 0)) / have[name], 1) for name in ("cpu", "memory")]
        return 50 + (50 + evenness(after) - evenness(before)) // 2

    found = env.scores(env.plugin(BalancedAllocation), pod)
    if not wanted.get("cpu") and not wanted.get("memory"):
        assert found is None
    else:
        assert found == {name: score(node) for name, node in env.nodes.items()}


_MIB = 1024 * 1024
_held = st.dictionaries(
    st.sampled_from(("app:latest", "app:1", "reg/db:latest", "reg:5000/x:latest")),
    st.sampled_from((1, 30 * _MIB, 700 * _MIB, 5000 * _MIB)),
    max_size=3,
)


@few
@given(generated_clusters(), pods(), st.data())
def test_image_locality(env: RandomCluster, pod: Pod, data: st.DataObject) -> None:
    """Megabytes that are there already, weighed by how many nodes have them: a node is not flooded for its images."""
    for node in tuple(env.nodes.values()):
        held = [{"names": [image], "sizeBytes": size} for image, size in data.draw(_held).items()]
        images = from_plain(held, tuple[ContainerImage, ...])
        env.add_node(replace(node, status=replace(node.status, images=images)))

    def has(node: Node, image: str) -> int:
        return next((one.size_bytes for one in node.status.images if image in (one.names or ())), 0)

    def score(node: Node) -> int:
        total = 0
        for one in pod.spec.containers or ():
            image = one.image if ":" in one.image else f"{one.image}:latest"
            spread = sum(has(each, image) > 0 for each in env.nodes.values()) / len(env.nodes)
            total += int(has(node, image) * spread)
        least, most = 23 * _MIB, 1000 * _MIB * len(pod.spec.containers or ())
        return 100 * (min(max(total, least), most) - least) // (most - least)

    expected = {name: score(node) for name, node in env.nodes.items()}
    found = env.scores(env.plugin(ImageLocality), pod)
    assert (found or dict.fromkeys(env.nodes, 0)) == expected


_needs = st.fixed_dictionaries(
    {},
    optional={
        "hostNetwork": st.booleans(),
        "hostUsers": st.booleans(),
        "initContainers": st.just(
            [{"name": "i", "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In"}}]}]
        ),
    },
)
_FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")


@few
@given(generated_clusters(), pods(spec=_needs), st.data())
def test_node_declared_features(env: RandomCluster, pod: Pod, data: st.DataObject) -> None:
    for node in tuple(env.nodes.values()):
        declared = tuple(name for name in _FEATURES if data.draw(st.booleans()))
        env.add_node(replace(node, status=replace(node.status, declared_features=declared)))

    def why_not(node: Node) -> tuple[str, ...]:
        restarts, shares = _FEATURES
        lacks = bool(pod.spec.init_containers) and restarts not in node.status.declared_features
        own_users = pod.spec.host_network and pod.spec.host_users is False
        lacks |= own_users and shares not in node.status.declared_features
        return ("node(s) didn't match Pod's required features",) if lacks else ()

    assert env.refusals(env.plugin(NodeDeclaredFeatures), pod) == by_node(env, why_not)
