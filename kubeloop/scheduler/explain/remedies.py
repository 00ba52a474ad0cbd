# SPDX-License-Identifier: Apache-2.0
"""Advice for rejections because of the node, its labels or other pods, in one line with names and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kubeloop.api.generated.core_v1 import Namespace, Node, NodeSelectorRequirement, NodeSelectorTerm
from kubeloop.api.pods.placement import node_selector_matches, term_matches, tolerates
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.scheduler.cache.affinity_terms import AffinityTerm
from kubeloop.scheduler.cache.cluster import ClusterState
from kubeloop.scheduler.cache.pod_info import HostPort, PodInfo
from kubeloop.scheduler.cache.resources import CPU
from kubeloop.scheduler.cache.taint_sets import HARD_TAINT_EFFECTS
from kubeloop.scheduler.framework.plugin import Plugin
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.plugins.nodes.node_ports import host_ports_conflict
from kubeloop.scheduler.plugins.shared.declared_features import required_node_features

_MIB: Final = 1024 * 1024


class RejectionCase(NamedTuple):
    """Rejection of a node for a pod by a plugin, with the plugin's state."""

    plugin: Plugin
    refusal: Status
    pod: PodInfo
    cluster: ClusterState
    row: int
    state: Any

    @property
    def node(self) -> Node:
        """Rejected node."""
        return self.cluster.nodes[self.row]

    @property
    def pods_on_node(self) -> Iterable[PodInfo]:
        """Pods on the node."""
        return self.cluster.pods[self.row].values()

    def informer_for(self, kind: type[Any]) -> Any:
        """Return the informer cache of a kind."""
        return self.plugin.handle.informers.for_resource(resource_of_class(kind))


Remedy = Callable[[RejectionCase], str]


# Advice about the node itself.


def advise_resources(case: RejectionCase) -> str:
    """Return every insufficient resource, and if the node could not provide it even when empty."""
    cluster, row, told = case.cluster, case.row, []
    if cluster.pod_count[row] >= cluster.allowed_pod_number[row]:
        told.append(f"{cluster.allowed_pod_number[row]} pods is the node's maximum: delete one, or raise the maximum")
    for name, wanted in case.pod.requests.items():
        have = int(cluster.resource_column(cluster.allocatable, name)[row])
        free = have - int(cluster.resource_column(cluster.requested, name)[row])
        if wanted <= free:
            continue
        if wanted > have:
            amounts = f"{format_amount(name, wanted)} requested, the node has {format_amount(name, have)} in total"
            told.append(f"{name}: {amounts}: request less")
        else:
            available = f"{format_amount(name, max(free, 0))} free of {format_amount(name, have)}"
            short = f"{format_amount(name, wanted)} requested, {available}"
            told.append(f"{name}: {short}: {format_amount(name, wanted - free)} more must become free")
    return "; ".join(told)


def format_amount(name: str, amount: int) -> str:
    """Return an amount in the usual notation of a quantity."""
    if name == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    for unit, size in (("Gi", 1024 * _MIB), ("Mi", _MIB)):
        if amount and amount % size == 0:
            return f"{amount // size}{unit}"
    return str(amount)


def advise_tolerations(case: RejectionCase) -> str:
    """Return the taints that the pod does not tolerate."""
    told = [
        f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        for taint in case.node.spec.taints
        if taint.effect in HARD_TAINT_EFFECTS
        and not any(tolerates(one, taint) for one in case.pod.pod.spec.tolerations)
    ]
    return f"tolerate {', '.join(told)}, or remove {'them' if len(told) > 1 else 'the taint'}"


def advise_uncordon(case: RejectionCase) -> str:
    """Return the kubectl command that uncordons the node."""
    return f"kubectl uncordon {case.node.metadata.name}"


def advise_node_name(case: RejectionCase) -> str:
    """Return the node name that the pod's spec requires."""
    return f"the pod requires the node {case.pod.node_name}"


def advise_declared_features(case: RejectionCase) -> str:
    """Return the node features that the pod requires and the node does not declare."""
    lacking = sorted(required_node_features(case.pod.pod.spec) - {*case.node.status.declared_features})
    return f"a node that declares {', '.join(lacking)}"


def advise_host_ports(case: RejectionCase) -> str:
    """Return the host ports in use, with the pods that use them."""
    told = []
    for port in case.pod.signature.host_ports:
        holder = next((one for one in case.pods_on_node if _holds(one, port)), None)
        if holder is not None:
            told.append(f"{port[2]}/{port[1]} is {holder.key}'s")
    return "; ".join(told)


def _holds(info: PodInfo, port: HostPort) -> bool:
    return any(host_ports_conflict(port, one) for one in info.signature.host_ports)


# Advice about node labels.


def advise_node_labels(case: RejectionCase) -> str:
    """Return the missing part of the node selector, and of the affinity term closest to a match."""
    spec, labels = case.pod.pod.spec, case.node.metadata.labels
    wanted = [f"{key}={value}" for key, value in spec.node_selector.items() if labels.get(key) != value]
    told = [f"label it {', '.join(wanted)}"] if wanted else []
    required = case.pod.signature.node_affinity.required_during_scheduling_ignored_during_execution
    if required is not None and not node_selector_matches(required, case.node):
        unmet = [_unmet_requirements(term, case.node) for term in required.node_selector_terms or ()]
        nearest = min(unmet, key=len, default=[])
        told.append(f"needs {' and '.join(nearest)}" if nearest else "the pod's node affinity matches no node")
    return "; ".join(told) or "the node does not match the affinity added by the scheduler profile"


