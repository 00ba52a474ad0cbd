# SPDX-License-Identifier: Apache-2.0
"""Nodes served by an agent and their simulated states, read from annotations of the Node objects.

sim.kubeloop.io/node: ""                  the node is simulated and served by the control plane's own agent
                      kubelet             it is simulated by a separate program, which serves it by its name
sim.kubeloop.io/state: stopped            it is off: nothing runs on it and it sends no heartbeats
                       partitioned        its pods run on, but it is disconnected
                       shutting-down      it terminates its pods and admits no more
sim.kubeloop.io/pressure: memory,disk,pid thresholds that are met; `memory:90s` has a grace period
sim.kubeloop.io/attach: never             no driver attaches a volume to it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.kubelet_requests import SIMULATED_NODE_ANNOTATION
from kubeloop.clock import Clock
from kubeloop.kubelet.eviction.signals import SignalTracker
from kubeloop.kubelet.eviction.thresholds import PressureTracker, Shortage, pressure_shortage

SERVED_NODE_ANNOTATION, BY_KUBELET = SIMULATED_NODE_ANNOTATION, "kubelet"
STATE_ANNOTATION = "sim.kubeloop.io/state"
ATTACH_ANNOTATION, NEVER = "sim.kubeloop.io/attach", "never"
STOPPED, PARTITIONED, SHUTTING_DOWN = "stopped", "partitioned", "shutting-down"


class NodeLister(Protocol):
    """Lister of nodes, as far as it is needed here."""

    def get(self, namespace: str, name: str) -> Any | None:
        """Return a node, or None."""

    def list(self) -> Any:
        """Return all nodes."""

    def __len__(self) -> int: ...


class ServedNodes:
    """Nodes served by an agent: those with given names, or else all nodes annotated as simulated."""

    def __init__(
        self,
        nodes: NodeLister,
        clock: Clock,
        names: frozenset[str] = frozenset(),
        *,
        signals: SignalTracker | None = None,
        is_shutting_down: Callable[[], bool] | None = None,
    ) -> None:
        self._nodes = nodes
        self._is_shutting_down = is_shutting_down  # of a real node
        self._signals = signals  # of a real node, on which annotations do not simulate anything
        self._are_real = signals is not None
        self._names = names
        self.clock = clock
        self._pressures = PressureTracker(clock)

    def __len__(self) -> int:
        return len(self._names) or len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self._nodes.list() if self.serves(node))

    def serves(self, node: Node) -> bool:
        """Return True if the agent serves the node."""
        if self._names:
            return node.metadata.name in self._names
        return node.metadata.annotations.get(SERVED_NODE_ANNOTATION) == ""

    def get(self, name: str) -> Node | None:
        """Return a served node in any state, or None."""
        node: Node | None = self._nodes.get("", name)
        return node if node is not None and self.serves(node) else None

    def get_reachable(self, name: str) -> Node | None:
        """Return a served node that runs and is connected, or None."""
        node: Node | None = self._nodes.get("", name)
        return node if node is not None and self.serves(node) and not self.state_of(node) else None

    def state_of(self, node: Node) -> str:
        """Return the simulated state; empty for a node that runs and is connected."""
        if self._are_real:
            return ""
        said = node.metadata.annotations.get(STATE_ANNOTATION, "")
        return "" if said == SHUTTING_DOWN else said

    def is_shutting_down(self, node: Node) -> bool:
        """Return True if the node is shutting down."""
        if self._are_real:
            return self._is_shutting_down is not None and self._is_shutting_down()
        return node.metadata.annotations.get(STATE_ANNOTATION) == SHUTTING_DOWN

    def node_pressures(self, node: Node) -> list[str]:
        """Return the types of the pressure conditions that are true, including the transition period."""
        if self._signals is not None:
            return self._signals.conditions()
        return self._pressures.update(node)

    def take_urgent_pressure(self, node: Node) -> str | None:
        """Return the pressure condition that requires an eviction, or None; of a real node once for a measurement."""
        if self._signals is not None:
            return self._signals.take_urgent_condition()
        return self._pressures.urgent_condition(node)

    def shortage_of(self, node: Node, condition: str) -> Shortage:
        """Return the numbers of a pressure condition."""
        measured = self._signals.shortage(condition) if self._signals is not None else None
        return measured or pressure_shortage(node, condition)

    def can_attach(self, node: Node) -> bool:
        """Return True if drivers attach volumes to the node."""
        return node.metadata.annotations.get(ATTACH_ANNOTATION) != NEVER

    def allocatable_of(self, name: str) -> Mapping[str, str]:
        """Return the allocatable resources of a node."""
        node: Node | None = self._nodes.get("", name)
        return node.status.allocatable if node is not None else {}

    def pod_cidrs_of(self, name: str) -> tuple[str, ...]:
        """Return the pod CIDRs of a node, the primary one first."""
        node: Node | None = self._nodes.get("", name)
        if node is None:
            return ()
        return node.spec.pod_cidrs or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ())


def is_simulated(node: Node) -> bool:
    """Return True if a node is simulated by any agent."""
    return SERVED_NODE_ANNOTATION in node.metadata.annotations
