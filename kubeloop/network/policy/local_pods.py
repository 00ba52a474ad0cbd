# SPDX-License-Identifier: Apache-2.0
"""Pods of this node in the table: the verdict maps from an address to the chain of its policies, and the known pods.

chain forward ── address of the client ──▶ map egress ──▶ egress-HASH: jump to each policy of the pod, then drop
              └─ address of the server ──▶ map ingress ──▶ ingress-HASH: likewise

Pods with equal policies share a chain. A pod that no policy selects is in neither map.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from ipaddress import ip_network
from typing import Final

from kubeloop.network.policy.compiled_policy import INGRESS_CHAIN, CompiledPolicy, policy_chain_name
from kubeloop.network.policy.expressions import FAMILIES, FamilyExpressions, family_name, hashed_name, in_set
from kubeloop.network.policy.model import EGRESS, INGRESS, IPNetwork, PodEndpoint
from kubeloop.network.policy.pod_sets import PodElements
from kubeloop.network.policy.table import FilterMatch, FilterRule, Hook, NftablesTable, SetSpec
from kubeloop.runtime.objects.keys import ObjectKey

# Before chains of other programs at the usual priority; after the translation of Service addresses in any case.
_PRIORITY: Final = "-5"
# Connection tracking ignores neighbour discovery and multicast listener discovery.
_NEIGHBOUR_DISCOVERY: Final = FilterRule(
    (FilterMatch("icmpv6 type", "{ 130-137, 143 }"),),
    "accept",
)
_UNTRACKED: Final = FilterMatch("ct state", "{ invalid, untracked }")

PoliciesOf = Callable[[PodEndpoint, str], Iterable[CompiledPolicy]]


class LocalPods:
    """Base chains, verdict maps and guard sets."""

    def __init__(self, table: NftablesTable, policies_of: PoliciesOf) -> None:
        self._table = table
        self._policies_of = policies_of
        self._elements = PodElements(table)
        self._chain_users: Counter[str] = Counter()
        self._chains_of: dict[ObjectKey, frozenset[str]] = {}
        self._guarded: frozenset[IPNetwork] = frozenset()
        for family in FAMILIES:
            self._add_family(family)
        self._add_base_chains()

    # Pods.

    def update(self, key: ObjectKey, pod: PodEndpoint | None) -> None:
        """Update the elements of a pod, and the chains of policy sets; None if it was deleted or is not local."""
        if pod is None or not pod.is_local or not pod.addresses:
            self._elements.update(key, {})
            self._use_chains(key, frozenset())
            return
        chains = {direction: self._chain_of(pod, direction) for direction in (EGRESS, INGRESS)}
        new: dict[tuple[str, str], str] = {}
        for address in pod.addresses:
            new[family_name("known", address.version), str(address)] = ""
            for direction, chain in chains.items():
                if chain:
                    new[family_name(direction.lower(), address.version), str(address)] = f"goto {chain}"
                    new[family_name("isolated", address.version), str(address)] = ""
                    new[family_name("self", address.version), f"{address} . {address}"] = ""
        old = self._chains_of.get(key, frozenset())
        self._use_chains(key, frozenset(chain for chain in chains.values() if chain) | old)
        self._elements.update(key, new)
        self._use_chains(key, frozenset(chain for chain in chains.values() if chain))

    def _chain_of(self, pod: PodEndpoint, direction: str) -> str:
        """Return the chain of a pod's policies, which is added if it is new; empty if the pod is not isolated."""
        policies = sorted(policy.key for policy in self._policies_of(pod, direction))
        if not policies:
            return ""
        names = [policy_chain_name(key, direction) for key in policies]
        chain = hashed_name(direction.lower(), " ".join(names))
        if chain not in self._table.chains:
            rules = (*(FilterRule((), f"jump {name}") for name in names), FilterRule((), "drop", has_counter=True))
            self._table.set_chain(chain, rules)
        return chain

    def _use_chains(self, key: ObjectKey, chains: frozenset[str]) -> None:
        """Count the users of chains, and remove those without any."""
        old = self._chains_of.pop(key, frozenset())
        if chains:
            self._chains_of[key] = chains
        self._chain_users.update(chains - old)
        for chain in old - chains:
            self._chain_users[chain] -= 1
            if not self._chain_users[chain]:
                del self._chain_users[chain]
                self._table.remove_chain(chain)

    # Addresses of this node without a pod.

    def set_guard(self, networks: frozenset[IPNetwork]) -> None:
        """Drop the traffic of addresses in these networks that belong to no known pod."""
        for network in self._guarded - networks:
            self._table.discard(family_name("guarded", network.version), str(network))
            for address in host_addresses(network):
                self._table.discard(family_name("known", network.version), address)
        for network in networks - self._guarded:
            self._table.put(family_name("guarded", network.version), str(network))
            for address in host_addresses(network):
                self._table.put(family_name("known", network.version), address)
        self._guarded = networks

    # Constant part.

    def _add_family(self, family: FamilyExpressions) -> None:
        version, kind = family.version, family.address_type
        for direction in (EGRESS, INGRESS):
            self._table.add_set(SetSpec(family_name(direction.lower(), version), kind, is_map=True))
        for name in ("known", "isolated"):
            self._table.add_set(SetSpec(family_name(name, version), kind))
        self._table.add_set(SetSpec(family_name("self", version), f"{kind} . {kind}"))
        self._table.add_set(SetSpec(family_name("guarded", version), kind, is_interval=True))

    def _add_base_chains(self) -> None:
        ingress = [FilterRule((), f"{one.server} vmap @{family_name('ingress', one.version)}") for one in FAMILIES]
        self._table.set_chain(INGRESS_CHAIN, (*ingress, FilterRule((), "accept")))
        egress = [FilterRule((), f"{one.client} vmap @{family_name('egress', one.version)}") for one in FAMILIES]
        protection = [_NEIGHBOUR_DISCOVERY, *(rule for one in FAMILIES for rule in _protection_rules(one))]
        clients = [_guard_rule(one, one.client) for one in FAMILIES]
        servers = [_guard_rule(one, one.server) for one in FAMILIES]
        forward = (*protection, *clients, *servers, *egress, FilterRule((), f"goto {INGRESS_CHAIN}"))
        self._table.set_chain("forward", forward, Hook("forward", _PRIORITY))
        # Traffic between a pod and its node: egress of the pod is checked, its ingress is always allowed.
        self._table.set_chain("input", (*protection, *clients, *egress), Hook("input", _PRIORITY))
        self._table.set_chain("output", tuple(egress), Hook("output", _PRIORITY))


