# SPDX-License-Identifier: Apache-2.0
"""Health of nodes as observed by this controller, and the conditions of silent nodes. Pure.

Clocks may be wrong, those of nodes and our own: what counts is when a change of the lease or of the status was observed
here by a monotonic clock, not the time that is written in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Node, NodeCondition
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.api.scalars.wire import Time

READY: Final = "Ready"
# Conditions that become unknown on a silent node. NetworkUnavailable is set by others.
_REPORTED_BY_KUBELET: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class NodeGracePeriods:
    """Grace periods of nodes: after their last report, and before their first one."""

    grace: timedelta
    startup_grace: timedelta


class ClockReading(NamedTuple):
    """Wall time, for the API, and monotonic seconds, for comparisons."""

    time: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """Observed state of a node, and the time of its last sign of life."""

    node: Node
    ready: NodeCondition | None
    renewed: str  # latest renewal of its lease
    probe_timestamp: float  # in monotonic seconds

    @property
    def status(self) -> str:
        """Status of the Ready condition; Unknown for a node that has never reported."""
        return self.ready.status if self.ready is not None else "Unknown"

    def is_overdue(self, patience: NodeGracePeriods, now: ClockReading) -> bool:
        """Return True if the node's grace period has passed."""
        grace = patience.startup_grace if self.ready is None else patience.grace
        return now.seconds > self.probe_timestamp + grace.total_seconds()


def observe_health(before: NodeHealth | None, node: Node, renewed: str, now: ClockReading) -> NodeHealth:
    """Update a node's health; returns the same object if nothing has changed."""
    if before is None or before.node.metadata.uid != node.metadata.uid:
        return _first_seen(node, renewed, now)
    renewed = renewed or before.renewed
    if before.node is node and renewed == before.renewed:
        return before
    ready = find_condition(node.status.conditions, READY)
    # A renewal with an earlier time counts too: the node's clock was set back.
    alive = renewed != before.renewed or _heartbeat_of(ready) != _heartbeat_of(before.ready)
    return NodeHealth(node, ready, renewed, now.seconds if alive else before.probe_timestamp)


def _first_seen(node: Node, renewed: str, now: ClockReading) -> NodeHealth:
    ready = find_condition(node.status.conditions, READY)
    if ready is not None or renewed or node.metadata.creation_timestamp is None:
        return NodeHealth(node, ready, renewed, now.seconds)
    age = (now.time - parse_time(node.metadata.creation_timestamp)).total_seconds()
    return NodeHealth(node, ready, renewed, now.seconds - max(age, 0.0))


def _heartbeat_of(ready: NodeCondition | None) -> Any:
    return None if ready is None else (True, ready.last_heartbeat_time)


def silent_conditions(node: Node, now: datetime) -> dict[str, NodeCondition]:
    """Return the changed conditions of a silent node, by type."""
    changed: dict[str, NodeCondition] = {}
    for type in _REPORTED_BY_KUBELET:
        condition = find_condition(node.status.conditions, type)
        if condition is None:
            changed[type] = NodeCondition(
                type=type,
                status="Unknown",
                reason="NodeStatusNeverUpdated",
                message="Kubelet never posted node status.",
                last_heartbeat_time=node.metadata.creation_timestamp,
                last_transition_time=Time(format_time(now)),
            )
        elif condition.status != "Unknown":
            changed[type] = NodeCondition(
                type=type,
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                last_heartbeat_time=condition.last_heartbeat_time,
                last_transition_time=Time(format_time(now)),
            )
    return changed


def status_patch(node: Node, conditions: Mapping[str, NodeCondition]) -> dict[str, Any]:
    """Build a strategic merge patch that fails if the node has changed meanwhile."""
    meta = node.metadata
    return {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": codec.to_plain(tuple(conditions.values()))},
    }
