"""Queues of nodes to be tainted by zone, with rates by the state of the zone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubeloop.api.generated.core_v1 import Node
from kubeloop.clock import Clock
from kubeloop.controllers.node_lifecycle.instruments import NodeLifecycleMetrics
from kubeloop.controllers.node_lifecycle.tainter import RateLimitedTaintQueue
from kubeloop.controllers.node_lifecycle.taints import eviction_key, has_eviction_taint
from kubeloop.controllers.node_lifecycle.zones import (
    DisruptionTransition,
    EvictionRates,
    ZoneState,
    ZoneTally,
    disruption_transition,
    zone_of,
)


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

    def busy(self) -> Iterator[str]:
        """Return the zones with waiting nodes."""
        return (zone for zone, queue in self._queues.items() if queue.first is not None)

    def holds(self, node: Node) -> bool:
        """Return True if the node is in its zone's queue."""
        return node.metadata.name in self.of(zone_of(node))

    def put(self, node: Node, status: str) -> None:
        """Enqueue a node for its taint; one that was processed and has lost the taint since is enqueued again."""
        queue, name = self.of(zone_of(node)), node.metadata.name
        if queue.had_turn(name) and not has_eviction_taint(node, eviction_key(status)):
            queue.remove(name)
        queue.add(name)

    def let_go(self, name: str) -> None:
        """Remove a node from the queues of all zones."""
        for queue in self._queues.values():
            queue.remove(name)

    @property
    def all_lost(self) -> bool:
        """True if no zone has a ready node."""
        return bool(self.states) and all(state is ZoneState.FULL for state in self.states.values())

    def settle(self, tallies: Mapping[str, ZoneTally]) -> DisruptionTransition:
        """Update the states of all zones, and set their rates."""
        self._instruments.count(tallies, self.states.keys() - tallies.keys())
        before = {zone: self.states.get(zone, ZoneState.INITIAL) for zone in tallies}
        after = {zone: tally.state(self._threshold) for zone, tally in tallies.items()}
        turn = disruption_transition(before, after)
        now = self._clock.monotonic()
        for zone, state in after.items():
            if turn is DisruptionTransition.ALL_LOST:
                self.of(zone).set_rate(0.0, now)
            elif turn is DisruptionTransition.SOME_BACK or before[zone] is not state:
                self.of(zone).set_rate(self._rates.of(state, tallies[zone].size), now)
        self.states = after
        return turn
