# SPDX-License-Identifier: Apache-2.0
"""Resources and host ports used by the pods of a node, kept as sums so that admission is cheap."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.quota.amounts import Amounts
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.kubelet.sync.containers import all_containers_of

HostPort = tuple[str, str, int]  # protocol, address, port


def host_ports_of(pod: Pod) -> list[HostPort]:
    """Return the host ports of a pod."""
    return [
        (port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)
        for container in all_containers_of(pod)
        for port in container.ports
        if port.host_port
    ]


class _Entry(NamedTuple):
    """Resources of one pod."""

    amounts: Amounts
    ports: list[HostPort]
    created: str


class NodeAllocations:
    """Pods admitted to a node.

    Invariant: `used` is the sum of their requests, in billionths.
    """

    def __init__(self) -> None:
        self._taken: dict[str, _Entry] = {}
        self.used: Counter[str] = Counter()
        self.ports: Counter[HostPort] = Counter()

    def __len__(self) -> int:
        return len(self._taken)

    def __contains__(self, uid: str) -> bool:
        return uid in self._taken

    def add_pod(self, pod: Pod) -> Amounts:
        """Add a pod unless it is there already; return its requests."""
        uid = pod.metadata.uid
        if uid in self._taken:
            return self._taken[uid].amounts
        entry = _Entry(requests_of(pod), host_ports_of(pod), str(pod.metadata.creation_timestamp or ""))
        self._add(uid, entry)
        return entry.amounts

    def _add(self, uid: str, entry: _Entry) -> None:
        self._taken[uid] = entry
        for name, amount in entry.amounts.items():
            self.used[name] += amount.nanos
        self.ports.update(entry.ports)

    def remove_pod(self, uid: str) -> None:
        """Remove a pod."""
        entry = self._taken.pop(uid, None)
        if entry is None:
            return
        for name, amount in entry.amounts.items():
            self.used[name] -= amount.nanos
        self.ports.subtract(entry.ports)

    def created_before(self, pod: Pod) -> NodeAllocations:
        """Return a copy without the pod and all younger pods."""
        older, mine = NodeAllocations(), (str(pod.metadata.creation_timestamp or ""), pod.metadata.uid)
        for uid, entry in self._taken.items():
            if (entry.created, uid) < mine:
                older._add(uid, entry)
        return older

    def is_host_port_free(self, wanted: HostPort) -> bool:
        """Return True if no pod uses a host port; 0.0.0.0 conflicts with every address."""
        protocol, address, number = wanted
        return not any(
            count > 0
            and (protocol, number) == (taken[0], taken[2])
            and (address == taken[1] or "0.0.0.0" in (address, taken[1]))
            for taken, count in self.ports.items()
        )