def _unmet_requirements(term: NodeSelectorTerm, node: Node) -> list[str]:
    labels = node.metadata.labels
    told = [
        f"{_format_requirement(one)} (it has {labels[one.key]})" if one.key in labels else _format_requirement(one)
        for one in term.match_expressions
        if not term_matches(NodeSelectorTerm(match_expressions=(one,)), node)
    ]
    fields = (one for one in term.match_fields if not term_matches(NodeSelectorTerm(match_fields=(one,)), node))
    return told + [_format_requirement(one) for one in fields]


def _format_requirement(one: NodeSelectorRequirement) -> str:
    return f"{one.key} {one.operator}" + (f" [{', '.join(one.values)}]" if one.values else "")


# Advice about other pods in the topology domain.


def advise_pod_affinity(case: RejectionCase) -> str:
    """Return the inter-pod affinity term that is not satisfied, and the pod in conflict."""
    reason = case.refusal.message
    if "existing pods" in reason:
        return next(_existing_anti_affinity_pods(case), "")
    if "anti-affinity" in reason:
        return next(_conflicting_anti_affinity_pods(case), "")
    return next(_missing_affinity_pods(case), "all pods of its affinity must be in one topology domain")


def _missing_affinity_pods(case: RejectionCase) -> Iterator[str]:
    for term in case.pod.signature.pod_affinity_terms:
        if term.kind != "affinity":
            continue
        if term.topology_key not in case.node.metadata.labels:
            yield f"label it {term.topology_key}"
        elif not any(_term_matches(case, term, one) for one in _pods_in_domain(case, term)):
            yield f"start a pod with {term.selector} in {_domain_label(case, term)}"


def _conflicting_anti_affinity_pods(case: RejectionCase) -> Iterator[str]:
    for term in case.pod.signature.pod_affinity_terms:
        for one in _pods_in_domain(case, term) if term.kind == "anti-affinity" else ():
            if _term_matches(case, term, one):
                yield f"the pod avoids {term.selector}: {one.key} is in {_domain_label(case, term)}"


def _existing_anti_affinity_pods(case: RejectionCase) -> Iterator[str]:
    for row, pods in case.cluster.pods.items():
        for one in pods.values():
            for term in one.signature.pod_affinity_terms:
                here = case.node.metadata.labels.get(term.topology_key)
                there = case.cluster.nodes[row].metadata.labels.get(term.topology_key)
                if (
                    term.kind == "anti-affinity"
                    and here is not None
                    and here == there
                    and _term_matches(case, term, case.pod)
                ):
                    yield f"{one.key} avoids pods like this in {_domain_label(case, term)}"


def _pods_in_domain(case: RejectionCase, term: AffinityTerm) -> Iterator[PodInfo]:
    """Yield the pods in the same topology domain."""
    value = case.node.metadata.labels.get(term.topology_key)
    for row, pods in case.cluster.pods.items() if value is not None else ():
        if case.cluster.nodes[row].metadata.labels.get(term.topology_key) == value:
            yield from pods.values()


def _term_matches(case: RejectionCase, term: AffinityTerm, one: PodInfo) -> bool:
    namespace = case.informer_for(Namespace).get("", one.key.namespace)
    labels: Mapping[str, str] = {} if namespace is None else namespace.metadata.labels
    return term.matches(one.key.namespace, one.signature.labels, labels)


def _domain_label(case: RejectionCase, term: AffinityTerm) -> str:
    return f"{term.topology_key}={case.node.metadata.labels.get(term.topology_key, '')}"


def advise_topology_spread(case: RejectionCase) -> str:
    """Return the number of matching pods in the domain, and the number that maxSkew permits."""
    told = []
    for one in case.state:
        key, labels = one.constraint.topology_key, case.node.metadata.labels
        if not one.has_label[case.row]:
            told.append(f"label it {key}")
        elif one.exceeds_skew[case.row]:
            here, most = int(one.pods_in_domain[case.row]), one.min_match + one.constraint.max_skew
            fewest = f"{one.min_match} is the minimum of the other domains and maxSkew is {one.constraint.max_skew}"
            told.append(f"{key}={labels[key]} has {here} such pods, {fewest}: at most {most} with this one")
    return "; ".join(told)


NODE_REMEDIES: Final[Mapping[str, Remedy]] = {
    "InterPodAffinity": advise_pod_affinity,
    "NodeAffinity": advise_node_labels,
    "NodeDeclaredFeatures": advise_declared_features,
    "NodeName": advise_node_name,
    "NodePorts": advise_host_ports,
    "NodeResourcesFit": advise_resources,
    "NodeUnschedulable": advise_uncordon,
    "PodTopologySpread": advise_topology_spread,
    "TaintToleration": advise_tolerations,
}
