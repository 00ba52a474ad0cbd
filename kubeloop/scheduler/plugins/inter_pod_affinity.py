# SPDX-License-Identifier: Apache-2.0
"""InterPodAffinity: affinity and anti-affinity between pods, of the pod itself and of existing pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Namespace, Node, Pod
from kubeloop.api.selectors import NOTHING, LabelSelector
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.scheduler.cache.affinity_terms import AffinityTerm
from kubeloop.scheduler.cache.cluster import ClusterState, Numbers, Rows
from kubeloop.scheduler.cache.domains import TopologyDomains
from kubeloop.scheduler.cache.pod_info import PodInfo, PodSignature
from kubeloop.scheduler.cache.selector_counts import PodSelection
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.plugin import (
    MAX_SCORE,
    SKIP,
    ClusterEventWithHint,
    Plugin,
    Skip,
    unresolvable_status,
    unschedulable_status,
)
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, NODE, TARGET_POD, ActionType

_AFFINITY_RULES, _ANTI_AFFINITY_RULES, _EXISTING_ANTI_AFFINITY_RULES = 1, 2, 3


class _State(NamedTuple):
    """Filter state: masks over all rows."""

    violates_affinity: NDArray[np.bool_] | None  # rows that violate the pod's affinity
    violates_anti_affinity: NDArray[np.bool_] | None  # rows that violate the pod's anti-affinity
    violates_existing_anti_affinity: NDArray[np.bool_] | None  # rows that violate existing pods' anti-affinity


class InterPodAffinity(Plugin):
    """Counts pods by affinity terms and sums the counts over topology domains."""

    name = "InterPodAffinity"
    is_node_local = False
    filter_statuses = (
        unresolvable_status(name, "node(s) didn't match pod affinity rules"),
        unschedulable_status(name, "node(s) didn't match pod anti-affinity rules"),
        unschedulable_status(name, "node(s) didn't satisfy existing pods anti-affinity rules"),
    )

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._hard_weight = int(args.get("hardPodAffinityWeight", 1))
        self._ignores_others = bool(args.get("ignorePreferredTermsOfExistingPods", False))
        self._namespaces = handle.informers.for_resource(resource_of_class(Namespace))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events of pods and nodes that may help."""
        return (
            ClusterEventWithHint(
                ASSIGNED_POD,
                ActionType.ADD | ActionType.POD_LABEL | ActionType.DELETE,
                self._is_schedulable_after_assigned_pod_change,
            ),
            ClusterEventWithHint(TARGET_POD, ActionType.POD_LABEL),
            ClusterEventWithHint(NODE, ActionType.ADD | ActionType.NODE_LABEL, _is_schedulable_after_node_change),
        )

    # Filtering.

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> _State | Skip:
        """Return masks of the nodes that violate a term; SKIP without required terms."""
        terms = pod.signature.pod_affinity_terms
        if not terms and not len(cluster.terms):
            return SKIP
        near = [term for term in terms if term.kind == "affinity"]
        apart = [term for term in terms if term.kind == "anti-affinity"]
        others = [
            term for term in self._existing_terms_matching(pod.signature, cluster) if term.kind == "anti-affinity"
        ]
        if not near and not apart and not others:
            return SKIP
        return _State(
            self._violates_affinity(near, pod, cluster) if near else None,
            _any(
                _domain_has_pods(cluster, term, cluster.selector_counts.counts(self._selection(term))) for term in apart
            ),
            _any(
                _domain_has_pods(cluster, term, counts)
                for term in others
                if (counts := cluster.terms.get(term)) is not None
            ),
        )

    def filter(self, state: _State, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return the first violated rule: affinity, anti-affinity, existing pods' anti-affinity."""
        answers = np.zeros(len(cluster.in_use[rows]), np.int16)
        if state.violates_existing_anti_affinity is not None:
            answers[state.violates_existing_anti_affinity[rows]] = _EXISTING_ANTI_AFFINITY_RULES
        if state.violates_anti_affinity is not None:
            answers[state.violates_anti_affinity[rows]] = _ANTI_AFFINITY_RULES
        if state.violates_affinity is not None:
            answers[state.violates_affinity[rows]] = _AFFINITY_RULES
        return answers

    def _violates_affinity(
        self, near: Sequence[AffinityTerm], pod: PodInfo, cluster: ClusterState
    ) -> NDArray[np.bool_]:
        """Return a mask of the rows that violate the affinity terms.

        Pods count that match all terms. If there are none at all, a pod that matches its own terms may be the first.
        """
        counts = cluster.selector_counts.counts(self._selection_of_all(near))
        has_labels = np.ones(cluster.size, bool)
        found = np.ones(cluster.size, bool)
        anywhere = False
        for term in near:
            domains = TopologyDomains(cluster, term.topology_key)
            sums = domains.sums(counts)
            anywhere = anywhere or bool(sums.any())
            has_labels &= domains.has_domain
            found &= sums[domains.ids] > 0
        if not anywhere and self._matches_itself(near, pod):
            return ~has_labels
        return ~(found & has_labels)

    def _matches_itself(self, near: Sequence[AffinityTerm], pod: PodInfo) -> bool:
        labels = self._namespace_labels(pod.signature.namespace)
        return all(term.matches(pod.signature.namespace, pod.signature.labels, labels) for term in near)

    # Scoring.

    def pre_score(self, pod: PodInfo, cluster: ClusterState) -> Numbers | Skip:
        """Return the weighted sums of preferred terms by row; SKIP if none apply."""
        terms = pod.signature.pod_affinity_terms
        if not terms and not len(cluster.terms):
            return SKIP
        own = [term for term in terms if term.kind == "preference"]
        if self._ignores_others and not own:
            return SKIP
        total: Numbers | None = None
        for term in own:
            counts = cluster.selector_counts.counts(self._selection(term))
            total = _plus(total, _weighted_sums(cluster, term, counts, term.weight))
        for term in self._existing_terms_matching(pod.signature, cluster):
            weight = self._hard_weight if term.kind == "affinity" else term.weight
            present = cluster.terms.get(term)
            if weight and present is not None:
                total = _plus(total, _weighted_sums(cluster, term, present, weight))
        return SKIP if total is None else total

    def score(self, state: Numbers, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Return the sum of each node."""
        return state[rows]

    def normalize_score(
        self, state: Any, scores: NDArray[np.int64], cluster: ClusterState, rows: Rows
    ) -> NDArray[np.int64]:
        """Scale the scores linearly so that the lowest is 0 and the highest 100."""
        least, most = int(scores.min()), int(scores.max())
        if most == least:
            return np.zeros_like(scores)
        return (MAX_SCORE * ((scores - least) / (most - least))).astype(np.int64)

    # Matching.

    def _existing_terms_matching(self, template: PodSignature, cluster: ClusterState) -> Sequence[AffinityTerm]:
        """Return the terms of existing pods that match the signature; cached until terms change."""
        stamp = (cluster, cluster.terms.version, self._namespaces.version)
        known = template.plugin_states.get(InterPodAffinity)
        if known is not None and known[0] == stamp:
            found: Sequence[AffinityTerm] = known[1]
            return found
        labels = self._namespace_labels(template.namespace)
        terms = [term for term in cluster.terms if isinstance(term, AffinityTerm)]
        found = [term for term in terms if term.matches(template.namespace, template.labels, labels)]
        template.plugin_states[InterPodAffinity] = (stamp, found)
        return found

    def _selection(self, term: AffinityTerm) -> PodSelection:
        return PodSelection(self._namespaces_of(term), term.selector)

    def _selection_of_all(self, terms: Sequence[AffinityTerm]) -> PodSelection:
        """Return the selection of pods that match all terms."""
        limits = [meant for term in terms if (meant := self._namespaces_of(term)) is not None]
        namespaces = frozenset.intersection(*limits) if limits else None
        if any(term.selector == NOTHING for term in terms):
            return PodSelection(namespaces, NOTHING)
        return PodSelection(namespaces, LabelSelector(one for term in terms for one in term.selector.requirements))

    def _namespaces_of(self, term: AffinityTerm) -> frozenset[str] | None:
        """Return the namespaces of a term; None for all."""
        if term.namespace_selector.is_empty:
            return None
        if term.namespace_selector == NOTHING:
            return term.namespaces
        meant = (one for one in self._namespaces.list() if term.namespace_selector.matches(one.metadata.labels))
        return term.namespaces | {one.metadata.name for one in meant}

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        namespace = self._namespaces.get("", name)
        return {} if namespace is None else namespace.metadata.labels

    # Hints.

    def _is_schedulable_after_assigned_pod_change(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> bool:
        for one in (old, new):
            if one is not None and not one.spec.node_name and not one.status.nominated_node_name:
                return False
        terms = pod.signature.pod_affinity_terms
        near = [term for term in terms if term.kind == "affinity"]
        apart = [term for term in terms if term.kind == "anti-affinity"]
        if new is not None:
            came_near = self._terms_match(near, new, all) and (old is None or not self._terms_match(near, old, all))
            went_away = (
                old is not None and self._terms_match(apart, old, any) and not self._terms_match(apart, new, any)
            )
            return came_near or went_away
        assert old is not None
        theirs = [
            term for term in self.handle.signatures.signature_of(old).pod_affinity_terms if term.kind == "anti-affinity"
        ]
        return self._terms_match(apart, old, any) or self._terms_match(theirs, pod.pod, any)

    def _terms_match(self, terms: Sequence[AffinityTerm], pod: Pod, how: Any) -> bool:
        meta = pod.metadata
        labels = self._namespace_labels(meta.namespace)
        return bool(terms) and bool(how(term.matches(meta.namespace, meta.labels, labels) for term in terms))


def _is_schedulable_after_node_change(pod: PodInfo, old: Node | None, new: Node) -> bool:
    """Return True if a node was added to or moved between domains that the pod's required terms refer to."""
    for term in pod.signature.pod_affinity_terms:
        if term.kind == "preference":
            continue
        value = new.metadata.labels.get(term.topology_key)
        before = None if old is None else old.metadata.labels.get(term.topology_key)
        if term.kind == "affinity" and value is not None and value != before:
            return True
        if term.kind == "anti-affinity" and (old is None or (before is not None and value != before)):
            return True
    return False


def _domain_has_pods(cluster: ClusterState, term: AffinityTerm, counts: Numbers) -> NDArray[np.bool_]:
    """Return a mask of the rows whose domain contains one of the counted pods."""
    return TopologyDomains(cluster, term.topology_key).sums_by_row(counts) > 0


def _weighted_sums(cluster: ClusterState, term: AffinityTerm, counts: Numbers, weight: int) -> Numbers | None:
    sums = TopologyDomains(cluster, term.topology_key)
    found = sums.sums(counts)
    return found[sums.ids] * weight if found.any() else None


def _plus(total: Numbers | None, more: Numbers | None) -> Numbers | None:
    if total is None or more is None:
        return more if total is None else total
    return total + more


def _any(masks: Any) -> NDArray[np.bool_] | None:
    found: NDArray[np.bool_] | None = None
    for mask in masks:
        found = mask if found is None else found | mask
    return found
