# SPDX-License-Identifier: Apache-2.0
"""Plugins that compare parts of the cluster say what plain loops over all pods and nodes say."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Namespace, Node, Pod, PodAffinityTerm
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.pods.placement import first_untolerated, node_affinity_matches
from kubeloop.api.selectors import label_selector_as_selector
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from kubeloop.scheduler.plugins.pod_topology_spread import PodTopologySpread
from tests.unit.scheduler import random_clusters as w
from tests.unit.scheduler.plugins.test_per_node_plugins import node_rules
from tests.unit.scheduler.random_clusters import HOST, ZONE, RandomCluster, by_node, generated_clusters, pods

some = settings(max_examples=80, deadline=None)
TEAMS = {"default": {"team": "x"}, "other": {}}


def with_namespaces(env: RandomCluster) -> RandomCluster:
    objects = env.around.informers.for_resource(resource_of_class(Namespace)).objects
    objects += [Namespace(metadata=ObjectMeta(name=name, labels=labels)) for name, labels in TEAMS.items()]
    return env


def means(term: PodAffinityTerm, owner: Pod, pod: Pod) -> bool:
    namespaces = set(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = {owner.metadata.namespace}
    by_labels = label_selector_as_selector(term.namespace_selector).matches(TEAMS[pod.metadata.namespace])
    if pod.metadata.namespace not in namespaces and not by_labels:
        return False
    return label_selector_as_selector(term.label_selector).matches(pod.metadata.labels)


def required(pod: Pod, side: str) -> tuple[PodAffinityTerm, ...]:
    affinity = getattr(pod.spec.affinity, side, None)
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def preferred(pod: Pod, side: str) -> tuple[Any, ...]:
    affinity = getattr(pod.spec.affinity, side, None)
    return affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()


def same_place(term: PodAffinityTerm, one: Node, other: Node) -> bool:
    value = one.metadata.labels.get(term.topology_key)
    return value is not None and value == other.metadata.labels.get(term.topology_key)


@some
@given(generated_clusters(w.pod_affinity), pods(spec=w.pod_affinity))
def test_inter_pod_affinity_filters(env: RandomCluster, pod: Pod) -> None:
    with_namespaces(env)
    existing = [(one, env.nodes[name]) for name, there in env.pods.items() for one in there]
    near, apart = required(pod, "pod_affinity"), required(pod, "pod_anti_affinity")
    friends = [(one, node) for one, node in existing if all(means(term, pod, one) for term in near)]
    placed = any(term.topology_key in node.metadata.labels for term in near for _, node in friends)

    def is_near(node: Node) -> bool:
        if any(term.topology_key not in node.metadata.labels for term in near):
            return False
        if all(any(same_place(term, node, other) for _, other in friends) for term in near):
            return True
        return not placed and all(means(term, pod, pod) for term in near)

    def why_not(node: Node) -> tuple[str, ...]:
        if near and not is_near(node):
            return ("node(s) didn't match pod affinity rules",)
        if any(means(term, pod, one) and same_place(term, node, other) for term in apart for one, other in existing):
            return ("node(s) didn't match pod anti-affinity rules",)
        for one, other in existing:
            for term in required(one, "pod_anti_affinity"):
                if means(term, one, pod) and same_place(term, node, other):
                    return ("node(s) didn't satisfy existing pods anti-affinity rules",)
        return ()

    assert env.refusals(env.plugin(InterPodAffinity), pod) == by_node(env, why_not)


@some
@given(generated_clusters(w.pod_affinity), pods(spec=w.pod_affinity))
def test_inter_pod_affinity_scores(env: RandomCluster, pod: Pod) -> None:
    with_namespaces(env)
    existing = [(one, env.nodes[name]) for name, there in env.pods.items() for one in there]

    def raw(node: Node) -> int:
        total = 0
        for one, other in existing:
            for sign, side in ((1, "pod_affinity"), (-1, "pod_anti_affinity")):
                for weighted in preferred(pod, side):
                    term = weighted.pod_affinity_term
                    total += sign * weighted.weight * (means(term, pod, one) and same_place(term, node, other))
                for weighted in preferred(one, side):
                    term = weighted.pod_affinity_term
                    total += sign * weighted.weight * (means(term, one, pod) and same_place(term, node, other))
            for term in required(one, "pod_affinity"):
                total += means(term, one, pod) and same_place(term, node, other)
        return total

    scores = {name: raw(node) for name, node in env.nodes.items()}
    least, most = min(scores.values()), max(scores.values())
    expected = {
        name: int(100 * ((one - least) / (most - least))) if most > least else 0 for name, one in scores.items()
    }
    found = env.scores(env.plugin(InterPodAffinity), pod)
    assert (found or dict.fromkeys(env.nodes, 0)) == expected


_constraint = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 2),
        "topologyKey": st.sampled_from((ZONE, HOST)),
        "labelSelector": st.fixed_dictionaries({"matchLabels": w.labels}),
        "whenUnsatisfiable": st.sampled_from(("DoNotSchedule", "ScheduleAnyway")),
    },
    optional={
        "minDomains": st.integers(1, 3),
        "nodeAffinityPolicy": st.sampled_from(("Honor", "Ignore")),
        "nodeTaintsPolicy": st.sampled_from(("Honor", "Ignore")),
        "matchLabelKeys": st.just(["color"]),
    },
)
_spread = st.builds(
    lambda rules, constraints, tolerations: {
        **rules,
        "topologySpreadConstraints": constraints,
        "tolerations": tolerations,
    },
    node_rules,
    st.lists(_constraint, min_size=1, max_size=2),
    w.tolerations,
)


class TopologySpreadModel:
    """The rules of topology spread, one node and one pod after the other."""

    def __init__(self, env: RandomCluster, pod: Pod, action: str) -> None:
        self.env, self.pod = env, pod
        self.constraints = [one for one in pod.spec.topology_spread_constraints if one.when_unsatisfiable == action]
        self.keys = [one.topology_key for one in self.constraints]

    def selects(self, constraint: Any, labels: Any) -> bool:
        if not label_selector_as_selector(constraint.label_selector).matches(labels):
            return False
        own = self.pod.metadata.labels
        return all(labels.get(key) == own[key] for key in constraint.match_label_keys if key in own)

    def says_nothing(self, constraint: Any) -> bool:
        own = self.pod.metadata.labels
        has_keys = any(key in own for key in constraint.match_label_keys)
        return not constraint.label_selector.match_labels and not has_keys

    def count(self, constraint: Any, name: str) -> int:
        if self.says_nothing(constraint):
            return 0
        return sum(
            one.metadata.namespace == self.pod.metadata.namespace and self.selects(constraint, one.metadata.labels)
            for one in self.env.pods[name]
        )

    def takes_part(self, constraint: Any, node: Node) -> bool:
        if any(key not in node.metadata.labels for key in self.keys):
            return False
        if (constraint.node_affinity_policy or "Honor") == "Honor" and not node_affinity_matches(self.pod.spec, node):
            return False
        if (constraint.node_taints_policy or "Ignore") == "Ignore":
            return True
        return first_untolerated(node.spec.taints, self.pod.spec.tolerations, ("NoSchedule", "NoExecute")) is None

    def domains(self, constraint: Any) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, node in self.env.nodes.items():
            if self.takes_part(constraint, node):
                value = node.metadata.labels[constraint.topology_key]
                found[value] = found.get(value, 0) + self.count(constraint, name)
        return found


@some
@given(generated_clusters(), pods(spec=_spread))
def test_topology_spread_filters(env: RandomCluster, pod: Pod) -> None:
    plain = TopologySpreadModel(env, pod, "DoNotSchedule")

    def why_not(node: Node) -> tuple[str, ...]:
        for one in plain.constraints:
            value = node.metadata.labels.get(one.topology_key)
            if value is None:
                return ("node(s) didn't match pod topology spread constraints (missing required label)",)
            domains = plain.domains(one)
            least = 0 if len(domains) < (one.min_domains or 1) else min(domains.values())
            itself = plain.selects(one, pod.metadata.labels)
            if domains.get(value, 0) + itself - least > one.max_skew:
                return ("node(s) didn't match pod topology spread constraints",)
        return ()

    assert env.refusals(env.plugin(PodTopologySpread), pod) == by_node(env, why_not)


@some
@given(generated_clusters(), pods(spec=_spread), st.data())
def test_topology_spread_scores(env: RandomCluster, pod: Pod, data: st.DataObject) -> None:
    plain = TopologySpreadModel(env, pod, "ScheduleAnyway")
    among = data.draw(st.lists(st.sampled_from(sorted(env.nodes)), min_size=1, unique=True))
    present = [name for name in among if all(key in env.nodes[name].metadata.labels for key in plain.keys)]

    def raw(name: str) -> int:
        total = 0.0
        for one in plain.constraints:
            value = env.nodes[name].metadata.labels[one.topology_key]
            if one.topology_key == HOST:
                size, count = len(present), plain.count(one, name)
            else:
                size = len({env.nodes[each].metadata.labels[one.topology_key] for each in present})
                count = plain.domains(one).get(value, 0)
            total += count * math.log(size + 2) + (one.max_skew - 1)
        return math.floor(total + 0.5)

    found = env.scores(env.plugin(PodTopologySpread), pod, among)
    if not plain.constraints:
        assert found is None
        return
    scores = {name: raw(name) for name in present}
    least, most = min(scores.values(), default=0), max(scores.values(), default=0)
    expected = dict.fromkeys(among, 0)
    for name, score in scores.items():
        expected[name] = 100 * (most + least - score) // most if most else 100
    assert found == expected
