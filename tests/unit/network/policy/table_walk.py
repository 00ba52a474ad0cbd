# SPDX-License-Identifier: Apache-2.0
"""Walks a connection over the rules of a table as nftables does, for tests."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from kubeloop.network.policy.evaluator import Connection
from kubeloop.network.policy.table import FilterMatch, FilterRule, NftablesTable

_PROTOCOLS = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp", "ICMP": "icmp"}


def is_accepted(table: NftablesTable, connection: Connection, chain: str = "forward") -> bool:
    """Return True if the base chain accepts the packets of a connection."""
    return _Walk(table, connection).run(chain) != "drop"


class _Walk:
    def __init__(self, table: NftablesTable, connection: Connection) -> None:
        self._table = table
        self._connection = connection

    def run(self, chain: str) -> str:
        """Return accept or drop; empty at the end of a chain."""
        for rule in self._table.chains[chain]:
            if not all(map(self._holds, rule.matches)):
                continue
            if verdict := self._verdict(rule):
                return verdict
        return ""

    def _verdict(self, rule: FilterRule) -> str:
        text = rule.verdict
        if " vmap @" in text:
            expression, _, name = text.partition(" vmap @")
            value = self._value(expression)
            text = self._table.elements[name].get(value, "") if value is not None else ""
        verb, _, target = text.partition(" ")
        if verb == "goto":
            return self.run(target) or "end"
        return self.run(target).replace("end", "") if verb == "jump" else verb

    def _holds(self, match: FilterMatch) -> bool:
        if match.expression in ("icmpv6 type", "ct state"):  # packets without a connection
            return False
        value = self._value(match.expression)
        if value is None:
            return False
        if not match.value.startswith("@"):
            return value == match.value
        return self._contains(match.value[1:], value) is not match.negated

    def _value(self, expression: str) -> str | None:
        """Return the value of an expression; None if the packet has no such field."""
        parts = [self._field(part) for part in expression.split(" . ")]
        return None if None in parts else " . ".join(map(str, parts))

    def _field(self, expression: str) -> str | None:
        source, destination, protocol, port = self._connection
        if expression == "meta l4proto":
            return _PROTOCOLS[protocol]
        if expression == "ct reply proto-src":
            return str(port)
        address = source if expression.startswith("ct original") else destination
        return str(address) if address.version == (6 if "ip6" in expression else 4) else None

    def _contains(self, name: str, value: str) -> bool:
        spec, elements = self._table.sets[name], self._table.elements[name]
        if not spec.is_interval:
            return value in elements
        if spec.key_type == "inet_service":
            ranges = [element.partition("-") for element in elements]
            return any(int(first) <= int(value) <= int(last or first) for first, _, last in ranges)
        return any(ip_address(value) in ip_network(element) for element in elements)
