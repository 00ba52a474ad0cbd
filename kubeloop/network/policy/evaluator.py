# SPDX-License-Identifier: Apache-2.0
"""Decides if network policies allow a connection, by a direct reading of the API: the oracle of the compiled tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeloop.api.generated.networking_v1 import NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort
from kubeloop.network.policy.model import (
    EGRESS,
    INGRESS,
    TCP,
    IPAddress,
    PodEndpoint,
    networks_of,
    peer_selector_of,
    policy_types_of,
    selector_of,
)
from kubeloop.runtime.objects.keys import ObjectKey


class Connection(NamedTuple):
    """Connection as its first packet shows it after the translation of Service addresses."""

    source: IPAddress
    destination: IPAddress
    protocol: str  # TCP, UDP, SCTP; others, such as ICMP, have no port
    port: int = 0


@dataclass(slots=True)
class PolicyState:
    """Pods, labels of namespaces, and policies, by name."""

    pods: dict[ObjectKey, PodEndpoint] = field(default_factory=dict)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    policies: dict[ObjectKey, NetworkPolicy] = field(default_factory=dict)


class PolicyEvaluator:
    """Evaluates connections against the policies of a state."""

    def __init__(self, state: PolicyState) -> None:
        self._state = state

    def allows(self, connection: Connection) -> bool:
        """Return True if the source may open the connection and the destination may accept it."""
        return self.allows_egress(connection) and self.allows_ingress(connection)

    def allows_egress(self, connection: Connection) -> bool:
        """Return True unless the source is a pod that is isolated for egress, and no rule allows the destination."""
        pod = self._pod_at(connection.source)
        if pod is None or connection.destination in pod.addresses:
            return True
        policies = list(self._policies_of(pod, EGRESS))
        return not policies or any(
            self._matches(policy, rule.to, rule.ports, connection, connection.destination)
            for policy in policies
            for rule in policy.spec.egress
        )

    def allows_ingress(self, connection: Connection) -> bool:
        """Return True unless the destination is a pod that is isolated for ingress, and no rule allows the source."""
        pod = self._pod_at(connection.destination)
        if pod is None or connection.source in pod.addresses:
            return True
        policies = list(self._policies_of(pod, INGRESS))
        return not policies or any(
            self._matches(policy, rule.from_, rule.ports, connection, connection.source)
            for policy in policies
            for rule in policy.spec.ingress
        )

    def _policies_of(self, pod: PodEndpoint, direction: str) -> Iterator[NetworkPolicy]:
        for key, policy in self._state.policies.items():
            applies = key.namespace == pod.key.namespace and direction in policy_types_of(policy)
            if applies and selector_of(policy.spec.pod_selector).matches(pod.labels):
                yield policy

    def _matches(
        self,
        policy: NetworkPolicy,
        peers: Sequence[NetworkPolicyPeer],
        ports: Sequence[NetworkPolicyPort],
        connection: Connection,
        peer: IPAddress,
    ) -> bool:
        namespace = policy.metadata.namespace
        is_peer = not peers or any(self._is_peer(one, namespace, peer) for one in peers)
        return is_peer and (not ports or any(self._is_port(one, connection) for one in ports))

    def _is_peer(self, peer: NetworkPolicyPeer, namespace: str, address: IPAddress) -> bool:
        if peer.ip_block is not None:
            return any(address in network for network in networks_of(peer.ip_block))
        selector, pod = peer_selector_of(peer, namespace), self._pod_at(address)
        if selector is None or pod is None:
            return False
        return selector.matches(pod, self._state.namespaces.get(pod.key.namespace))

    def _is_port(self, wanted: NetworkPolicyPort, connection: Connection) -> bool:
        if (wanted.protocol or TCP) != connection.protocol:
            return False
        if wanted.port is None:
            return True
        if isinstance(wanted.port, int):
            last = wanted.port if wanted.end_port is None else wanted.end_port
            return wanted.port <= connection.port <= last
        pod = self._pod_at(connection.destination)
        return pod is not None and (connection.protocol, wanted.port, connection.port) in pod.ports

    def _pod_at(self, address: IPAddress) -> PodEndpoint | None:
        return next((pod for pod in self._state.pods.values() if address in pod.addresses), None)
