"""Terms of node selectors, asked of all nodes at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.placement import term_matches
from kubeloop.scheduler.cluster import NAME_FIELD, ClusterState, Rows
from kubeloop.scheduler.labels import Verdicts


class TermTest:
    """One term: all its requirements have to hold; one that says nothing means no node."""

    def __init__(self, term: NodeSelectorTerm, cluster: ClusterState) -> None:
        labels, names = cluster.labels, cluster.names.column(NAME_FIELD)
        self._alive = cluster
        self._tests = [Verdicts(labels.column(one.key), _label_test(one)) for one in term.match_expressions]
        self._tests += [Verdicts(names, _name_test(one)) for one in term.match_fields]

    def of(self, rows: Rows) -> NDArray[np.bool_]:
        if not self._tests:
            return np.zeros(len(self._alive.alive[rows]), bool)
        found = self._tests[0].of(rows)
        for test in self._tests[1:]:
            found = found & test.of(rows)
        return found


def name_terms(selector: NodeSelector) -> frozenset[str] | None:
    """The nodes that terms mean by name; None if one of them means others too."""
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
