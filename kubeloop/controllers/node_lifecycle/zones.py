"""Zones of nodes, how many of a zone's nodes have to be gone for it to count as disrupted, and what follows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kubeloop.api.generated.core_v1 import Node

# Two nodes may fail by chance.
_FAILED_BY_CHANCE: Final = 2
EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"  # the label of nodes that don't count


class State(StrEnum):
    """How a zone is."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


def zone_of(node: Node) -> str:
    """Region and zone of a node as one text; empty without either."""
    labels = node.metadata.labels or {}
    zone = labels.get("failure-domain.beta.kubernetes.io/zone", labels.get("topology.kubernetes.io/zone", ""))
    region = labels.get("failure-domain.beta.kubernetes.io/region", labels.get("topology.kubernetes.io/region", ""))
    return f"{region}:\x00:{zone}" if region or zone else ""


def counts(node: Node) -> bool:
    """Whether a node matters for how its zone is."""
    return EXCLUDED not in (node.metadata.labels or {})


@dataclass(slots=True)
class Tally:
    """How many nodes a zone has, and how many of them are not ready."""

    size: int = 0
    unready: int = 0

    def count(self, ready: bool) -> None:
        self.size += 1
        self.unready += not ready

    def state(self, threshold: float) -> State:
        if self.unready == self.size and self.size:
            return State.FULL
        if self.unready > _FAILED_BY_CHANCE and self.unready / self.size >= threshold:
            return State.PARTIAL
        return State.NORMAL

    @property
    def health(self) -> float:
        """In percent."""
        return 100.0 * (self.size - self.unready) / self.size if self.size else 100.0


@dataclass(frozen=True, slots=True)
class Rates:
    """How many nodes a second may be emptied, in zones that are well, and in large ones that are not."""

    normal: float
    reduced: float
    large: int

    def of(self, state: State, size: int) -> float:
        """A small zone of which much is gone is left alone; of one that is gone wholly nothing is left to save."""
        if state is State.PARTIAL:
            return self.reduced if size > self.large else 0.0
        return self.normal


class Turn(StrEnum):
    """What a change of zones means for the cluster."""

    AS_BEFORE = "some zone was and is well, or none was or is"
    ALL_LOST = "no node is ready any longer: rather we are cut off than all of them"
    SOME_BACK = "some node is ready again"


def turn_of(before: Mapping[str, State], after: Mapping[str, State]) -> Turn:
    """The states of the same zones, before and after a look at all nodes."""
    was_lost = all(one is State.FULL for one in before.values())
    is_lost = all(one is State.FULL for one in after.values())
    if is_lost == was_lost:
        return Turn.AS_BEFORE
    return Turn.ALL_LOST if is_lost else Turn.SOME_BACK
