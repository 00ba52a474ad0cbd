# SPDX-License-Identifier: Apache-2.0
"""Packet trace: walks the chains of a table in memory, as the kernel would, and says what happens to a packet. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from kubeloop.proxy.ip_family import parse_ip
from kubeloop.proxy.rules import names
from kubeloop.proxy.rules.statements import Match, Rule, Statement
from kubeloop.proxy.rules.table import NODE, ProxyTable
from kubeloop.proxy.service_port import ServicePortName

TraceVerdict: TypeAlias = Literal["forward", "drop", "reject", "pass"]
_DEEPEST: Final = 16  # calls of chains, as in the kernel


@dataclass(frozen=True, slots=True)
class TracedPacket:
    """First packet of a connection, and what the kernel knows about it.

    `local_addresses` are those of the node's interfaces; loopback addresses always are. A packet from a local address
    comes from a process of the node, any other from outside or from a pod.
    """

    source: str
    destination: str
    port: int
    protocol: str = "tcp"
    interface: str = ""  # by which it arrives
    local_addresses: frozenset[str] = frozenset()

    def is_local(self, address: str) -> bool:
        """Return True for an address of the node."""
        found = parse_ip(address)
        return address in self.local_addresses or (found is not None and found.is_loopback)


@dataclass(frozen=True, slots=True)
class PacketTrace:
    """Fate of a packet.

    `forward`: to one of the endpoints at random, or to the one that the client had before. `pass`: no rule concerns it.
    """

    verdict: TraceVerdict
    service_port: ServicePortName | None = None
    endpoints: tuple[str, ...] = ()
    masquerade: bool = False
    hairpin_endpoints: tuple[str, ...] = ()  # masqueraded if one of these is chosen
    has_affinity: bool = False
    steps: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Last step, which decided."""
        return self.steps[-1] if self.steps else "no rule concerns the packet"


def trace(table: ProxyTable, packet: TracedPacket) -> PacketTrace:
    """Return what happens to a packet: hooks before the address translation, the translation, then the filters."""
    walk = _Walk(table, packet)
    from_node = packet.is_local(packet.source)
    verdict = walk.run(names.FILTER_OUTPUT_PRE_DNAT if from_node else names.FILTER_PREROUTING_PRE_DNAT)
    if verdict is None:
        verdict = walk.run(names.NAT_OUTPUT if from_node else names.NAT_PREROUTING)
    if verdict is None:
        verdict = _run_filters(walk, packet, from_node)
    endpoints = walk.endpoints if verdict == "forward" else []
    hairpins = tuple(one for one in endpoints if walk.is_hairpin(one) and not walk.is_marked)
    return PacketTrace(
        verdict or "pass",
        walk.service_port,
        tuple(endpoints),
        verdict == "forward" and walk.is_marked,
        hairpins,
        walk.has_affinity,
        tuple(walk.steps),
    )


def _run_filters(walk: _Walk, packet: TracedPacket, from_node: bool) -> TraceVerdict | None:
    """Run the hooks after the routing decision for a packet whose destination has not changed."""
    is_for_node = packet.is_local(packet.destination)
    hooks = [names.FILTER_OUTPUT] if from_node else []
    if is_for_node:
        hooks.append(names.FILTER_INPUT)
    elif not from_node:
        hooks.append(names.FILTER_FORWARD)
    return next((verdict for hook in hooks if (verdict := walk.run(hook)) is not None), None)


