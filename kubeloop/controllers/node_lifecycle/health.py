"""When a node last gave a sign of life, as this loop saw it, and what is said of one that has fallen silent. Pure.

Clocks may go wrong, those of nodes and our own: what counts is when a change of the lease or of the status was seen
here, by a clock that nobody sets, not what moment is written in it.
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
# What a silent node no longer vouches for. Whether the network is there, others say.
_REPORTED_BY_KUBELET: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a node may be silent: one that has reported, and one that has yet to do so for the first time."""

    grace: timedelta
    startup_grace: timedelta


class Moment(NamedTuple):
    """A moment: the time of day, which is told to others, and the seconds by which we reckon ourselves."""

    time: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class Health:
    """What was seen of a node, and when it last gave a sign of life."""

    node: Node
    ready: NodeCondition | None
    renewed: str  # the newest renewal of its lease
    alive_at: float  # in seconds that nobody sets

    @property
    def status(self) -> str:
        """Its readiness; a node that has never reported is unknown."""
        return self.ready.status if self.ready is not None else "Unknown"

    def is_overdue(self, patience: Patience, now: Moment) -> bool:
        grace = patience.startup_grace if self.ready is None else patience.grace
        return now.seconds > self.alive_at + grace.total_seconds()


def observed(before: Health | None, node: Node, renewed: str, now: Moment) -> Health:
    """A node's health after one more look; the very same if nothing has changed."""
    if before is None or before.node.metadata.uid != node.metadata.uid:
        return _first_seen(node, renewed, now)
    renewed = renewed or before.renewed
    if before.node is node and renewed == before.renewed:
        return before
    ready = find_condition(node.status.conditions, READY)
    # A renewal of an earlier time is one as well: the node's clock was set back.
    alive = renewed != before.renewed or _heartbeat_of(ready) != _heartbeat_of(before.ready)
    return Health(node, ready, renewed, now.seconds if alive else before.alive_at)


def _first_seen(node: Node, renewed: str, now: Moment) -> Health:
    ready = find_condition(node.status.conditions, READY)
    if ready is not None or renewed or node.metadata.creation_timestamp is None:
        return Health(node, ready, renewed, now.seconds)
    age = (now.time - parse_time(node.metadata.creation_timestamp)).total_seconds()
    return Health(node, ready, renewed, now.seconds - max(age, 0.0))


def _heartbeat_of(ready: NodeCondition | None) -> Any:
    return None if ready is None else (True, ready.last_heartbeat_time)


def silent_conditions(node: Node, now: datetime) -> dict[str, NodeCondition]:
    """What the conditions of a silent node become, by type; those that say so already are left out."""
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
    """A strategic patch that fails if the node has said anything meanwhile."""
    meta = node.metadata
    return {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": codec.to_plain(tuple(conditions.values()))},
    }
