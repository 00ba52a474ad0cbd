# SPDX-License-Identifier: Apache-2.0
"""Results of plugins: status codes, the PreFilter result, the diagnosis, and the FitError message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

NO_NODES = "no nodes available to schedule pods"
EXTENDER = "Extender"  # all extenders count as one plugin


class Code(Enum):
    """Status code of a plugin's result."""

    SUCCESS = "success"
    UNSCHEDULABLE = "unschedulable"  # because of other pods: preemption may help
    UNSCHEDULABLE_AND_UNRESOLVABLE = "unschedulable and unresolvable"  # preemption cannot help
    PENDING = "pending"  # the plugin waits for an event, and will report it
    WAIT = "wait"  # a permit is outstanding
    ERROR = "error"


CODE_NAMES = {
    Code.SUCCESS: "Success",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.PENDING: "Pending",
    Code.WAIT: "Wait",
    Code.ERROR: "Error",
}  # names in upstream's metrics


@dataclass(frozen=True, slots=True)
class Status:
    """Status other than success that a plugin returned for a pod or a node."""

    code: Code
    reasons: tuple[str, ...]
    plugin: str = ""

    @property
    def message(self) -> str:
        """Reasons, joined by commas."""
        return ", ".join(self.reasons)

    @property
    def is_rejected(self) -> bool:
        """True if the pod is unschedulable in the present state of the cluster; False for errors."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """PreFilter result that restricts the nodes to be evaluated; carries the state for `filter`."""

    node_names: frozenset[str]
    state: Any = None


class SchedulingError(Exception):
    """Raised on an internal error; the pod is tried again."""


@dataclass(slots=True)
class Diagnosis:
    """Reasons for a pod fitting on no node."""

    nodes: int
    node_statuses: list[tuple[Status, Any]] = field(default_factory=list)  # each with the rows of the nodes
    absent_nodes_status: Status | None = None  # status of the nodes that were not evaluated
    pre_filter_msg: str = ""  # message of a rejection before any node was evaluated
    post_filter_msg: str = ""  # message of PostFilter
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)

    def add_plugin_status(self, one: Status) -> None:
        """Record the plugin of a rejection, so that its registered events may requeue the pod."""
        if one.plugin and one.is_rejected:
            (self.pending_plugins if one.code is Code.PENDING else self.unschedulable_plugins).add(one.plugin)

    def reject_before_nodes(self, one: Status) -> None:
        """Record a rejection by PreFilter, before any node was evaluated."""
        self.set_pre_filter_result(one.message, one)
        self.add_plugin_status(one)

    def set_pre_filter_result(self, message: str, absent_nodes_status: Status) -> None:
        """Set the message of PreFilter, "" for none, and the status of the nodes that were not evaluated."""
        self.pre_filter_msg = message
        self.absent_nodes_status = absent_nodes_status

    def set_post_filter_message(self, message: str) -> None:
        """Set the message of PostFilter."""
        self.post_filter_msg = message

    @property
    def message(self) -> str:
        """FitError message, followed by the PostFilter message."""
        said = fit_error_message(
            self.nodes,
            [(one, len(rows)) for one, rows in self.node_statuses],
            self.absent_nodes_status,
            self.pre_filter_msg,
        )
        return f"{said} {self.post_filter_msg}" if self.post_filter_msg else said


def fit_error_message(
    nodes: int, refused: Iterable[tuple[Status, int]], absent: Status | None = None, before: str = ""
) -> str:
    """Return the FitError text, such as `0/5 nodes are available: 2 Insufficient cpu, 3 Too many pods.`."""
    if before:
        return f"0/{nodes} nodes are available: {before}."
    counts: Counter[str] = Counter()
    looked_at = 0
    for one, number in refused:
        looked_at += number
        for reason in one.reasons:
            counts[reason] += number
    if absent is not None and looked_at < nodes:
        counts.update(dict.fromkeys(absent.reasons, nodes - looked_at))
    if not counts:
        return f"0/{nodes} nodes are available:"
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{nodes} nodes are available: {told}."
