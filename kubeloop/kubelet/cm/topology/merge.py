# SPDX-License-Identifier: Apache-2.0
"""Merges the hints of all providers into the best one that they share. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kubeloop.kubelet.cm.topology.hints import ResourceHints, TopologyHint

NO_PREFERENCE, IMPOSSIBLE = TopologyHint(None, True), TopologyHint(None, False)

Affinity = frozenset[int]
IsBetter = Callable[[Affinity, Affinity], bool]
HintLists = list[tuple[TopologyHint, ...]]


@dataclass(frozen=True, slots=True)
class _MergedPrefix:
    """Hints of some resources together: their common nodes, the first affinity if all are equal, and preference."""

    affinity: Affinity
    common: Affinity | None
    preferred: bool

    def with_hint(self, hint: TopologyHint) -> _MergedPrefix:
        if hint.affinity is None:
            return _MergedPrefix(self.affinity, self.common, self.preferred and hint.preferred)
        is_equal = self.common is None or self.common == hint.affinity
        common = hint.affinity if self.common is None else self.common
        return _MergedPrefix(self.affinity & hint.affinity, common, self.preferred and hint.preferred and is_equal)


def hint_lists(providers: Iterable[ResourceHints]) -> HintLists:
    """Return the hints of each resource; providers and resources without a preference accept all nodes."""
    found: HintLists = []
    for hints in providers:
        if not hints:
            found.append((NO_PREFERENCE,))
        for one in hints.values():
            found.append((NO_PREFERENCE,) if one is None else tuple(one) or (IMPOSSIBLE,))
    return found


def merge_hints(nodes: Affinity, hints: HintLists, is_better: IsBetter) -> TopologyHint:
    """Return the best of all combinations of one hint per resource, of which equal prefixes are merged once."""
    merged = [_MergedPrefix(nodes, None, True)]
    for choices in hints:
        merged = list(dict.fromkeys(one.with_hint(hint) for one in merged for hint in choices))
    best: TopologyHint | None = None
    target = _largest_minimum(hints)
    for one in merged:
        if one.affinity:
            candidate = TopologyHint(one.affinity, one.preferred)
            best = candidate if best is None else better_hint(best, candidate, target, is_better)
    return best if best is not None else TopologyHint(nodes, False)


def better_hint(current: TopologyHint, candidate: TopologyHint, target: int, is_better: IsBetter) -> TopologyHint:
    """Return the better of two hints; among those that are not preferred, the size closest to the target wins."""
    now, new = current.affinity or frozenset(), candidate.affinity or frozenset()
    if current.preferred != candidate.preferred:
        return current if current.preferred else candidate
    chosen = candidate if now != new and not is_better(now, new) else current
    if current.preferred or len(now) > target:
        return chosen
    if len(now) == target or len(new) > target:
        return chosen if len(new) == len(now) else current
    if len(new) == len(now):
        return chosen
    return candidate if len(new) > len(now) else current


def is_narrower(one: Affinity, other: Affinity) -> bool:
    """Return True for fewer nodes; of equally many, for those with lower numbers."""
    return narrowness(one) < narrowness(other)


def narrowness(nodes: Affinity) -> tuple[int, int]:
    """Return the order of sets of nodes: smaller ones first, then those with lower numbers."""
    return len(nodes), _bits(nodes)


def is_closer(distances: Sequence[Sequence[int]]) -> IsBetter:
    """Return a comparison that prefers fewer nodes; of equally many, those with the smallest average distance."""

    def average(nodes: Affinity) -> float:
        return sum(distances[one][other] for one in nodes for other in nodes) / len(nodes) ** 2

    def is_better(one: Affinity, other: Affinity) -> bool:
        if len(one) != len(other):
            return is_narrower(one, other)
        return (average(one), _bits(one)) < (average(other), _bits(other))

    return is_better


def _largest_minimum(hints: HintLists) -> int:
    """Return the number of nodes that the most demanding resource needs at least."""
    smallest = (min(sizes) for one in hints if (sizes := list(_sizes(one))))
    return max(smallest, default=0)


def _sizes(hints: Iterable[TopologyHint]) -> Iterator[int]:
    return (len(one.affinity) for one in hints if one.affinity is not None)


def _bits(nodes: Affinity) -> int:
    return sum(1 << node for node in nodes)
