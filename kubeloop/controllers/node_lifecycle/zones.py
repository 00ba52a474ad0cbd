# SPDX-License-Identifier: Apache-2.0
"""Zones of nodes, their states, and the resulting eviction rates. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kubeloop.api.generated.core_v1 import Node

# Up to two failed nodes don't count as a disruption.
_FAILED_BY_CHANCE: Final = 2
EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"  # label of nodes that don't count


class ZoneState(StrEnum):
    """State of a zone."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


def zone_of(node: Node) -> str:
    """Return the key of a node's region and zone; empty without either."""
    labels = node.metadata.labels or {}
    zone = labels.get("failure-domain.beta.kubernetes.io/zone", labels.get("topology.kubernetes.io/zone", ""))
    region = labels.get("failure-domain.beta.kubernetes.io/region", labels.get("topology.kubernetes.io/region", ""))
    return f"{region}:\x00:{zone}" if region or zone else ""


def counts_for_disruption(node: Node) -> bool:
    """Return True if the node counts for the state of its zone."""
    return EXCLUDED not in (node.metadata.labels or {})


@dataclass(slots=True)
class ZoneTally:
    """Number of nodes in a zone, and of unready ones."""

    size: int = 0
    unready: int = 0

    def count(self, ready: bool) -> None:
        """Count one node."""
        self.size += 1
        self.unready += not ready

    def state(self, threshold: float) -> ZoneState:
        """Return the state of the zone."""
        if self.unready == self.size and self.size:
            return ZoneState.FULL
        if self.unready > _FAILED_BY_CHANCE and self.unready / self.size >= threshold:
            return ZoneState.PARTIAL
        return ZoneState.NORMAL

    @property
    def health(self) -> float:
        """Share of ready nodes in percent."""
        return 100.0 * (self.size - self.unready) / self.size if self.size else 100.0


@dataclass(frozen=True, slots=True)
class EvictionRates:
    """Nodes per second that may be tainted, in normal zones and in large disrupted ones."""

    normal: float
    reduced: float
    large: int

    def of(self, state: ZoneState, size: int) -> float:
        """Return the rate: zero for a small zone in partial disruption, normal for one in full disruption."""
        if state is ZoneState.PARTIAL:
            return self.reduced if size > self.large else 0.0
        return self.normal


class DisruptionTransition(StrEnum):
    """Transition of the cluster's zones."""

    AS_BEFORE = "full disruption neither began nor ended"
    ALL_LOST = "full disruption began: no node is ready, presumably a partition of the control plane"
    SOME_BACK = "full disruption ended: a node is ready again"


def disruption_transition(before: Mapping[str, ZoneState], after: Mapping[str, ZoneState]) -> DisruptionTransition:
    """Compare the states of the same zones before and after a check."""
    was_lost = all(one is ZoneState.FULL for one in before.values())
    is_lost = all(one is ZoneState.FULL for one in after.values())
    if is_lost == was_lost:
        return DisruptionTransition.AS_BEFORE
    return DisruptionTransition.ALL_LOST if is_lost else DisruptionTransition.SOME_BACK
