"""What nodes are short of, and since when: conditions outlast their causes, and some are borne for a while."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.scalars.quantity import Format, Quantity, parse_quantity
from kubeloop.clock import Clock
from kubeloop.kubelet.simulated.script import seconds_of

PRESSURE = "sim.kubeloop.io/pressure"
PRESSURES = {"memory": "MemoryPressure", "disk": "DiskPressure", "pid": "PIDPressure"}
# So long a condition stays true after its cause was last seen, as the kubelet has it by default.
TRANSITION_SECONDS = 300.0
MEMORY = "MemoryPressure"
_LEAST_MEMORY = 100 * 2**20  # memory.available of the kubelet's own thresholds
_LEAST_PART = 0.10000000149011612  # nodefs.available: a tenth, as precisely as it is kept there
_PIDS = 32768


class Threshold(NamedTuple):
    """Something of which there is too little."""

    condition: str
    patience: float = 0.0  # so long nothing is done about it


class Shortage(NamedTuple):
    """How much should be there, and how much is."""

    least: Quantity
    available: Quantity


class Pressures:
    """Remembers, for each node, when what was seen. By a clock that nobody sets."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[str, dict[str, float]] = {}  # by node, conditions that were seen within the transition
        self._first: dict[str, dict[Threshold, float]] = {}  # by node, what has been seen ever since

    def of(self, node: Node) -> list[str]:
        """The types of the conditions that are true."""
        name = node.metadata.name
        if PRESSURE not in node.metadata.annotations and name not in self._last:
            return []
        now, seen = self._clock.monotonic(), thresholds_of(node)
        recent = {type: at for type, at in self._last.get(name, {}).items() if now - at < TRANSITION_SECONDS}
        recent |= {one.condition: now for one in seen}
        first = self._first.get(name, {})
        self._first[name] = {one: first.get(one, now) for one in seen}
        self._last[name] = recent
        if not recent:
            del self._last[name], self._first[name]
        return list(recent)

    def urgent(self, node: Node) -> str | None:
        """The type of the condition about which something has to be done now, memory before all others."""
        name, now = node.metadata.name, self._clock.monotonic()
        met = [one.condition for one, at in self._first.get(name, {}).items() if now - at >= one.patience]
        return MEMORY if MEMORY in met else met[0] if met else None


def thresholds_of(node: Node) -> list[Threshold]:
    """What a node's annotation says, such as `memory,disk:90s`."""
    found = []
    for part in node.metadata.annotations.get(PRESSURE, "").split(","):
        what, _, patience = part.strip().partition(":")
        if what in PRESSURES:
            found.append(Threshold(PRESSURES[what], seconds_of(patience) or 0.0))
    return found


def shortage_of(node: Node, condition: str, used: int = 0) -> Shortage:
    """What a condition means in numbers: half of the least is left, or less if that is what pods leave."""
    capacity = _capacity(node, condition)
    least = _LEAST_MEMORY if condition == MEMORY else int(capacity * _LEAST_PART)
    format = Format.DECIMAL_SI if condition == "PIDPressure" else Format.BINARY_SI
    return Shortage(Quantity.of(least, format), Quantity.of(min(max(capacity - used, 0), least // 2), format))


def available_of(node: Node, condition: str, used: int) -> int:
    """How much there is of what a condition is about."""
    if any(one.condition == condition for one in thresholds_of(node)):
        return shortage_of(node, condition, used).available.value()
    return max(_capacity(node, condition) - used, 0)


def _capacity(node: Node, condition: str) -> int:
    name = "memory" if condition == MEMORY else "ephemeral-storage"
    return _PIDS if condition == "PIDPressure" else parse_quantity(node.status.capacity.get(name, "0")).value()
