# SPDX-License-Identifier: Apache-2.0
"""Compiled policies of a node: keeps the table equal to pods, namespaces and policies, by changes of single objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from kubeloop.api.generated.networking_v1 import NetworkPolicy
from kubeloop.network.policy.compiled_policy import CompiledPolicy, PortName, compile_policy, policy_chain_name
from kubeloop.network.policy.local_pods import LocalPods
from kubeloop.network.policy.model import IPNetwork, PeerSelector, PodEndpoint
from kubeloop.network.policy.pod_sets import NamedPortSet, PeerSet
from kubeloop.network.policy.table import NftablesTable
from kubeloop.runtime.objects.keys import ObjectKey, key_of

TABLE: Final = "kubeloop-network-policy"
REMOVAL: Final = f"add table inet {TABLE}\ndelete table inet {TABLE}\n"
Shared = TypeVar("Shared", str, PeerSelector, PortName)


class PolicyTables:
    """Table of network policies. Every method changes it by the difference only."""

    def __init__(self) -> None:
        self.table = NftablesTable(TABLE)
        self._pods: dict[ObjectKey, PodEndpoint] = {}
        self._pods_of: dict[str, set[ObjectKey]] = {}  # by namespace
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._policies: dict[ObjectKey, CompiledPolicy] = {}
        # By the namespace that a selector is limited to; empty for selectors of namespaces.
        self._peer_sets: dict[str, dict[PeerSelector, PeerSet]] = {"": {}}
        self._named_ports: dict[PortName, NamedPortSet] = {}
        self._constant_users: Counter[str] = Counter()
        self._selector_users: Counter[PeerSelector] = Counter()
        self._port_users: Counter[PortName] = Counter()
        self._pod_networks: frozenset[IPNetwork] = frozenset()
        self._local = LocalPods(self.table, self._policies_of)

    @property
    def policy_count(self) -> int:
        """Number of policies."""
        return len(self._policies)

    # Pods.

    def set_pods(self, changes: Iterable[tuple[ObjectKey, PodEndpoint | None]]) -> None:
        """Apply changed pods; None for deleted ones. Addresses are taken from old owners before new ones get them."""
        changes = list(changes)
        for key, pod in changes:
            old = self._pods.get(key)
            kept = old.addresses & pod.addresses if old is not None and pod is not None else frozenset()
            if old is not None and kept != old.addresses:
                self._set_pod(key, replace(old, addresses=kept))
        for key, pod in changes:
            self._set_pod(key, pod)

    def _set_pod(self, key: ObjectKey, pod: PodEndpoint | None) -> None:
        if pod is None:
            self._pods.pop(key, None)
            self._pods_of.get(key.namespace, set()).discard(key)
        else:
            self._pods[key] = pod
            self._pods_of.setdefault(key.namespace, set()).add(key)
        labels = self._namespaces.get(key.namespace)
        for limit in (key.namespace, ""):
            for peers in self._peer_sets.get(limit, {}).values():
                peers.update(key, pod, labels)
        for ports in self._named_ports.values():
            ports.update(key, pod)
        self._local.update(key, pod)

    # Namespaces.

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Set the labels of a namespace; None if it was deleted."""
        if labels is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = labels
        for key in self._pods_of.get(name, ()):
            for peers in self._peer_sets[""].values():
                peers.update(key, self._pods[key], labels)

    # Policies.

    def set_policy(self, policy: NetworkPolicy) -> None:
        """Add or replace a policy."""
        old, new = self._policies.get(key_of(policy)), compile_policy(policy)
        self._add_references(new)
        self._policies[new.key] = new
        for direction, rules in new.chains.items():
            self.table.set_chain(policy_chain_name(new.key, direction), rules)
        self._update_local(new.key.namespace)
        if old is not None:
            for direction in old.chains.keys() - new.chains.keys():
                self.table.remove_chain(policy_chain_name(old.key, direction))
            self._remove_references(old)
        self._update_guard()

    def remove_policy(self, key: ObjectKey) -> None:
        """Remove a policy."""
        old = self._policies.pop(key, None)
        if old is None:
            return
        self._update_local(key.namespace)
        for direction in old.chains:
            self.table.remove_chain(policy_chain_name(key, direction))
        self._remove_references(old)
        self._update_guard()

    def _policies_of(self, pod: PodEndpoint, direction: str) -> Iterator[CompiledPolicy]:
        for policy in self._policies.values():
            applies = policy.key.namespace == pod.key.namespace and direction in policy.chains
            if applies and policy.pod_selector.matches(pod.labels):
                yield policy

    def _update_local(self, namespace: str) -> None:
        for key in self._pods_of.get(namespace, ()):
            self._local.update(key, self._pods[key])

    def _add_references(self, policy: CompiledPolicy) -> None:
        for spec, elements in policy.constant_sets.items():
            self._constant_users[spec.name] += 1
            self.table.add_set(spec, elements)
        for selector in policy.peer_selectors:
            self._selector_users[selector] += 1
            alike = self._peer_sets.setdefault(selector.namespace, {})
            if selector not in alike:
                self._fill(alike.setdefault(selector, PeerSet(selector, self.table)))
        for port in policy.port_names:
            self._port_users[port] += 1
            if port not in self._named_ports:
                ports = self._named_ports[port] = NamedPortSet(port, self.table)
                for key, pod in self._pods.items():
                    ports.update(key, pod)

    def _fill(self, peers: PeerSet) -> None:
        """Add the members of a new set; only namespaces that its selector can match are searched."""
        selector = peers.selector
        for name in [selector.namespace] if selector.namespace else list(self._pods_of):
            labels = self._namespaces.get(name)
            if selector.namespace or (labels is not None and selector.namespace_selector.matches(labels)):
                for key in self._pods_of.get(name, ()):
                    peers.update(key, self._pods[key], labels)

    def _remove_references(self, policy: CompiledPolicy) -> None:
        for spec in policy.constant_sets:
            if _release(self._constant_users, spec.name):
                self.table.remove_set(spec.name)
        for selector in policy.peer_selectors:
            if _release(self._selector_users, selector):
                self._peer_sets[selector.namespace].pop(selector).remove()
        for port in policy.port_names:
            if _release(self._port_users, port):
                self._named_ports.pop(port).remove()

    # Addresses of this node that belong to no known pod.

    def set_pod_networks(self, networks: frozenset[IPNetwork]) -> None:
        """Set the pod CIDRs of this node."""
        self._pod_networks = networks
        self._update_guard()

    def _update_guard(self) -> None:
        """Guard the pod CIDRs while there is any policy: a new pod may be isolated before its address is known."""
        self._local.set_guard(self._pod_networks if self._policies else frozenset())


def _release(users: Counter[Shared], one: Shared) -> bool:
    """Return True if this was the last user."""
    users[one] -= 1
    if users[one]:
        return False
    del users[one]
    return True
