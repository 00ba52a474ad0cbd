# SPDX-License-Identifier: Apache-2.0
"""Input of network policies: pods with their addresses, peer selectors, and the parts of a policy with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, NamedTuple, TypeAlias

import msgspec

from kubeloop.api.addresses import parse_cidr, parse_ip
from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.generated.networking_v1 import IPBlock, NetworkPolicy, NetworkPolicyPeer
from kubeloop.api.selectors.labels import EVERYTHING, NOTHING, LabelSelector
from kubeloop.api.selectors.objects import LabelSelectorLike, label_selector_as_selector
from kubeloop.api.selectors.operators import SelectorError
from kubeloop.runtime.objects.keys import ObjectKey, key_of

IPAddress: TypeAlias = IPv4Address | IPv6Address
IPNetwork: TypeAlias = IPv4Network | IPv6Network

INGRESS: Final = "Ingress"
EGRESS: Final = "Egress"
TCP: Final = "TCP"
PROTOCOLS: Final = frozenset((TCP, "UDP", "SCTP"))


class NamedPort(NamedTuple):
    """Port of a container that has a name."""

    protocol: str
    name: str
    number: int


@dataclass(frozen=True, slots=True)
class PodEndpoint:
    """Pod with the addresses that it owns. Pods of the host's network have none: policies do not apply to them."""

    key: ObjectKey
    labels: Mapping[str, str] = field(default_factory=dict)
    addresses: frozenset[IPAddress] = frozenset()
    ports: frozenset[NamedPort] = frozenset()
    is_local: bool = False  # on the node of this agent


class PeerSelector(NamedTuple):
    """Selection of peers by labels: in one namespace, or in those that a selector matches."""

    namespace: str  # empty if namespaces are selected by labels
    namespace_selector: LabelSelector
    pod_selector: LabelSelector

    def matches(self, pod: PodEndpoint, namespace_labels: Mapping[str, str] | None) -> bool:
        """Return True if a pod is selected; labels are None for a namespace that is not known."""
        if self.namespace:
            if pod.key.namespace != self.namespace:
                return False
        elif namespace_labels is None or not self.namespace_selector.matches(namespace_labels):
            return False
        return self.pod_selector.matches(pod.labels)

    def __str__(self) -> str:
        scope = self.namespace or f"[{self.namespace_selector!r}]"
        return f"{scope}/{self.pod_selector!r}"


def peer_selector_of(peer: NetworkPolicyPeer, namespace: str) -> PeerSelector | None:
    """Return the selection of pods of a peer; None for an IP block, or a peer without any field."""
    if peer.ip_block is not None or (peer.pod_selector is None and peer.namespace_selector is None):
        return None
    pods = EVERYTHING if peer.pod_selector is None else selector_of(peer.pod_selector)
    if peer.namespace_selector is None:
        return PeerSelector(namespace, NOTHING, pods)
    return PeerSelector("", selector_of(peer.namespace_selector), pods)


def selector_of(selector: LabelSelectorLike | None) -> LabelSelector:
    """Compile a selector; one that is invalid selects nothing.

    Selectors that differ in the order of values are equal: the set of their pods has the same name.
    """
    try:
        compiled = label_selector_as_selector(selector)
    except SelectorError:
        return NOTHING
    if not compiled.requirements:
        return compiled
    return LabelSelector(
        msgspec.structs.replace(one, values=tuple(sorted(one.values))) for one in compiled.requirements
    )


def policy_types_of(policy: NetworkPolicy) -> frozenset[str]:
    """Return the directions that a policy isolates; by default ingress, and egress if it has egress rules."""
    if policy.spec.policy_types:
        return frozenset(policy.spec.policy_types)
    return frozenset((INGRESS, EGRESS)) if policy.spec.egress else frozenset((INGRESS,))


def networks_of(block: IPBlock) -> tuple[IPNetwork, ...]:
    """Return an IP block without its exceptions, as disjoint networks; none if it is invalid."""
    parsed = parse_cidr(block.cidr)
    if parsed is None:
        return ()
    found: list[IPNetwork] = [parsed[1]]
    for text in block.except_:
        excepted = parse_cidr(text)
        if excepted is not None:
            found = [part for network in found for part in _without(network, excepted[1])]
    return tuple(sorted(found, key=lambda network: (network.network_address.packed, network.prefixlen)))


def _without(network: IPNetwork, excepted: IPNetwork) -> list[IPNetwork]:
    if isinstance(network, IPv4Network) and isinstance(excepted, IPv4Network):
        if not network.overlaps(excepted):
            return [network]
        return [] if network.subnet_of(excepted) else list(network.address_exclude(excepted))
    if isinstance(network, IPv6Network) and isinstance(excepted, IPv6Network):
        if not network.overlaps(excepted):
            return [network]
        return [] if network.subnet_of(excepted) else list(network.address_exclude(excepted))
    return [network]


def named_ports_of(pod: Pod) -> frozenset[NamedPort]:
    """Return the named ports of a pod's containers, and of init containers that keep running."""
    containers: list[Container] = [*(pod.spec.containers or ())]
    containers += [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    return frozenset(
        NamedPort(port.protocol or TCP, port.name, port.container_port)
        for container in containers
        for port in container.ports
        if port.name and (port.protocol or TCP) in PROTOCOLS
    )


def endpoint_of(pod: Pod, node_name: str, addresses: frozenset[IPAddress]) -> PodEndpoint:
    """Build the endpoint of a pod that owns addresses."""
    is_local = pod.spec.node_name == node_name
    return PodEndpoint(key_of(pod), pod.metadata.labels, addresses, named_ports_of(pod), is_local)


def addresses_of(pod: Pod) -> frozenset[IPAddress]:
    """Return the addresses of a pod's status; none for the host's network, and once its containers have ended."""
    if pod.spec.host_network or pod.status.phase in ("Succeeded", "Failed"):
        return frozenset()
    texts = [one.ip for one in pod.status.pod_ips] or [pod.status.pod_ip]
    return frozenset(address for text in texts if (address := parse_ip(text)) is not None)
