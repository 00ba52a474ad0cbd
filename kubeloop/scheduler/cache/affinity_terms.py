# SPDX-License-Identifier: Apache-2.0
"""Inter-pod affinity terms in a hashable form that can be counted per node. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from kubeloop.api.generated.core_v1 import Pod, PodAffinityTerm
from kubeloop.api.selectors import NOTHING, LabelSelector, SelectorError, label_selector_as_selector

# Required affinity, required anti-affinity, preferred (with a negative weight: anti-affinity).
TermKind = Literal["affinity", "anti-affinity", "preference"]


class AffinityTerm(NamedTuple):
    """One affinity term; equal terms of different pods compare equal."""

    kind: TermKind
    weight: int
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector
    selector: LabelSelector

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Return True if the term selects a pod."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


def affinity_terms_of(pod: Pod) -> tuple[AffinityTerm, ...]:
    """Return all affinity terms of a pod."""
    return tuple(_terms(pod))


def _terms(pod: Pod) -> Iterator[AffinityTerm]:
    affinity, own = pod.spec.affinity, pod.metadata.namespace
    if affinity is None:
        return
    if near := affinity.pod_affinity:
        for one in near.required_during_scheduling_ignored_during_execution:
            yield _term("affinity", 0, one, own)
        for weighted in near.preferred_during_scheduling_ignored_during_execution:
            yield _term("preference", weighted.weight, weighted.pod_affinity_term, own)
    if apart := affinity.pod_anti_affinity:
        for one in apart.required_during_scheduling_ignored_during_execution:
            yield _term("anti-affinity", 0, one, own)
        for weighted in apart.preferred_during_scheduling_ignored_during_execution:
            yield _term("preference", -weighted.weight, weighted.pod_affinity_term, own)


def _term(kind: TermKind, weight: int, term: PodAffinityTerm, own: str) -> AffinityTerm:
    """Convert a term; without namespaces and selector it means the pod's namespace.

    The API server has already merged matchLabelKeys into the selectors.
    """
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((own,))
    selector, among = _selector(term.label_selector), _selector(term.namespace_selector)
    return AffinityTerm(kind, weight, term.topology_key, namespaces, among, selector)


def _selector(selector: object) -> LabelSelector:
    try:
        return label_selector_as_selector(selector)  # type: ignore[arg-type]  # a generated struct, or None
    except SelectorError:
        return NOTHING
