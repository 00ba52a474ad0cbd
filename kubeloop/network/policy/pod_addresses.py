# SPDX-License-Identifier: Apache-2.0
"""Owners of pod addresses: at each time an address belongs to one pod, also while a reused one is reported by two.

An address that the CNI plugin reports belongs to that pod before the pod's status shows it. Otherwise the youngest
running pod owns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.network.policy.model import IPAddress, PodEndpoint, addresses_of, endpoint_of
from kubeloop.runtime.objects.keys import ObjectKey, key_of

EndpointChange = tuple[ObjectKey, PodEndpoint | None]


class AddressAssignment(NamedTuple):
    """Pod that the CNI plugin has given an address to."""

    pod: ObjectKey
    uid: str


class PodAddresses:
    """Endpoints of all pods, with the changes since the last time."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self._pods: dict[ObjectKey, Pod] = {}
        self._claims: dict[IPAddress, set[ObjectKey]] = {}  # by the status of pods
        self._assigned: dict[IPAddress, AddressAssignment] = {}
        self._shown: dict[ObjectKey, PodEndpoint] = {}
        self._changed: set[ObjectKey] = set()

    # Changes.

    def set_pod(self, pod: Pod) -> None:
        """Add or replace a pod."""
        key = key_of(pod)
        self._drop_claims(key)
        self._pods[key] = pod
        for address in addresses_of(pod):
            self._claims.setdefault(address, set()).add(key)
        if pod.status.phase in ("Succeeded", "Failed"):
            self._drop_assignments(key, pod.metadata.uid)
        self._touch(key)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a deleted pod."""
        key = key_of(pod)
        self._touch(key)
        self._drop_claims(key)
        self._drop_assignments(key, pod.metadata.uid)
        self._pods.pop(key, None)

    def assign(self, assignment: AddressAssignment, addresses: Iterable[IPAddress]) -> None:
        """Record addresses that the CNI plugin has given to a pod; its earlier ones are free."""
        for address in [one for one, old in self._assigned.items() if old.pod == assignment.pod]:
            self.release((address,))
        for address in addresses:
            self.release((address,))
            self._assigned[address] = assignment
        self._touch(assignment.pod, *addresses)

    def release(self, addresses: Iterable[IPAddress]) -> None:
        """Record that addresses were given back."""
        for address in addresses:
            if (old := self._assigned.pop(address, None)) is not None:
                self._touch(old.pod, address)

    def take_changes(self) -> list[EndpointChange]:
        """Return the endpoints that have changed since the last time; None for deleted pods."""
        changes: list[EndpointChange] = []
        for key in sorted(self._changed):
            new = self._endpoint(key)
            if new != self._shown.get(key):
                changes.append((key, new))
                if new is None:
                    del self._shown[key]
                else:
                    self._shown[key] = new
        self._changed.clear()
        return changes

    def is_shown(self, assignment: AddressAssignment, addresses: Sequence[IPAddress]) -> bool:
        """Return True if the pod is known, and owned these addresses when changes were last taken."""
        pod, shown = self._pods.get(assignment.pod), self._shown.get(assignment.pod)
        if pod is None or shown is None or (assignment.uid and pod.metadata.uid != assignment.uid):
            return False
        return shown.addresses.issuperset(addresses)

    # Owners.

    def _endpoint(self, key: ObjectKey) -> PodEndpoint | None:
        pod = self._pods.get(key)
        if pod is None:
            return None
        candidates = {*addresses_of(pod), *(one for one, given in self._assigned.items() if given.pod == key)}
        if pod.spec.host_network:
            candidates = set()
        owned = frozenset(address for address in candidates if self._owner(address) == key)
        return endpoint_of(pod, self._node_name, owned)

    def _owner(self, address: IPAddress) -> ObjectKey | None:
        given = self._assigned.get(address)
        pod = self._pods.get(given.pod) if given is not None else None
        if given is not None and pod is not None and given.uid in ("", pod.metadata.uid):
            return given.pod
        return max(self._claims.get(address, ()), key=self._age, default=None)

    def _age(self, key: ObjectKey) -> tuple[str, ObjectKey]:
        return self._pods[key].metadata.creation_timestamp or "", key

    def _drop_claims(self, key: ObjectKey) -> None:
        old = self._pods.get(key)
        for address in addresses_of(old) if old is not None else ():
            claimants = self._claims[address]
            claimants.discard(key)
            self._changed |= claimants
            if not claimants:
                del self._claims[address]

    def _drop_assignments(self, key: ObjectKey, uid: str) -> None:
        old = [one for one, given in self._assigned.items() if given == (key, uid)]
        self.release(old)

    def _touch(self, key: ObjectKey, *addresses: IPAddress) -> None:
        """Mark a pod, and all pods that claim its addresses."""
        self._changed.add(key)
        pod = self._pods.get(key)
        for address in (*addresses, *(addresses_of(pod) if pod is not None else ())):
            self._changed |= self._claims.get(address, set())
