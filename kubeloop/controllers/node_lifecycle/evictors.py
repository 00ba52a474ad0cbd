"""The zones' queues of nodes to be emptied, and the states that set their pace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubeloop.api.generated.core_v1 import Node
from kubeloop.clock import Clock
from kubeloop.controllers.node_lifecycle.instruments import Instruments
from kubeloop.controllers.node_lifecycle.tainter import ZoneTainter
from kubeloop.controllers.node_lifecycle.taints import eviction_key, has_eviction_taint
from kubeloop.controllers.node_lifecycle.zones import Rates, State, Tally, Turn, turn_of, zone_of


class Evictors:
    """Always true: every zone that has a state has a queue. Queues of zones without nodes are kept: they are empty
    of work, and a zone that comes back goes on where it was.
    """

    def __init__(self, rates: Rates, threshold: float, clock: Clock, instruments: Instruments) -> None:
        self._rates = rates
        self._threshold = threshold
        self._clock = clock
        self._instruments = instruments
        self._queues: dict[str, ZoneTainter] = {}
        self.states: dict[str, State] = {}

    def of(self, zone: str) -> ZoneTainter:
        if zone not in self._queues:
            self._queues[zone] = ZoneTainter(self._rates.normal, self._clock.monotonic())
            self._instruments.new_zone(zone)
        return self._queues[zone]

    def busy(self) -> Iterator[str]:
        """The zones in which nodes wait."""
        return (zone for zone, queue in self._queues.items() if queue.first is not None)

    def holds(self, node: Node) -> bool:
        return node.metadata.name in self.of(zone_of(node))

    def put(self, node: Node, status: str) -> None:
        """A node waits for its taint; one that had its turn and lost the taint since waits again."""
        queue, name = self.of(zone_of(node)), node.metadata.name
        if queue.had_turn(name) and not has_eviction_taint(node, eviction_key(status)):
            queue.remove(name)
        queue.add(name)

    def let_go(self, name: str) -> None:
        """A node waits no longer, in whichever zone it was then."""
        for queue in self._queues.values():
            queue.remove(name)

    @property
    def all_lost(self) -> bool:
        """Whether no node anywhere is ready."""
        return bool(self.states) and all(state is State.FULL for state in self.states.values())

    def settle(self, tallies: Mapping[str, Tally]) -> Turn:
        """Take note of how zones are, and set their pace."""
        self._instruments.count(tallies, self.states.keys() - tallies.keys())
        before = {zone: self.states.get(zone, State.INITIAL) for zone in tallies}
        after = {zone: tally.state(self._threshold) for zone, tally in tallies.items()}
        turn = turn_of(before, after)
        now = self._clock.monotonic()
        for zone, state in after.items():
            if turn is Turn.ALL_LOST:
                self.of(zone).set_rate(0.0, now)
            elif turn is Turn.SOME_BACK or before[zone] is not state:
                self.of(zone).set_rate(self._rates.of(state, tallies[zone].size), now)
        self.states = after
        return turn
