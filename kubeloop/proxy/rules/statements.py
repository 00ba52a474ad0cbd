# SPDX-License-Identifier: Apache-2.0
"""Rules as values: matches and a statement, which are rendered as nft's text and walked by a packet trace. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from kubeloop.proxy.ip_family import IPFamily
from kubeloop.proxy.node_addresses import LocalTrafficDetector
from kubeloop.proxy.rules.names import HAIRPIN_CONNECTIONS, NODEPORT_KEYED

MatchKind: TypeAlias = Literal[
    "new connection",
    "source is local",
    "destination is local",
    "destination is loopback",
    "destination in set",
    "destination in networks",
    "source in networks",
    "source in set",
    "source network",
    "input interface",
    "protocol",
    "hairpin",
    "masquerade mark",
]
StatementKind: TypeAlias = Literal[
    "jump",
    "goto",
    "verdict map",
    "mark for masquerade",
    "masquerade",
    "drop",
    "reject",
    "dnat by map",
    "dnat",
    "goto at random",
    "update set",
]


class Match(NamedTuple):
    """Condition of a rule."""

    kind: MatchKind
    value: str | tuple[str, ...] = ""
    negated: bool = False

    def text(self, family: IPFamily) -> str:
        """Return the condition in nft's language."""
        ip, value = family.nft, self.value
        not_ = "!= " if self.negated else ""
        match self.kind:
            case "new connection":
                return "ct state new"
            case "source is local":
                return "fib saddr type local"
            case "destination is local":
                return "fib daddr type local"
            case "destination is loopback":
                return f"{ip} daddr {not_}{family.loopback}"
            case "destination in set":
                return f"{ip} daddr {not_}@{value}"
            case "destination in networks":
                return f"{ip} daddr {not_}{{ {', '.join(value)} }}"
            case "source in networks":
                return f"{ip} saddr {not_}{{ {', '.join(value)} }}"
            case "source in set":
                return f"{ip} saddr {not_}@{value}"
            case "source network":
                return f"{ip} saddr {not_}{value}"
            case "input interface":
                return f'iifname {not_}"{value}"'
            case "protocol":
                return f"meta l4proto {value}"
            case "hairpin":
                return f"ct status dnat {ip} saddr . {ip} daddr . meta l4proto . th dport @{HAIRPIN_CONNECTIONS}"
            case "masquerade mark":
                return f"mark and {value} != 0"


class Statement(NamedTuple):
    """Effect of a rule: `value` is a chain, a map, a set, a mark or an address, `modulus` the number of endpoints."""

    kind: StatementKind
    value: str = ""
    modulus: int = 0
    chains: tuple[str, ...] = ()

    def text(self, family: IPFamily) -> str:
        """Return the statement in nft's language."""
        ip, value = family.nft, self.value
        match self.kind:
            case "jump" | "goto":
                return f"{self.kind} {value}"
            case "verdict map":
                return f"{_key(ip, value)} vmap @{value}"
            case "mark for masquerade":
                return f"mark set mark or {value}"
            case "masquerade":
                return f"mark set mark xor {value} masquerade fully-random" if value else "masquerade fully-random"
            case "drop" | "reject":
                return self.kind
            case "dnat by map":
                by = endpoint_key(ip, value)
                return f"dnat {ip} addr . port to {by} . numgen random mod {self.modulus} map @{value}"
            case "dnat":
                return f"dnat to {value}"
            case "goto at random":
                rows = ", ".join(f"{number} : goto {chain}" for number, chain in enumerate(self.chains))
                return f"numgen random mod {len(self.chains)} vmap {{ {rows} }}"
            case "update set":
                return f"update @{value} {{ {ip} saddr }}"


class Rule(NamedTuple):
    """Rule of a chain: its statement takes effect on packets that meet all matches."""

    statement: Statement
    matches: tuple[Match, ...] = ()
    comment: str = ""

    def text(self, family: IPFamily) -> str:
        """Return the rule in nft's language, without its comment."""
        return " ".join((*(match.text(family) for match in self.matches), self.statement.text(family)))


Rules: TypeAlias = tuple[Rule, ...]


def goto(chain: str, *matches: Match, comment: str = "") -> Rule:
    """Return a rule that continues in another chain."""
    return Rule(Statement("goto", chain), matches, comment)


def from_pod(detector: LocalTrafficDetector, *, negated: bool = False) -> Match:
    """Return the match of traffic from a pod of this node; the detector must be implemented."""
    kind: MatchKind = "source network" if detector.kind == "network" else "input interface"
    return Match(kind, detector.value, negated)


def endpoint_key(ip: str, container: str) -> str:
    """Return the fields of a packet by which a map of endpoints is searched, without the endpoint's number."""
    port = f"{container.rpartition('-')[2]} dport"
    return port if container.startswith("nodeport-") else f"{ip} daddr . {port}"


def _key(ip: str, container: str) -> str:
    """Return the fields of a packet by which a map is searched."""
    ports = "meta l4proto . th dport"
    return ports if container in NODEPORT_KEYED else f"{ip} daddr . {ports}"
