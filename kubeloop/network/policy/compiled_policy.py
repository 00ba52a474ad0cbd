# SPDX-License-Identifier: Apache-2.0
"""Compiles one NetworkPolicy to chains, and to the sets that they look up. Pure; independent of pods.

A rule of the API becomes one rule of nftables for each combination of a kind of peers (pods, IP blocks, anything) and
a kind of ports (numbers, a name, anything). Sets are named by their content, so that policies share equal ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import collapse_addresses
from itertools import product
from typing import Final, NamedTuple

from kubeloop.api.generated.networking_v1 import NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort
from kubeloop.api.selectors.labels import LabelSelector
from kubeloop.network.policy.expressions import (
    FAMILIES,
    SERVER_PORT,
    FamilyExpressions,
    family_name,
    hashed_name,
    in_set,
    is_protocol,
)
from kubeloop.network.policy.model import (
    EGRESS,
    INGRESS,
    PROTOCOLS,
    TCP,
    IPNetwork,
    PeerSelector,
    networks_of,
    peer_selector_of,
    policy_types_of,
    selector_of,
)
from kubeloop.network.policy.table import FilterMatch, FilterRule, SetSpec
from kubeloop.runtime.objects.keys import ObjectKey, key_of

INGRESS_CHAIN: Final = "ingress"  # evaluated when egress is allowed
_LAST_PORT: Final = 65535
_ALLOWED: Final = {EGRESS: f"goto {INGRESS_CHAIN}", INGRESS: "accept"}


class PortName(NamedTuple):
    """Name of a port that policies refer to; pods resolve it."""

    protocol: str
    name: str

    @property
    def set_name(self) -> str:
        """Name of the set of endpoints, without the IP family."""
        return hashed_name("named", f"{self.protocol} {self.name}")


def peers_set_name(selector: PeerSelector) -> str:
    """Return the name of the set of selected pods' addresses, without the IP family."""
    return hashed_name("peers", str(selector))


def policy_chain_name(key: ObjectKey, direction: str) -> str:
    """Return the name of the chain of a policy."""
    return hashed_name("policy", f"{key.namespace}/{key.name}", direction.lower())


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """Chains of a policy by direction, its constant sets, and references to sets that change with pods."""

    key: ObjectKey
    pod_selector: LabelSelector
    chains: dict[str, tuple[FilterRule, ...]]  # by direction: Ingress, Egress
    constant_sets: dict[SetSpec, tuple[str, ...]]
    peer_selectors: frozenset[PeerSelector]
    port_names: frozenset[PortName]


def compile_policy(policy: NetworkPolicy) -> CompiledPolicy:
    """Compile a policy."""
    key, types = key_of(policy), policy_types_of(policy)
    compiler = _PolicyCompiler(key.namespace)
    chains: dict[str, tuple[FilterRule, ...]] = {}
    if INGRESS in types:
        rules = [(rule.from_, rule.ports) for rule in policy.spec.ingress]
        chains[INGRESS] = tuple(one for peers, ports in rules for one in compiler.rules(INGRESS, peers, ports))
    if EGRESS in types:
        rules = [(rule.to, rule.ports) for rule in policy.spec.egress]
        chains[EGRESS] = tuple(one for peers, ports in rules for one in compiler.rules(EGRESS, peers, ports))
    return CompiledPolicy(
        key,
        selector_of(policy.spec.pod_selector),
        chains,
        compiler.constant_sets,
        frozenset(compiler.peer_selectors),
        frozenset(compiler.port_names),
    )


class _PolicyCompiler:
    """Collects the sets that the rules of one policy look up."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self.constant_sets: dict[SetSpec, tuple[str, ...]] = {}
        self.peer_selectors: set[PeerSelector] = set()
        self.port_names: set[PortName] = set()

    def rules(
        self, direction: str, peers: Sequence[NetworkPolicyPeer], ports: Sequence[NetworkPolicyPort]
    ) -> Iterator[FilterRule]:
        """Yield the rules of nftables for one rule of the API."""
        if not peers and not ports:
            yield FilterRule((), _ALLOWED[direction])
            return
        seen: set[tuple[FilterMatch, ...]] = set()
        for family in FAMILIES:
            peer_matches = list(self._peer_matches(family, direction, peers)) if peers else [()]
            port_matches = list(self._port_matches(family, ports)) if ports else [()]
            for peer_match, port_match in product(peer_matches, port_matches):
                matches = (*peer_match, *port_match)
                if matches not in seen:  # a rule by port numbers alone is the same for both families
                    seen.add(matches)
                    yield FilterRule(matches, _ALLOWED[direction])

    def _peer_matches(
        self, family: FamilyExpressions, direction: str, peers: Sequence[NetworkPolicyPeer]
    ) -> Iterator[tuple[FilterMatch, ...]]:
        expression = family.client if direction == INGRESS else family.server
        networks: list[IPNetwork] = []
        for peer in peers:
            if peer.ip_block is not None:
                networks += [one for one in networks_of(peer.ip_block) if one.version == family.version]
            elif (selector := peer_selector_of(peer, self._namespace)) is not None:
                self.peer_selectors.add(selector)
                yield (in_set(expression, family_name(peers_set_name(selector), family.version)),)
        if networks:
            elements = tuple(map(str, collapse_addresses(networks)))  # type: ignore[type-var]  # of one family
            yield (in_set(expression, self._constant("blocks", family.address_type, elements)),)

    def _port_matches(
        self, family: FamilyExpressions, ports: Sequence[NetworkPolicyPort]
    ) -> Iterator[tuple[FilterMatch, ...]]:
        ranges: dict[str, set[tuple[int, int]]] = {}
        for port in ports:
            protocol = port.protocol or TCP
            if protocol not in PROTOCOLS:
                continue
            if isinstance(port.port, str):
                named = PortName(protocol, port.port)
                self.port_names.add(named)
                name = family_name(named.set_name, family.version)
                yield (is_protocol(protocol), in_set(family.server_and_port, name))
            else:
                ranges.setdefault(protocol, set()).add(_range_of(port))
        for protocol, numbers in ranges.items():
            if (0, _LAST_PORT) in numbers:
                yield (is_protocol(protocol),)
            else:
                name = self._constant("ports", "inet_service", tuple(_elements_of(numbers)))
                yield (is_protocol(protocol), in_set(SERVER_PORT, name))

    def _constant(self, prefix: str, key_type: str, elements: tuple[str, ...]) -> str:
        spec = SetSpec(hashed_name(prefix, f"{key_type} {elements}"), key_type, is_interval=True)
        self.constant_sets[spec] = elements
        return spec.name


def _range_of(port: NetworkPolicyPort) -> tuple[int, int]:
    if not isinstance(port.port, int):
        return 0, _LAST_PORT
    return port.port, port.port if port.end_port is None else port.end_port


def _elements_of(ranges: set[tuple[int, int]]) -> Iterator[str]:
    """Yield disjoint ranges of ports."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(one for one in ranges if one[0] <= one[1]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return (str(first) if first == last else f"{first}-{last}" for first, last in merged)
