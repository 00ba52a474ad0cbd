# SPDX-License-Identifier: Apache-2.0
"""Policies of the topology manager: which merged hints admit a pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubeloop.kubelet.cm.policy_options import InvalidPolicyOption, parse_bool_option
from kubeloop.kubelet.cm.topology.hints import ResourceHints, TopologyHint
from kubeloop.kubelet.cm.topology.machine import NumaNode
from kubeloop.kubelet.cm.topology.merge import HintLists, IsBetter, hint_lists, is_closer, is_narrower, merge_hints

NONE, BEST_EFFORT, SINGLE_NUMA_NODE = "none", "best-effort", "single-numa-node"
MOST_NUMA_NODES = 8  # more have too many combinations
_CLOSEST, _MOST = "prefer-closest-numa-nodes", "max-allowable-numa-nodes"


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """Values of `topologyManagerPolicyOptions`."""

    prefers_closest: bool = False
    most_numa_nodes: int = MOST_NUMA_NODES


def parse_topology_options(values: Mapping[str, str]) -> TopologyOptions:
    """Return the options of a configuration. Raises `InvalidPolicyOption`."""
    for name in values:
        if name not in (_CLOSEST, _MOST):
            raise InvalidPolicyOption(f'unknown Topology Manager Policy option: "{name}"')
    text = values.get(_MOST, str(MOST_NUMA_NODES))
    try:
        most = int(text)
    except ValueError:
        cause = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise InvalidPolicyOption(f'unable to convert policy option to integer "{_MOST}": {cause}') from None
    if most < MOST_NUMA_NODES:
        raise InvalidPolicyOption(f'the minimum value of "{_MOST}" should not be less than {MOST_NUMA_NODES}')
    return TopologyOptions(parse_bool_option(_CLOSEST, values.get(_CLOSEST, "false")), most)


class TopologyPolicy:
    """Merges hints by a policy other than `none`."""

    def __init__(self, name: str, options: TopologyOptions, nodes: Sequence[NumaNode]) -> None:
        if len(nodes) > options.most_numa_nodes:
            raise ValueError(f"unsupported on machines with more than {options.most_numa_nodes} NUMA Nodes")
        self.name = name
        self._nodes = frozenset(one.id for one in nodes)
        self._is_better: IsBetter = is_narrower
        if options.prefers_closest and name != SINGLE_NUMA_NODE:
            if not all(one.distances for one in nodes):
                raise ValueError("cannot discover NUMA topology: error getting NUMA distances from cadvisor")
            distances = {one.id: one.distances for one in nodes}
            self._is_better = is_closer([distances.get(id, ()) for id in range(max(distances) + 1)])

    @property
    def is_alignment_guaranteed(self) -> bool:
        """True if admitted containers have all resources on one NUMA node."""
        return self.name == SINGLE_NUMA_NODE

    def merge(self, providers: Iterable[ResourceHints]) -> tuple[TopologyHint, bool]:
        """Return the best hint of all providers, and True if it admits the container or pod."""
        hints = hint_lists(providers)
        if self.is_alignment_guaranteed:
            hints = _on_single_nodes(hints)
        best = merge_hints(self._nodes, hints, self._is_better)
        if self.is_alignment_guaranteed and best.affinity == self._nodes:
            best = TopologyHint(None, best.preferred)
        return best, best.preferred or self.name == BEST_EFFORT


def _on_single_nodes(hints: HintLists) -> HintLists:
    return [tuple(one for one in found if one.preferred and _size(one) <= 1) for found in hints]


def _size(hint: TopologyHint) -> int:
    return 0 if hint.affinity is None else len(hint.affinity)
