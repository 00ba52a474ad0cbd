# SPDX-License-Identifier: Apache-2.0
"""Index of the addresses and node ports that stored Services hold, updated by the store's events.

An event is published before its writer continues, so what a finished write holds is already counted here. There is
nothing to release, and nothing can leak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from kubeloop.apiserver.registry.allocation.node_ports import TYPES_WITH_NODE_PORTS
from kubeloop.apiserver.registry.allocation.service_cidrs import NONE, canonical_ip
from kubeloop.store import Store, StoreEvent


class _Port(msgspec.Struct, gc=False):
    node_port: int = msgspec.field(default=0, name="nodePort")


class _Spec(msgspec.Struct, gc=False):
    cluster_ips: tuple[str, ...] = msgspec.field(default=(), name="clusterIPs")
    ports: tuple[_Port, ...] = ()
    type: str = ""
    health_check_node_port: int = msgspec.field(default=0, name="healthCheckNodePort")


class _Service(msgspec.Struct, gc=False):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_DECODER = msgspec.json.Decoder(_Service)


class AllocatedByServices:
    """Addresses and node ports of all Services under a prefix of the store."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._by_service: dict[str, frozenset[str | int]] = {}
        # Number of Services that hold it. More than one only if the store was changed behind the server's back.
        self._holders: Counter[str | int] = Counter()
        present = store.range(prefix)
        for record in present.records:
            self._update(record.key, record.value)
        store.subscribe(prefix, present.revision, self._on_events)

    def __contains__(self, item: str | int) -> bool:
        """Return True if a Service holds a canonical address, or a port."""
        return item in self._holders

    def __iter__(self) -> Iterator[str | int]:
        return iter(self._holders)

    def __len__(self) -> int:
        return len(self._holders)

    def _on_events(self, events: Sequence[StoreEvent]) -> None:
        for event in events:
            self._update(event.key, None if event.record is None else event.record.value)

    def _update(self, key: str, value: bytes | None) -> None:
        now = frozenset[str | int]() if value is None else _items_of(value)
        before = self._by_service.pop(key, frozenset())
        if now:
            self._by_service[key] = now
        self._holders.update(now - before)
        for item in before - now:
            self._holders[item] -= 1
            if not self._holders[item]:
                del self._holders[item]


def _items_of(value: bytes) -> frozenset[str | int]:
    spec = _DECODER.decode(value).spec
    held: set[str | int] = {canonical_ip(address) for address in spec.cluster_ips if address != NONE}
    if spec.type in TYPES_WITH_NODE_PORTS:
        held.update(port.node_port for port in spec.ports)
        held.add(spec.health_check_node_port)
    return frozenset(held - {0})
