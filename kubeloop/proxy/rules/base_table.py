# SPDX-License-Identifier: Apache-2.0
"""Part of the table that does not depend on Services: base chains, the chains they call, sets and maps. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Final

from kubeloop.nftables.script import BaseChain, TableScript
from kubeloop.proxy.rules import names
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.rules.statements import Match, Rule, Rules, Statement, endpoint_key, from_pod

_PRE_DNAT: Final = "dstnat - 10"
BASE_CHAINS: Final[Mapping[str, BaseChain]] = {
    names.FILTER_PREROUTING_PRE_DNAT: BaseChain("filter", "prerouting", _PRE_DNAT),
    names.FILTER_OUTPUT_PRE_DNAT: BaseChain("filter", "output", "-110"),  # output has no name for dstnat
    names.FILTER_INPUT: BaseChain("filter", "input", "filter"),
    names.FILTER_FORWARD: BaseChain("filter", "forward", "filter"),
    names.FILTER_OUTPUT: BaseChain("filter", "output", "filter"),
    names.NAT_PREROUTING: BaseChain("nat", "prerouting", "dstnat"),
    names.NAT_OUTPUT: BaseChain("nat", "output", "-100"),
    names.NAT_POSTROUTING: BaseChain("nat", "postrouting", "srcnat"),
}
_NEW: Final = Match("new connection")
_CHAIN_COMMENTS: Final = {names.REJECT: "helper for @no-endpoint-services / @no-endpoint-nodeports"}
_COMMENTS: Final = {
    names.CLUSTER_IPS: "Active ClusterIPs",
    names.HAIRPIN_CONNECTIONS: "service hairpin connections",
    names.NODEPORT_IPS: "IPs that accept NodePort traffic",
    names.NO_ENDPOINT_SERVICES: "vmap to drop or reject packets to services with no endpoints",
    names.NO_ENDPOINT_NODEPORTS: "vmap to drop or reject packets to service nodeports with no endpoints",
    names.FIREWALL_IPS: "destinations that are subject to LoadBalancerSourceRanges",
    names.SERVICE_IPS: "ClusterIP, ExternalIP and LoadBalancer IP traffic",
    names.SERVICE_NODEPORTS: "NodePort traffic",
    names.SERVICE_ENDPOINTS: "endpoints of service IPs, by number",
    names.SERVICE_LOCAL_ENDPOINTS: "endpoints of service IPs on this node, by number",
    names.NODEPORT_ENDPOINTS: "endpoints of node ports, by number",
    names.NODEPORT_LOCAL_ENDPOINTS: "endpoints of node ports on this node, by number",
}


def base_rules(settings: TableSettings, service_cidrs: tuple[str, ...] = ()) -> dict[str, Rules]:
    """Return the rules of all chains that do not depend on Services, by chain."""
    check_nodeports, check_services = _jump(names.NODEPORT_ENDPOINTS_CHECK), _jump(names.SERVICE_ENDPOINTS_CHECK)
    firewall, check_ips = _jump(names.FIREWALL_CHECK), _jump(names.CLUSTER_IPS_CHECK)
    services = Rule(Statement("jump", names.SERVICES))
    return {
        names.FILTER_PREROUTING_PRE_DNAT: (firewall,),
        names.FILTER_OUTPUT_PRE_DNAT: (firewall,),
        names.FILTER_INPUT: (check_nodeports, check_services),
        names.FILTER_FORWARD: (check_services, check_ips),
        names.FILTER_OUTPUT: (check_services, check_ips),
        names.NAT_PREROUTING: (services,),
        names.NAT_OUTPUT: (services,),
        names.NAT_POSTROUTING: (Rule(Statement("jump", names.MASQUERADING)),),
        names.FIREWALL_CHECK: (_lookup(names.FIREWALL_IPS),),
        names.SERVICE_ENDPOINTS_CHECK: (_lookup(names.NO_ENDPOINT_SERVICES),),
        names.NODEPORT_ENDPOINTS_CHECK: (_lookup(names.NO_ENDPOINT_NODEPORTS, *_accepts_node_ports(settings)[-1:]),),
        names.CLUSTER_IPS_CHECK: _cluster_ips_check(service_cidrs),
        names.SERVICES: _service_dispatch(settings),
        names.MASQUERADING: _masquerade(settings),
        names.REJECT: (Rule(Statement("reject")),),
    }


def add_containers(script: TableScript, settings: TableSettings) -> None:
    """Add the sets and maps of all Services to a script."""
    ip, address = settings.family.nft, settings.family.address_type
    service, nodeport = f"{address} . inet_proto . inet_service", "inet_proto . inet_service"
    for name in names.SETS:
        type = f"type {address} . {service}" if name == names.HAIRPIN_CONNECTIONS else f"type {address}"
        script.add_set(name, type, comment=_COMMENTS[name])
    for name in names.VERDICT_MAPS:
        key = nodeport if name in names.NODEPORT_KEYED else service
        script.add_map(name, f"type {key} : verdict", comment=_COMMENTS[name])
    # Only `typeof` can describe the number of an endpoint; the modulus of this expression is of no importance.
    for kind, protocol in product(names.ENDPOINT_MAPS, names.PROTOCOLS):
        name = names.endpoint_map(kind, protocol)
        key = f"{endpoint_key(ip, name)} . numgen random mod 65536"
        script.add_map(name, f"typeof {key} : {ip} daddr . {protocol} dport", comment=_COMMENTS[kind])


def add_base_chain(script: TableScript, name: str) -> None:
    """Add a chain that does not depend on Services to a script."""
    script.add_chain(name, BASE_CHAINS.get(name), _CHAIN_COMMENTS.get(name, ""))


def _jump(chain: str) -> Rule:
    return Rule(Statement("jump", chain), (_NEW,))


def _lookup(container: str, *matches: Match) -> Rule:
    return Rule(Statement("verdict map", container), matches)


def _accepts_node_ports(settings: TableSettings) -> tuple[Match, ...]:
    """Return the matches of destinations that accept node ports; loopback addresses never do."""
    if settings.nodeport_addresses.match_all:
        return (Match("destination is local"), Match("destination is loopback", negated=True))
    return (Match("destination in set", names.NODEPORT_IPS),)


def _service_dispatch(settings: TableSettings) -> Rules:
    """Return the rules of the chain that finds the Service of a packet."""
    to_cluster_ip = Match("destination in set", names.CLUSTER_IPS)
    mark = Statement("mark for masquerade", settings.masquerade_mark)
    rules: Rules = ()
    if settings.masquerade_all:
        rules = (Rule(mark, (to_cluster_ip,), "masquerade all clusterIP traffic"),)
    elif settings.detector.is_implemented:
        outside = from_pod(settings.detector, negated=True)
        rules = (Rule(mark, (to_cluster_ip, outside), "masquerade clusterIP traffic from outside cluster"),)
    by_node_port = _lookup(names.SERVICE_NODEPORTS, *_accepts_node_ports(settings))
    return (*rules, _lookup(names.SERVICE_IPS), by_node_port)


def _cluster_ips_check(service_cidrs: tuple[str, ...]) -> Rules:
    to_cluster_ip = Match("destination in set", names.CLUSTER_IPS)
    found: Rules = (Rule(Statement("reject"), (to_cluster_ip,), "Reject traffic to invalid ports of ClusterIPs"),)
    if service_cidrs:
        unallocated = Match("destination in networks", service_cidrs)
        found += (Rule(Statement("drop"), (unallocated,), "Drop traffic to unallocated ClusterIPs"),)
    return found


def _masquerade(settings: TableSettings) -> Rules:
    mark = settings.masquerade_mark
    return (
        Rule(Statement("masquerade", mark), (Match("masquerade mark", mark),)),
        Rule(Statement("masquerade"), (Match("hairpin"),)),
    )
