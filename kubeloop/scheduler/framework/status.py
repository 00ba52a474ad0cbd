"""What plugins answer: success or a reason why not, for a pod or for each node; and the sentence told of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

NO_NODES = "no nodes available to schedule pods"
EXTENDER = "Extender"  # as if they were one plugin


class Code(Enum):
    """How a plugin's answer is meant."""

    SUCCESS = "success"
    UNSCHEDULABLE = "unschedulable"  # other pods are in the way: preemption may help
    UNRESOLVABLE = "unschedulable and unresolvable"  # nothing that happens to other pods helps
    PENDING = "pending"  # the plugin waits for something, and will say when it has come
    WAIT = "wait"  # a permit that is still to be given
    ERROR = "error"


STATUSES = {
    Code.SUCCESS: "Success",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.PENDING: "Pending",
    Code.WAIT: "Wait",
    Code.ERROR: "Error",
}  # as upstream's metrics call them


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, of one plugin about one pod or one node."""

    code: Code
    reasons: tuple[str, ...]
    plugin: str = ""

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def is_rejection(self) -> bool:
        """Whether the pod can't be scheduled as things are; else something went wrong."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Only these nodes come into question, so that no other needs to be looked at; and what `filter` is given."""

    nodes: frozenset[str]
    state: Any = None


class SchedulingError(Exception):
    """Something that should not happen did; the pod is tried again."""


@dataclass(slots=True)
class Diagnosis:
    """Why a pod fits no node."""

    nodes: int
    groups: list[tuple[Refusal, Any]] = field(default_factory=list)  # with the rows of the nodes it is about
    absent: Refusal | None = None  # of nodes that nobody looked at
    before: str = ""  # refused before any node was looked at
    after: str = ""  # what came of trying to make room
    plugins: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)

    def note(self, one: Refusal) -> None:
        """Remember who refuses: changes that matter to them may help."""
        if one.plugin and one.is_rejection:
            (self.pending if one.code is Code.PENDING else self.plugins).add(one.plugin)

    @property
    def message(self) -> str:
        said = fit_message(self.nodes, [(one, len(rows)) for one, rows in self.groups], self.absent, self.before)
        return f"{said} {self.after}" if self.after else said


def fit_message(
    nodes: int, refused: Iterable[tuple[Refusal, int]], absent: Refusal | None = None, before: str = ""
) -> str:
    """`0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).`"""
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
