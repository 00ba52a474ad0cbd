# SPDX-License-Identifier: Apache-2.0
"""Topology spread constraints of a pod: its own, or the profile's defaults for pods of services and sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.apps_v1 import ReplicaSet, StatefulSet
from kubeloop.api.generated.core_v1 import Node, Pod, ReplicationController, Service, TopologySpreadConstraint
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.selectors import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    SelectorError,
    label_selector_as_selector,
    selector_from_set,
)
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.plugin import QueueingHintFn

_HARD: Final = "DoNotSchedule"
_SOFT: Final = "ScheduleAnyway"
_SYSTEM: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key="kubernetes.io/hostname", when_unsatisfiable=_SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable=_SOFT),
)


class TopologySpreadConstraintInfo(NamedTuple):
    """Topology spread constraint, compiled."""

    max_skew: int
    topology_key: str
    selector: LabelSelector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


class PodConstraints:
    """Constraints of pods, cached by pod signature."""

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        self._is_system = (args.get("defaultingType") or "System") == "System"
        given = args.get("defaultConstraints") or ()
        self._defaults = (
            _SYSTEM if self._is_system else tuple(from_plain(one, TopologySpreadConstraint) for one in given)
        )
        self._default_actions = {one.when_unsatisfiable for one in self._defaults}
        kinds = (Service, ReplicationController, ReplicaSet, StatefulSet) if self._defaults else ()
        self._informers = {kind.__name__: handle.informers.for_resource(resource_of_class(kind)) for kind in kinds}

    def do_not_schedule(self, pod: PodInfo) -> Sequence[TopologySpreadConstraintInfo]:
        """Return the DoNotSchedule constraints of a pod."""
        return self._of(pod, _HARD)

    def schedule_anyway(self, pod: PodInfo) -> Sequence[TopologySpreadConstraintInfo]:
        """Return the ScheduleAnyway constraints of a pod."""
        return self._of(pod, _SOFT)

    def requires_all_topologies(self, pod: PodInfo) -> bool:
        """Return True if only nodes with all topology keys are scored: not for system defaults."""
        return bool(pod.pod.spec.topology_spread_constraints) or not self._is_system

    def _of(self, pod: PodInfo, action: str) -> Sequence[TopologySpreadConstraintInfo]:
        own = pod.pod.spec.topology_spread_constraints
        states, key = pod.signature.plugin_states, (self, action)
        if own:
            known: Sequence[TopologySpreadConstraintInfo] | None = states.get(key)
            if known is None:
                known = states[key] = _constraints(own, pod.signature.labels, action)
            return known
        if action not in self._default_actions:
            return ()
        selector = self._default_selector(pod)
        if selector.is_empty:
            return ()
        found = _constraints(self._defaults, pod.signature.labels, action)
        return [one._replace(selector=selector) for one in found]

    def _default_selector(self, pod: PodInfo) -> LabelSelector:
        """Return the combined selector of the pod's services and controller; empty without any."""
        services = self._informers["Service"]
        states, key, stamp = pod.signature.plugin_states, self, services.version
        known = states.get(key)
        if known is None or known[0] != stamp:
            known = states[key] = (stamp, self._service_labels(pod))
        labels: Mapping[str, str] = known[1]
        owners = pod.pod.metadata.owner_references
        if not owners and not labels:
            return EVERYTHING
        owner = controller_of(owners)
        informer = self._informers.get(owner.kind) if owner is not None else None
        if owner is None or informer is None or owner.api_version != informer.resource.group_version:
            return selector_from_set(labels)
        found = informer.get(pod.signature.namespace, owner.name)
        return selector_from_set(labels) if found is None else _join_selectors(labels, found.spec.selector)

    def _service_labels(self, pod: PodInfo) -> dict[str, str]:
        labels: dict[str, str] = {}
        for service in self._informers["Service"].list(pod.signature.namespace):
            wanted = service.spec.selector
            if wanted and all(pod.signature.labels.get(key) == value for key, value in wanted.items()):
                labels |= wanted
        return labels


def _join_selectors(labels: Mapping[str, str], selector: Any) -> LabelSelector:
    if selector is None or isinstance(selector, Mapping):  # a ReplicationController's selector is a plain map
        return selector_from_set({**labels, **(selector or {})})
    try:
        more = label_selector_as_selector(selector)
    except SelectorError:
        return selector_from_set(labels)
    return LabelSelector((*selector_from_set(labels).requirements, *more.requirements))


def _constraints(
    given: Sequence[TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> list[TopologySpreadConstraintInfo]:
    return [_constraint(one, labels) for one in given if one.when_unsatisfiable == action]


def _constraint(one: TopologySpreadConstraint, labels: Mapping[str, str]) -> TopologySpreadConstraintInfo:
    try:
        selector = label_selector_as_selector(one.label_selector)
    except SelectorError:
        selector = NOTHING
    same = {key: labels[key] for key in one.match_label_keys if key in labels}
    if same and selector != NOTHING:
        selector = LabelSelector((*selector_from_set(same).requirements, *selector.requirements))
    return TopologySpreadConstraintInfo(
        one.max_skew,
        one.topology_key,
        selector,
        one.min_domains or 1,
        (one.node_affinity_policy or "Honor") == "Honor",
        (one.node_taints_policy or "Ignore") == "Honor",
    )


class TopologySpreadHints(NamedTuple):
    """Queueing hints of PodTopologySpread."""

    pod: QueueingHintFn
    itself: QueueingHintFn
    node: QueueingHintFn


def topology_spread_hints(spreading: PodConstraints) -> TopologySpreadHints:
    """Return the queueing hints for constraints."""

    def matter(pod: PodInfo, old: Pod | None, new: Pod | None) -> bool:
        present = [one for one in (old, new) if one is not None]
        if any(one.metadata.namespace != pod.key.namespace or not _is_assigned_or_nominated(one) for one in present):
            return False
        constraints = spreading.do_not_schedule(pod)
        if old is not None and new is not None:
            return _counts_differ(constraints, old, new)
        return any(one.selector.matches(present[0].metadata.labels) for one in constraints)

    def itself(pod: PodInfo, old: Pod, new: Pod) -> bool:
        constraints = spreading.do_not_schedule(pod)
        tolerates_more = old.spec.tolerations != new.spec.tolerations and any(one.honors_taints for one in constraints)
        return tolerates_more or _counts_differ(constraints, old, new)

    def node(pod: PodInfo, old: Node | None, new: Node | None) -> bool:
        keys = [one.topology_key for one in spreading.do_not_schedule(pod)]
        before = old is not None and all(key in old.metadata.labels for key in keys)
        after = new is not None and all(key in new.metadata.labels for key in keys)
        if old is None or new is None or before != after:
            return before or after
        moved = any(old.metadata.labels.get(key) != new.metadata.labels.get(key) for key in keys)
        return after and (moved or old.spec.taints != new.spec.taints)

    return TopologySpreadHints(matter, itself, node)


def _counts_differ(constraints: Sequence[TopologySpreadConstraintInfo], old: Pod, new: Pod) -> bool:
    before, after = old.metadata.labels, new.metadata.labels
    return before != after and any(one.selector.matches(before) != one.selector.matches(after) for one in constraints)


def _is_assigned_or_nominated(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