def _protection_rules(family: FamilyExpressions) -> tuple[FilterRule, ...]:
    """Return the rules for packets without a connection, and for connections of a pod with itself."""
    isolated = f"isolated-{family.version}"
    return (
        FilterRule((_UNTRACKED, in_set(family.packet_source, isolated)), "drop", has_counter=True),
        FilterRule((_UNTRACKED, in_set(family.packet_destination, isolated)), "drop", has_counter=True),
        FilterRule((in_set(family.client_and_server, family_name("self", family.version)),), "accept"),
    )


def _guard_rule(family: FamilyExpressions, expression: str) -> FilterRule:
    guarded, known = family_name("guarded", family.version), family_name("known", family.version)
    return FilterRule((in_set(expression, guarded), in_set(expression, known, negated=True)), "drop", has_counter=True)


def host_addresses(network: IPNetwork) -> tuple[str, ...]:
    """Return the addresses of a pod CIDR that belong to the node: of the tunnel device, and of the gateway."""
    return tuple(dict.fromkeys((str(network[0]), str(network[min(1, network.num_addresses - 1)]))))


def parse_networks(texts: Iterable[str]) -> frozenset[IPNetwork]:
    """Parse CIDRs. Raises ValueError."""
    return frozenset(ip_network(text) for text in texts)
