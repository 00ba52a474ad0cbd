# SPDX-License-Identifier: Apache-2.0
"""Queues of nodes that wait for a NoExecute taint, by zone, with rates by the state of the zone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kubeloop.api.generated.core_v1 import Node
from kubeloop.clock import Clock
from kubeloop.controllers.node_lifecycle.metrics import NodeLifecycleMetrics
from kubeloop.controllers.node_lifecycle.taints import eviction_key, has_eviction_taint
from kubeloop.controllers.node_lifecycle.zones import (
    DisruptionTransition,
    EvictionRates,
    ZoneState,
    ZoneTally,
    disruption_transition,
    zone_of,
)

BURST: Final = 1.0
_ROUNDING: Final = 1e-9


class TaintTokenBucket:
    """Token bucket with a capacity of one; a rate of zero never yields a token."""

    def __init__(self, rate: float, now: float, *, empty: bool = False) -> None:
        self.rate = rate
        self._tokens = 0.0 if empty else BURST
        self._as_of = now

    def take(self, now: float) -> float | None:
        """Take a token and return 0, or return the seconds until there is one, or None for never."""
        if self.rate <= 0:
            return None
        self._tokens = min(BURST, self._tokens + (now - self._as_of) * self.rate)
        self._as_of = now
        if self._tokens < BURST - _ROUNDING:
            return (BURST - self._tokens) / self.rate
        self._tokens -= BURST
        return 0.0

    def give_back(self) -> None:
        """Return an unused token."""
        self._tokens = min(BURST, self._tokens + BURST)


class RateLimitedTaintQueue:
    """Nodes of a zone in the order in which they failed.

    A node that was processed is not taken again before it has been removed: it keeps its taint.
    """

    def __init__(self, rate: float, now: float) -> None:
        self._bucket = TaintTokenBucket(rate, now)
        self._waiting: dict[str, None] = {}
        self._had_turn: set[str] = set()  # separate from those that wait

    def add(self, node: str) -> bool:
        """Add a node; returns False if it is already known."""
        if node in self:
            return False
        self._waiting[node] = None
        return True

    def remove(self, node: str) -> None:
        """Remove a node."""
        self._waiting.pop(node, None)
        self._had_turn.discard(node)

    def __contains__(self, node: str) -> bool:
        return node in self._waiting or node in self._had_turn

    def is_processed(self, node: str) -> bool:
        """Return True if the node was processed."""
        return node in self._had_turn

    @property
    def first(self) -> str | None:
        """First waiting node, or None."""
        return next(iter(self._waiting), None)

    def mark_processed(self, node: str) -> None:
        """Mark a node as processed; one that was removed meanwhile may be added again."""
        if node in self._waiting:
            del self._waiting[node]
            self._had_turn.add(node)

    def postpone(self, node: str) -> None:
        """Move a node to the end of the queue, unless it was removed meanwhile."""
        if node in self._waiting:
            del self._waiting[node]
            self._waiting[node] = None

    def take(self, now: float) -> float | None:
        """Take a token as `Bucket.take` does."""
        return self._bucket.take(now)

    def give_back(self) -> None:
        """Return an unused token."""
        self._bucket.give_back()

    def swap_limiter(self, rate: float, now: float) -> None:
        """Change the rate; a waiting zone does not get a token by that."""
        if rate != self._bucket.rate:
            self._bucket = TaintTokenBucket(rate, now, empty=self._bucket.take(now) != 0.0)


class ZoneTaintQueues:
    """Queues and states of all zones.

    Invariant: every zone with a state has a queue. Queues of zones without nodes are kept: they are empty, and a zone
    that returns continues with its former rate.
    """

    def __init__(self, rates: EvictionRates, threshold: float, clock: Clock, instruments: NodeLifecycleMetrics) -> None:
        self._rates = rates
        self._threshold = threshold
        self._clock = clock
        self._instruments = instruments
        self._queues: dict[str, RateLimitedTaintQueue] = {}
        self.states: dict[str, ZoneState] = {}

    def of(self, zone: str) -> RateLimitedTaintQueue:
        """Return the queue of a zone, created if missing."""
        if zone not in self._queues:
            self._queues[zone] = RateLimitedTaintQueue(self._rates.normal, self._clock.monotonic())
            self._instruments.new_zone(zone)
        return self._queues[zone]

    def zones_with_waiting_nodes(self) -> Iterator[str]:
        """Return the zones with waiting nodes."""
        return (zone for zone, queue in self._queues.items() if queue.first is not None)

    def contains(self, node: Node) -> bool:
        """Return True if the node is in its zone's queue."""
        return node.metadata.name in self.of(zone_of(node))

    def add(self, node: Node, status: str) -> None:
        """Enqueue a node for its taint; one that was processed and has lost the taint since is enqueued again."""
        queue, name = self.of(zone_of(node)), node.metadata.name
        if queue.is_processed(name) and not has_eviction_taint(node, eviction_key(status)):
            queue.remove(name)
        queue.add(name)

    def remove(self, name: str) -> None:
        """Remove a node from the queues of all zones."""
        for queue in self._queues.values():
            queue.remove(name)

    @property
    def is_fully_disrupted(self) -> bool:
        """True if no zone has a ready node."""
        return bool(self.states) and all(state is ZoneState.FULL for state in self.states.values())

    def handle_disruption(self, tallies: Mapping[str, ZoneTally]) -> DisruptionTransition:
        """Update the states of all zones, and set their rates."""
        self._instruments.set_zone_health(tallies, self.states.keys() - tallies.keys())
        before = {zone: self.states.get(zone, ZoneState.INITIAL) for zone in tallies}
        after = {zone: tally.state(self._threshold) for zone, tally in tallies.items()}
        turn = disruption_transition(before, after)
        now = self._clock.monotonic()
        for zone, state in after.items():
            if turn is DisruptionTransition.ALL_LOST:
                self.of(zone).swap_limiter(0.0, now)
            elif turn is DisruptionTransition.SOME_BACK or before[zone] is not state:
                self.of(zone).swap_limiter(self._rates.of(state, tallies[zone].size), now)
        self.states = after
        return turn
