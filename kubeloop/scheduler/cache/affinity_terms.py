"""Terms of pod affinity, in a form that can be counted: who is meant, and over which part of the cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from kubeloop.api.generated.core_v1 import Pod, PodAffinityTerm
from kubeloop.api.selectors import NOTHING, LabelSelector, SelectorError, from_label_selector

# Must be near, must not be near, would rather be near (or, with a negative weight, rather not).
Kind = Literal["affinity", "anti-affinity", "preference"]


class Term(NamedTuple):
    """One term of one pod's affinity; equal for all pods that say the same."""

    kind: Kind
    weight: int
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector
    selector: LabelSelector

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether a pod is meant."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


def terms_of(pod: Pod) -> tuple[Term, ...]:
    """All terms of a pod."""
    return tuple(_terms(pod))


def _terms(pod: Pod) -> Iterator[Term]:
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


def _term(kind: Kind, weight: int, term: PodAffinityTerm, own: str) -> Term:
    """Without any word about namespaces the pod's own is meant; server-side, label keys have become selectors."""
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((own,))
    selector, among = _selector(term.label_selector), _selector(term.namespace_selector)
    return Term(kind, weight, term.topology_key, namespaces, among, selector)


def _selector(selector: object) -> LabelSelector:
    try:
        return from_label_selector(selector)  # type: ignore[arg-type]  # a generated struct, or None
    except SelectorError:
        return NOTHING
