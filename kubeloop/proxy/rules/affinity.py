# SPDX-License-Identifier: Apache-2.0
"""Chains and sets of a port with session affinity: each endpoint has a chain, and a set of its clients. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.proxy.endpoint import EndpointInfo
from kubeloop.proxy.endpoint_selection import EndpointSelection
from kubeloop.proxy.rules.names import endpoint_chain_base, port_chain_base
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.rules.shared_chains import external_rules
from kubeloop.proxy.rules.statements import Match, Rule, Rules, Statement, goto
from kubeloop.proxy.service_port import ServicePortInfo, ServicePortName


def affinity_chains(
    name: ServicePortName, port: ServicePortInfo, selection: EndpointSelection, settings: TableSettings
) -> dict[str, Rules]:
    """Return the chains of a port that has endpoints, with upstream's names."""
    base = port_chain_base(name)
    found: dict[str, Rules] = {}
    for one in selection.reachable:
        endpoint = endpoint_chain_base(name, one)
        found[f"endpoint-{endpoint}"] = (
            Rule(Statement("update set", f"affinity-{endpoint}")),
            Rule(Statement("dnat", one.address), (Match("protocol", port.protocol.lower()),)),
        )
    if selection.cluster and port.uses_cluster_endpoints:
        found[f"service-{base}"] = _choice(name, selection.cluster)
    if selection.local and port.uses_local_endpoints:
        found[f"local-{base}"] = _choice(name, selection.local)
    if port.is_externally_accessible:
        local = [f"local-{base}"] if selection.local else []
        is_local = port.external_policy_local
        found[f"external-{base}"] = external_rules(f"service-{base}", local, settings, is_local=is_local)
    return found


def affinity_sets(name: ServicePortName, port: ServicePortInfo, endpoints: Iterable[EndpointInfo]) -> dict[str, int]:
    """Return the sets of clients, by name, with the seconds after which a client is forgotten."""
    return {f"affinity-{endpoint_chain_base(name, one)}": port.affinity_seconds for one in endpoints}


def _choice(name: ServicePortName, endpoints: Iterable[EndpointInfo]) -> Rules:
    """Return the rules that lead a known client to its endpoint, and others to a random one."""
    bases = [endpoint_chain_base(name, one) for one in endpoints]
    known = (goto(f"endpoint-{base}", Match("source in set", f"affinity-{base}")) for base in bases)
    return (*known, Rule(Statement("goto at random", chains=tuple(f"endpoint-{base}" for base in bases))))
