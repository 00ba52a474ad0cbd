"""Which nodes an agent serves, and how they are: read off the Node objects, so that anybody can change it by them.

sim.kubeloop.io/node: ""                  the node is simulated, and the plane that simulates nodes serves it
                      kubelet             it is simulated by a program of its own, which serves it by its name
sim.kubeloop.io/state: stopped            it is switched off: nothing runs on it, nothing is heard from it
                       partitioned        it runs on, but hears nothing and is not heard
                       shutting-down      it ends its pods and takes no more
sim.kubeloop.io/pressure: memory,disk,pid what it is short of; `memory:90s` is borne for so long
sim.kubeloop.io/attach: never             no driver attaches a volume to it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.node_calls import SIMULATED
from kubeloop.clock import Clock
from kubeloop.kubelet.eviction.thresholds import Pressures

SERVED, BY_KUBELET = SIMULATED, "kubelet"
STATE = "sim.kubeloop.io/state"
ATTACH, NEVER = "sim.kubeloop.io/attach", "never"
STOPPED, PARTITIONED, SHUTTING_DOWN = "stopped", "partitioned", "shutting-down"


class NodeCache(Protocol):
    """A cache of nodes, as far as it is read here."""

    def get(self, namespace: str, name: str) -> Any | None: ...

    def list(self) -> Any: ...

    def __len__(self) -> int: ...


class Roster:
    """The nodes of an agent: those of some names, or else all that say that whoever simulates nodes may have them."""

    def __init__(self, nodes: NodeCache, clock: Clock, names: frozenset[str] = frozenset()) -> None:
        self._nodes = nodes
        self._names = names
        self.clock = clock
        self._pressures = Pressures(clock)

    def __len__(self) -> int:
        return len(self._names) or len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self._nodes.list() if self.serves(node))

    def serves(self, node: Node) -> bool:
        """Whether a node is one of these."""
        if self._names:
            return node.metadata.name in self._names
        return node.metadata.annotations.get(SERVED) == ""

    def get(self, name: str) -> Node | None:
        """A node that is served, whatever its state."""
        node: Node | None = self._nodes.get("", name)
        return node if node is not None and self.serves(node) else None

    def reachable(self, name: str) -> Node | None:
        node = self.get(name)
        return node if node is not None and not self.state_of(node) else None

    def state_of(self, node: Node) -> str:
        """Empty for a node that runs and is in touch."""
        said = node.metadata.annotations.get(STATE, "")
        return "" if said == SHUTTING_DOWN else said

    def is_shutting_down(self, node: Node) -> bool:
        return node.metadata.annotations.get(STATE) == SHUTTING_DOWN

    def pressures_of(self, node: Node) -> list[str]:
        """The types of the conditions that are true: of what it is short, or was until some minutes ago."""
        return self._pressures.of(node)

    def urgent_pressure_of(self, node: Node) -> str | None:
        """The type of the condition because of which pods have to go."""
        return self._pressures.urgent(node)

    def attaches(self, node: Node) -> bool:
        """Whether drivers attach volumes to it."""
        return node.metadata.annotations.get(ATTACH) != NEVER

    def allocatable_of(self, name: str) -> Mapping[str, str]:
        """What the pods of a node may take together."""
        node: Node | None = self._nodes.get("", name)
        return node.status.allocatable if node is not None else {}

    def networks_of(self, name: str) -> tuple[str, ...]:
        """The networks that a node's pods were given, the first before others; none if they weren't."""
        node: Node | None = self._nodes.get("", name)
        if node is None:
            return ()
        return node.spec.pod_cidrs or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ())


def is_served(node: Node) -> bool:
    """Whether a node is simulated, by whomever."""
    return SERVED in node.metadata.annotations
