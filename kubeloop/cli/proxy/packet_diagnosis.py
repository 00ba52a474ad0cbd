# SPDX-License-Identifier: Apache-2.0
"""`kubeloop why-packet`: follows a packet through the table that a node's service proxy writes."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Node, Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.generated.networking_v1 import ServiceCIDR
from kubeloop.cli.flags.types import address, comma_separated, port
from kubeloop.cli.local_clusters.advice import explain_error
from kubeloop.cli.program.output import add_output_flag, format_document
from kubeloop.client import Client
from kubeloop.client.config.server_config import load_config
from kubeloop.client.errors import ClientError
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import SystemClock
from kubeloop.proxy.endpoint_selection import NodeTopology
from kubeloop.proxy.ip_family import family_of, networks_of
from kubeloop.proxy.node_addresses import (
    NO_DETECTOR,
    LocalTrafficDetector,
    detect_node_ips,
    expand_nodeport_keywords,
    node_host_ips,
    nodeport_addresses,
)
from kubeloop.proxy.node_manager import ZONE_LABEL
from kubeloop.proxy.offline_table import ClusterObjects, build_table
from kubeloop.proxy.packet_trace import PacketTrace, TracedPacket, trace
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.rules.table import ProxyTable

_ABOUT = """Say where the service proxy of a node sends a packet: the Service, its endpoints and whether the packet is
masqueraded, or why it is dropped or rejected. The table is computed from the cluster's objects."""
_EXAMPLES = """Examples:
  # From a pod of the node to a cluster IP
  kubeloop why-packet 10.96.0.10 53 --protocol udp --node worker --from 10.244.1.7 --cluster-cidr 10.244.0.0/16

  # From outside to a node port
  kubeloop why-packet 192.0.2.10 30080 --node worker --from 198.51.100.1
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `why-packet`."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    parser.add_argument(
        "destination", metavar="DESTINATION", type=address, help="IP address that the packet is sent to"
    )
    parser.add_argument("port", metavar="PORT", type=port, help="port that the packet is sent to")
    parser.add_argument("--protocol", choices=("tcp", "udp", "sctp"), default="tcp", help="protocol (default: tcp)")
    parser.add_argument("--node", required=True, metavar="NAME", help="node whose proxy handles the packet")
    parser.add_argument(
        "--from", dest="source", type=address, metavar="IP", help="source of the packet (default: the node)"
    )
    parser.add_argument("--interface", default="", metavar="NAME", help="interface by which the packet arrives")
    parser.add_argument("--cluster-cidr", default="", metavar="CIDRS", help="networks of pods, as the proxy's flag")
    parser.add_argument(
        "--nodeport-addresses",
        type=comma_separated,
        default=("primary",),
        metavar="CIDRS",
        help="addresses that accept node ports, as the proxy's flag (default: primary)",
    )
    parser.add_argument(
        "--kubeconfig", default="", help="kubeconfig with the API server and the credentials (default: as kubectl)"
    )
    add_output_flag(parser)


def run_why_packet(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    try:
        print(asyncio.run(_ask(options)))
    except (ApiError, ClientError, OSError) as error:
        print(f"kubeloop: {explain_error(error)}", file=sys.stderr)
        return 1
    return 0


async def _ask(options: argparse.Namespace) -> str:
    path = options.kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    async with Client(HttpTransport(load_config(path), SystemClock()), user_agent="kubeloop why-packet") as client:
        node = await client.get(Node, options.node)
        cidrs = [cidr for one in (await client.list(ServiceCIDR)).items for cidr in one.spec.cidrs]
        services, slices = await client.list(Service), await client.list(EndpointSlice)
    objects = ClusterObjects(services.items, slices.items, tuple(cidrs))
    return render(explain_packet(options, node, objects), options.output)


def explain_packet(options: argparse.Namespace, node: Node, objects: ClusterObjects) -> PacketTrace:
    """Follow the packet of the flags through the table of a node."""
    family = family_of(options.destination)
    assert family is not None, "the flag's type is an address"
    node_ips = detect_node_ips(node_host_ips(node), "0.0.0.0")
    own = frozenset(node_ips.by_family.values())
    entries = expand_nodeport_keywords(options.nodeport_addresses, node_ips)
    pods = networks_of(comma_separated(options.cluster_cidr), family)
    settings = TableSettings(
        family=family,
        node_ip=node_ips.by_family[family],
        detector=LocalTrafficDetector("network", str(pods[0])) if pods else NO_DETECTOR,
        nodeport_addresses=nodeport_addresses(entries, family),
    )
    topology = NodeTopology(options.node, node.metadata.labels.get(ZONE_LABEL, ""))
    cidrs = tuple(map(str, networks_of(objects.service_cidrs, family)))
    table: ProxyTable = build_table(ClusterObjects(objects.services, objects.slices, cidrs), settings, topology, own)
    source = options.source or node_ips.by_family[family]
    packet = TracedPacket(source, options.destination, options.port, options.protocol, options.interface, own)
    return trace(table, packet)


def render(found: PacketTrace, output: str) -> str:
    """Format the result for a person, or as a document for programs."""
    name = str(found.service_port) if found.service_port is not None else ""
    if output:
        document: dict[str, Any] = {
            "verdict": found.verdict,
            "servicePort": name,
            "endpoints": list(found.endpoints),
            "masquerade": found.masquerade,
            "hairpinEndpoints": list(found.hairpin_endpoints),
            "sessionAffinity": found.has_affinity,
            "steps": list(found.steps),
        }
        return format_document(document, output)
    if found.verdict != "forward":
        return f"{found.verdict}: {name or 'no Service'}\nreason: {found.reason}"
    masquerade = "yes" if found.masquerade else "no"
    if found.hairpin_endpoints:
        masquerade += f", except to {', '.join(found.hairpin_endpoints)}, which is the source itself"
    lines = [f"forward: {name}", f"endpoints: {', '.join(found.endpoints)}", f"masquerade: {masquerade}"]
    return "\n".join([*lines, "session affinity: a known client keeps its endpoint"] if found.has_affinity else lines)
