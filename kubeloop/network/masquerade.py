# SPDX-License-Identifier: Apache-2.0
"""Masquerades traffic of pods that leaves the cluster, by an nftables table. Pure: nodes to a script.

Only packets of the node's own pods are changed. Pods see each other's addresses. Traffic to nodes keeps the pod's
address too, except with vxlan: there the request would take another way than the reply, which nodes with strict reverse
path filters drop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import collapse_addresses
from typing import Final

from kubeloop.network.nodes import ClusterNode, PodNetwork

TABLE: Final = "kubeloop-masquerade"
REMOVAL: Final = f"add table inet {TABLE}\ndelete table inet {TABLE}\n"
CHECK: Final = f"list chain inet {TABLE} postrouting\n"  # fails if the table was removed
_MULTICAST: Final = {4: "224.0.0.0/4", 6: "ff00::/8"}


def internal_networks(nodes: Iterable[ClusterNode], more: Sequence[PodNetwork], *, nodes_too: bool) -> list[str]:
    """Return the destinations that pods reach with their own address, as few networks as possible."""
    texts: set[PodNetwork] = set(more)
    for node in nodes:
        texts.update(node.pod_cidrs)
        if nodes_too:
            texts.update(_single(address) for address in node.addresses)
    v4 = collapse_addresses(one for one in texts if one.version == 4)
    v6 = collapse_addresses(one for one in texts if one.version == 6)
    return [*map(str, v4), *map(str, v6)]


def masquerade_script(own: ClusterNode, internal: Iterable[str]) -> str:
    """Return a script that replaces the table in one transaction."""
    lines = [*REMOVAL.splitlines(), f"add table inet {TABLE}"]
    lines.append(f"add chain inet {TABLE} postrouting {{ type nat hook postrouting priority 100; policy accept; }}")
    listed = list(internal)
    for version, word, kind in ((4, "ip", "ipv4_addr"), (6, "ip6", "ipv6_addr")):
        sources = [str(network) for network in own.pod_cidrs if network.version == version]
        if not sources:
            continue
        targets = [text for text in listed if (":" in text) == (version == 6)]
        lines += _family_lines(version, word, kind, (sources, [*targets, _MULTICAST[version]]))
    return "".join(f"{line}\n" for line in lines)


def _family_lines(version: int, word: str, kind: str, members: tuple[list[str], list[str]]) -> list[str]:
    names = (f"pods-{version}", f"internal-{version}")
    lines = [f"add set inet {TABLE} {name} {{ type {kind}; flags interval; auto-merge; }}" for name in names]
    for name, elements in zip(names, members, strict=True):
        lines.append(f"add element inet {TABLE} {name} {{ {', '.join(elements)} }}")
    rule = f"{word} saddr @{names[0]} {word} daddr != @{names[1]} masquerade fully-random"
    lines.append(f"add rule inet {TABLE} postrouting {rule}")
    return lines


def _single(address: object) -> PodNetwork:
    from ipaddress import ip_network

    return ip_network(str(address))