@dataclass(slots=True)
class _Walk:
    """State of a packet on its way."""

    table: ProxyTable
    packet: TracedPacket
    is_marked: bool = False
    has_affinity: bool = False
    service_port: ServicePortName | None = None
    endpoints: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def run(self, chain: str, depth: int = 0) -> TraceVerdict | None:
        """Run the rules of a chain; None if the packet reaches its end."""
        if depth > _DEEPEST:
            raise RecursionError(f"chain {chain}: the chains call each other")
        for rule in self.table.chains[chain]:
            if not all(self._meets(match) for match in rule.matches):
                continue
            verdict, ends_chain = self._do(chain, rule, depth)
            if verdict is not None or ends_chain:
                return verdict
        return None

    def is_hairpin(self, endpoint: str) -> bool:
        """Return True if the endpoint is the source, and its connections to itself are masqueraded."""
        host, _, port = endpoint.rpartition(":")
        host = host.strip("[]")
        key = f"{self.packet.source} . {host} . {self.packet.protocol} . {port}"
        return self.table.element(names.HAIRPIN_CONNECTIONS, key) is not None

    def _do(self, chain: str, rule: Rule, depth: int) -> tuple[TraceVerdict | None, bool]:
        """Execute a statement: returns the verdict, and whether the chain ends here."""
        statement = rule.statement
        match statement.kind:
            case "drop" | "reject":
                self._note(chain, rule.comment or statement.kind)
                return ("drop" if statement.kind == "drop" else "reject"), True
            case "jump":
                return self.run(statement.value, depth + 1), False
            case "goto":
                self._note(chain, rule.comment or f"goto {statement.value}")
                return self.run(statement.value, depth + 1), True
            case "verdict map":
                return self._look_up(statement.value, depth)
            case "mark for masquerade":
                self.is_marked = True
                self._note(chain, rule.comment or "masquerade")
            case "dnat by map" | "dnat" | "goto at random":
                return self._choose(chain, statement, depth)
            case "update set" | "masquerade":
                pass
        return None, False

    def _choose(self, chain: str, statement: Statement, depth: int) -> tuple[TraceVerdict | None, bool]:
        """Collect all endpoints that a random choice can lead to."""
        if statement.kind == "goto at random":
            self.has_affinity = True
            for one in statement.chains:
                self.run(one, depth + 1)
            return ("forward" if self.endpoints else None), True
        if statement.kind == "dnat":
            self.endpoints.append(statement.value)
        else:
            self.endpoints += self._numbered_endpoints(statement)
        self._note(chain, f"dnat to {', '.join(self.endpoints)}")
        return ("forward" if self.endpoints else None), True

    def _numbered_endpoints(self, statement: Statement) -> list[str]:
        packet, container = self.packet, statement.value
        key = f"{packet.port}" if container.startswith("nodeport-") else f"{packet.destination} . {packet.port}"
        rows = [self.table.element(container, f"{key} . {number}") for number in range(statement.modulus)]
        values = [row[1].value.split(" . ") for row in rows if row is not None]
        return [f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for ip, port in values]

    def _look_up(self, container: str, depth: int) -> tuple[TraceVerdict | None, bool]:
        packet = self.packet
        key = f"{packet.protocol} . {packet.port}"
        if container not in names.NODEPORT_KEYED:
            key = f"{packet.destination} . {key}"
        found = self.table.element(container, key)
        if found is None:
            return None, False
        owner, (verdict, _) = found
        self.service_port = owner if owner != NODE else self.service_port
        self._note(container, f"{key} belongs to {owner}: {verdict}")
        if verdict == "drop":
            return "drop", True
        return self.run(verdict.removeprefix("goto "), depth + 1), True

    def _meets(self, match: Match) -> bool:
        return self._matches(match) != match.negated

    def _matches(self, match: Match) -> bool:
        packet, value = self.packet, match.value
        match match.kind:
            case "new connection":
                return True
            case "source is local":
                return packet.is_local(packet.source)
            case "destination is local":
                return packet.is_local(packet.destination)
            case "destination is loopback":
                return ipaddress.ip_address(packet.destination).is_loopback
            case "destination in set":
                return self.table.element(str(value), packet.destination) is not None
            case "destination in networks":
                return _is_in(packet.destination, value)
            case "source in networks" | "source network":
                return _is_in(packet.source, value)
            case "source in set":
                return False  # known clients are only known to the kernel
            case "input interface":
                name = str(value)
                return packet.interface.startswith(name[:-1]) if name.endswith("*") else packet.interface == name
            case "protocol":
                return packet.protocol == value
            case "hairpin" | "masquerade mark":
                return False  # in postrouting, which a trace does not run

    def _note(self, place: str, text: str) -> None:
        self.steps.append(f"{place}: {text}")


def _is_in(address: str, networks: str | tuple[str, ...]) -> bool:
    texts = (networks,) if isinstance(networks, str) else networks
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(one) for one in texts)
