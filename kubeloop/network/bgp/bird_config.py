# SPDX-License-Identifier: Apache-2.0
"""Configuration of BIRD 2 for a node, as a function of all nodes and of peers outside the cluster. Pure.

Without route reflectors every node peers with every other one. With them (nodes with the label
network.kubeloop.io/route-reflector, whose value is the cluster ID) others peer with reflectors only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_network
from pathlib import Path

from kubeloop.network.bgp.peers import BgpPeer
from kubeloop.network.nodes import ROUTE_REFLECTOR_LABEL, ClusterNode, NodeIP, PodNetwork

_LOG_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class BgpSettings:
    """Settings of BGP that do not depend on nodes."""

    as_number: int = 64512
    peers: tuple[BgpPeer, ...] = ()
    advertised: tuple[PodNetwork, ...] = ()  # networks of Service addresses, to peers outside the cluster


def bird_config(own: ClusterNode, nodes: Collection[ClusterNode], settings: BgpSettings, folder: Path) -> str:
    """Return the configuration file."""
    parts = [_head(own, folder)]
    for version in (4, 6):
        parts += _family_parts(version, own, settings)
    parts += [_session(own, node, nodes, settings) for node in session_nodes(own, nodes)]
    parts += [_external(own, peer, settings) for peer in settings.peers if _selects(peer, own)]
    return "\n".join(part for part in parts if part)


def session_nodes(own: ClusterNode, nodes: Iterable[ClusterNode]) -> list[ClusterNode]:
    """Return the nodes to peer with: all of them, or the reflectors; a reflector peers with all."""
    others = sorted((node for node in nodes if node.name != own.name), key=lambda node: node.name)
    has_reflectors = _is_reflector(own) or any(map(_is_reflector, others))
    if not has_reflectors or _is_reflector(own):
        return others
    return [node for node in others if _is_reflector(node)]


def session_names(own: ClusterNode, nodes: Iterable[ClusterNode]) -> frozenset[str]:
    """Return the names of the sessions with other nodes."""
    return frozenset(
        _protocol_name("node", node.name, version)
        for node in session_nodes(own, nodes)
        for version in (4, 6)
        if own.address(version) is not None and node.address(version) is not None
    )


def router_id(own: ClusterNode) -> str:
    """Return the node's IPv4 address; a number from the name for a node with IPv6 only."""
    address = own.address(4)
    if address is not None:
        return str(address)
    digest = hashlib.sha256(own.name.encode()).digest()
    return str(IPv4Address(bytes((10, *digest[:3]))))


def _head(own: ClusterNode, folder: Path) -> str:
    log = f'log "{folder}/bird.log" {_LOG_BYTES} "{folder}/bird.log.1" {{ info, warning, error, fatal }};'
    return f"""# Written by kubeloop network for node {own.name}; changes are lost.
{log}
router id {router_id(own)};
graceful restart wait 60;
protocol device {{ scan time 10; }}
protocol direct {{ ipv4; ipv6; }}
"""


def _family_parts(version: int, own: ClusterNode, settings: BgpSettings) -> Iterator[str]:
    pods = [network for network in own.pod_cidrs if network.version == version]
    services = [network for network in settings.advertised if network.version == version]
    for name, networks in (("pods", pods), ("services", services)):
        routes = "".join(f"  route {network} unreachable;\n" for network in networks)
        yield f"protocol static {name}{version} {{\n  ipv{version};\n{routes}}}\n"
    # Routes to other nodes' pods stay in the kernel while BIRD is restarted.
    yield f"""protocol kernel kernel{version} {{
  learn;
  persist;
  scan time 10;
  graceful restart;
  ipv{version} {{ import all; export where source = RTS_BGP && dest = RTD_UNICAST; }};
}}
"""


def _session(own: ClusterNode, node: ClusterNode, nodes: Collection[ClusterNode], settings: BgpSettings) -> str:
    """Return the sessions with another node, one for each IP family that both have."""
    sources = nodes if _is_reflector(node) else (node,)
    parts = []
    for version in (4, 6):
        local, remote = own.address(version), node.address(version)
        if local is None or remote is None:
            continue
        others = [one for one in sources if one.name != own.name]
        accepted = [str(cidr) for one in others for cidr in one.pod_cidrs if cidr.version == version]
        exported = f'proto = "pods{version}"'
        if _is_reflector(own):
            exported += " || source = RTS_BGP"
        reflection = ""
        if _is_reflector(own) and not _is_reflector(node):
            reflection = f"  rr client;\n  rr cluster id {_cluster_id(own)};\n"
        name = _protocol_name("node", node.name, version)
        parts.append(
            f"protocol bgp {name} {{\n{_endpoints(local, remote, settings.as_number, settings.as_number)}{reflection}"
            f"{_channel(version, accepted, exported)}}}\n"
        )
    return "\n".join(parts)


def _external(own: ClusterNode, peer: BgpPeer, settings: BgpSettings) -> str:
    version = peer.version
    local = own.address(version)
    if local is None:
        return ""
    lines = _endpoints(local, peer.address, settings.as_number, peer.asn)
    lines += f"  multihop {peer.multihop};\n" if peer.multihop else "  direct;\n"
    lines += f'  password "{peer.password}";\n' if peer.password else ""
    exported = f'proto = "pods{version}" || proto = "services{version}"'
    accepted = [f"{text}+" for text in peer.accept if ip_network(text).version == version]  # with all inside it
    channel = _channel(version, accepted, exported)
    return f"protocol bgp {_protocol_name('peer', peer.name, version)} {{\n{lines}{channel}}}\n"


def _endpoints(local: NodeIP, remote: NodeIP | str, local_as: int, remote_as: int) -> str:
    return (
        f"  local {local} as {local_as};\n  neighbor {remote} as {remote_as};\n  graceful restart;\n"
        "  connect retry time 5;\n  connect delay time 1;\n  error wait time 5, 30;\n"
    )


def _channel(version: int, accepted: Collection[str], exported: str) -> str:
    networks = ", ".join(sorted(accepted))
    accept = f"import where net ~ [ {networks} ];" if networks else "import none;"
    return f"  ipv{version} {{ {accept} export where {exported}; }};\n"


def _protocol_name(kind: str, name: str, version: int) -> str:
    """Return a name that BIRD accepts and that no other node or peer has."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{kind}_{re.sub('[^a-z0-9]', '_', name.lower())[:32]}_{digest}_{version}"


def _is_reflector(node: ClusterNode) -> bool:
    return ROUTE_REFLECTOR_LABEL in node.labels


def _cluster_id(node: ClusterNode) -> str:
    """Return the label's value if it is an IPv4 address, else the router ID: reflectors of one cluster share it."""
    try:
        return str(IPv4Address(node.labels.get(ROUTE_REFLECTOR_LABEL, "")))
    except ValueError:
        return router_id(node)


def _selects(peer: BgpPeer, node: ClusterNode) -> bool:
    return all(node.labels.get(key) == value for key, value in peer.node_selector.items())
