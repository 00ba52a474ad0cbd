# SPDX-License-Identifier: Apache-2.0
"""Node selector terms, evaluated for all nodes at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.pods.placement import term_matches
from kubeloop.scheduler.cache.cluster import NAME_FIELD, ClusterState, Rows
from kubeloop.scheduler.cache.labels import LabelPredicate
from kubeloop.scheduler.cache.pod_info import PodInfo


class NodeSelectorTermMatcher:
    """Node selector term; all its requirements must match; an empty term matches no node."""

    def __init__(self, term: NodeSelectorTerm, cluster: ClusterState) -> None:
        labels, names = cluster.labels, cluster.names.column(NAME_FIELD)
        self._alive = cluster
        self._tests = [LabelPredicate(labels.column(one.key), _label_test(one)) for one in term.match_expressions]
        self._tests += [LabelPredicate(names, _name_test(one)) for one in term.match_fields]

    def match(self, rows: Rows) -> NDArray[np.bool_]:
        """Return a mask of the rows that match."""
        if not self._tests:
            return np.zeros(len(self._alive.in_use[rows]), bool)
        found = self._tests[0].evaluate(rows)
        for test in self._tests[1:]:
            found = found & test.evaluate(rows)
        return found


class NodeSelectorMatcher:
    """Node selector: one of its terms must match; without terms no node matches."""

    def __init__(self, selector: NodeSelector, cluster: ClusterState) -> None:
        self._tests = [NodeSelectorTermMatcher(term, cluster) for term in selector.node_selector_terms or ()]
        self._cluster = cluster

    @classmethod
    def from_selector(cls, selector: NodeSelector | None, cluster: ClusterState) -> NodeSelectorMatcher | None:
        """Return the compiled selector; None for None."""
        return None if selector is None else cls(selector, cluster)

    def match(self, rows: Rows) -> NDArray[np.bool_]:
        """Return a mask of the rows that match."""
        found = np.zeros(len(self._cluster.in_use[rows]), bool)
        for test in self._tests:
            found |= test.match(rows)
        return found


class RequiredNodeAffinity:
    """Node selector and required node affinity of a pod."""

    def __init__(self, pod: PodInfo, cluster: ClusterState) -> None:
        wanted = pod.pod.spec.node_selector.items()
        exactly = tuple(NodeSelectorRequirement(key=key, operator="In", values=(value,)) for key, value in wanted)
        self._selector = (
            NodeSelectorTermMatcher(NodeSelectorTerm(match_expressions=exactly), cluster) if exactly else None
        )
        required = pod.signature.node_affinity.required_during_scheduling_ignored_during_execution
        self._terms = NodeSelectorMatcher.from_selector(required, cluster)
        self._cluster = cluster

    @classmethod
    def for_pod(cls, pod: PodInfo, cluster: ClusterState) -> RequiredNodeAffinity:
        """Return the compiled affinity, shared by all pods of a signature."""
        made: RequiredNodeAffinity | None = pod.signature.plugin_states.get(cls)
        if made is None or made._cluster is not cluster:
            made = pod.signature.plugin_states[cls] = cls(pod, cluster)
        return made

    @property
    def is_empty(self) -> bool:
        """True if the pod has neither a node selector nor required affinity."""
        return self._selector is None and self._terms is None

    def match(self, rows: Rows) -> NDArray[np.bool_]:
        """Return a mask of the rows that match."""
        found = np.ones(len(self._cluster.in_use[rows]), bool)
        if self._selector is not None:
            found &= self._selector.match(rows)
        if self._terms is not None:
            found &= self._terms.match(rows)
        return found


def node_names_of_selector(selector: NodeSelector) -> frozenset[str] | None:
    """Return the node names that the terms select by metadata.name; None if a term may select other nodes."""
    names: set[str] = set()
    for term in selector.node_selector_terms or ():
        wanted = [set(one.values) for one in term.match_fields if one.key == NAME_FIELD and one.operator == "In"]
        if not wanted:
            return None
        names |= set.intersection(*wanted)
    return frozenset(names) if selector.node_selector_terms else None


def _label_test(one: NodeSelectorRequirement) -> Callable[[str | None], bool]:
    term = NodeSelectorTerm(match_expressions=(one,))

    def test(value: str | None) -> bool:
        labels = {} if value is None else {one.key: value}
        return term_matches(term, Node(metadata=ObjectMeta(labels=labels)))

    return test


def _name_test(one: NodeSelectorRequirement) -> Callable[[str | None], bool]:
    term = NodeSelectorTerm(match_fields=(one,))
    return lambda value: term_matches(term, Node(metadata=ObjectMeta(name=value or "")))
