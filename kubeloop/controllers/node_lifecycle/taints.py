# SPDX-License-Identifier: Apache-2.0
"""Computes a node's taints from its conditions, and its deprecated labels. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubeloop.api.generated.core_v1 import Node, Taint
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.wire import Time

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

# NoSchedule taints: type and status of a condition, and the key of its taint.
_KEYS: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS: Final = frozenset((*_KEYS.values(), UNSCHEDULABLE))
# A node that is not ready has one of these NoExecute taints, never both.
_OPPOSITE: Final = {NOT_READY: UNREACHABLE, UNREACHABLE: NOT_READY}
# Labels with a deprecated name: the deprecated label copies the current one.
_OLD_LABELS: Final = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}

Taints = tuple[Taint, ...]


def with_condition_taints(node: Node, now: Time) -> Taints:
    """Return the taints with the NoSchedule taints that the conditions require; existing ones keep their time.

    Returns the same tuple if nothing has changed.
    """
    wanted = dict.fromkeys(_condition_keys(node))
    before = node.spec.taints
    kept = tuple(one for one in before if not _is_for_condition(one) or one.key in wanted)
    there = {one.key for one in kept if one.effect == NO_SCHEDULE}
    added = tuple(Taint(key=key, effect=NO_SCHEDULE, time_added=now) for key in wanted if key not in there)
    return (*kept, *added) if added or len(kept) != len(before) else before


def _condition_keys(node: Node) -> Iterable[str]:
    for condition in node.status.conditions:
        if (key := _KEYS.get((condition.type, condition.status))) is not None:
            yield key
    if node.spec.unschedulable:
        yield UNSCHEDULABLE


def _is_for_condition(taint: Taint) -> bool:
    return taint.effect == NO_SCHEDULE and taint.key in _OURS


def eviction_key(ready: str) -> str:
    """Return the key of the NoExecute taint for a Ready status; empty if the node is ready."""
    return _KEYS.get(("Ready", ready), "")


def with_eviction_taint(node: Node, now: Time) -> Taints:
    """Return the taints with the NoExecute taint that the Ready condition requires."""
    ready = find_condition(node.status.conditions, "Ready")
    key = eviction_key(ready.status) if ready is not None else ""
    if not key:
        return node.spec.taints
    kept = without_eviction_keys(node.spec.taints, _OPPOSITE[key])
    if has_eviction_taint(node, key):
        return kept
    return (*kept, Taint(key=key, effect=NO_EXECUTE, time_added=now))


def without_eviction_taints(node: Node) -> Taints:
    """Return the taints without both NoExecute taints."""
    return without_eviction_keys(node.spec.taints, NOT_READY, UNREACHABLE)


def has_eviction_taint(node: Node, *keys: str) -> bool:
    """Return True if the node has a NoExecute taint with one of the keys."""
    return any(one.effect == NO_EXECUTE and one.key in keys for one in node.spec.taints)


def has_opposite_taint(node: Node, key: str) -> bool:
    """Return True if the node has the NoExecute taint for the other reason."""
    return has_eviction_taint(node, _OPPOSITE[key])


def without_eviction_keys(taints: Taints, *keys: str) -> Taints:
    """Remove the NoExecute taints with these keys; returns the same tuple if there are none."""
    kept = tuple(one for one in taints if one.effect != NO_EXECUTE or one.key not in keys)
    return kept if len(kept) != len(taints) else taints


def labels_to_reconcile(node: Node) -> dict[str, str]:
    """Return the deprecated labels that differ from the current ones."""
    labels = node.metadata.labels or {}
    return {old: labels[new] for new, old in _OLD_LABELS.items() if new in labels and labels.get(old) != labels[new]}
