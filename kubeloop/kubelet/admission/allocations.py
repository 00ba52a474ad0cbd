"""What the pods of a node take of it, kept as a sum so that one more is judged without looking at all of them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.quota.amounts import Amounts
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.kubelet.sync.containers import all_of

HostPort = tuple[str, str, int]  # protocol, address, port


def host_ports_of(pod: Pod) -> list[HostPort]:
    return [
        (port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)
        for container in all_of(pod)
        for port in container.ports
        if port.host_port
    ]


class _Entry(NamedTuple):
    """What one pod takes."""

    amounts: Amounts
    ports: list[HostPort]
    created: str


class Ledger:
    """The pods that a node has taken. Always true: `used` is the sum of their requests, in billionths."""

    def __init__(self) -> None:
        self._taken: dict[str, _Entry] = {}
        self.used: Counter[str] = Counter()
        self.ports: Counter[HostPort] = Counter()

    def __len__(self) -> int:
        return len(self._taken)

    def __contains__(self, uid: str) -> bool:
        return uid in self._taken

    def take(self, pod: Pod) -> Amounts:
        """Count a pod, once; what it requests."""
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

    def release(self, uid: str) -> None:
        """Count a pod no longer."""
        entry = self._taken.pop(uid, None)
        if entry is None:
            return
        for name, amount in entry.amounts.items():
            self.used[name] -= amount.nanos
        self.ports.subtract(entry.ports)

    def before(self, pod: Pod) -> Ledger:
        """The same without a pod and all that are younger."""
        older, mine = Ledger(), (str(pod.metadata.creation_timestamp or ""), pod.metadata.uid)
        for uid, entry in self._taken.items():
            if (entry.created, uid) < mine:
                older._add(uid, entry)
        return older

    def is_free(self, wanted: HostPort) -> bool:
        """Whether nobody has a port; an address that is all addresses is in the way of each."""
        protocol, address, number = wanted
        return not any(
            count > 0
            and (protocol, number) == (taken[0], taken[2])
            and (address == taken[1] or "0.0.0.0" in (address, taken[1]))
            for taken, count in self.ports.items()
        )
