# SPDX-License-Identifier: Apache-2.0
"""Records the pod CIDRs that nodes have or are about to get; each belongs to one node, unless set manually."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.api.addresses import parse_cidr
from kubeloop.api.generated.core_v1 import Node
from kubeloop.controllers.node_ipam.cidr_set import CidrOutOfRange, CidrSet, Network
from kubeloop.controllers.node_ipam.metrics import NodeIpamMetrics

Networks = tuple[Network, ...]


class InvalidNodeCidrs(ValueError):
    """Raised if a node's pod CIDRs can't be recorded."""


class NodeCidrAllocations:
    """Pod CIDRs by the UID of their node.

    Invariant: a node's UID is in `_shown` with the CIDRs in the cache, or in `_promised` with those being assigned,
    or in neither; and the sets hold exactly these CIDRs.
    """

    def __init__(self, sets: Sequence[CidrSet], instruments: NodeIpamMetrics) -> None:
        self._sets = sets
        self._instruments = instruments
        self._shown: dict[str, Networks] = {}
        self._promised: dict[str, Networks] = {}

    def reserve(self, node: Node) -> Networks:
        """Reserve CIDRs for a node without any: the same ones each time, until it has them or is gone.

        Raises `NoCidrsRemaining`; then nothing is reserved.
        """
        uid = node.metadata.uid
        if uid not in self._promised:
            self._promised[uid] = self._take()
        return self._promised[uid]

    def _take(self) -> Networks:
        taken: list[Network] = []
        try:
            for one in self._sets:
                part = one.allocate_next()
                self._instruments.record_allocation(one, part.tries)
                taken.append(part.network)
        except BaseException:
            self._let_go(tuple(taken))
            raise
        return tuple(taken)

    def occupy(self, node: Node) -> bool:
        """Record the CIDRs of a node; returns True if others became free. Raises `Unusable` for CIDRs out of range."""
        uid = node.metadata.uid
        shown = self.networks_of(node)
        if self._shown.get(uid) == shown:
            return False
        for one, network in zip(self._sets, shown, strict=False):
            self._instruments.record_occupied(one, one.occupy(network))
        made_room = self.release(node)
        self._shown[uid] = shown
        return made_room

    def release(self, node: Node) -> bool:
        """Release the CIDRs of a node; returns True if any became free."""
        uid = node.metadata.uid
        promised, shown = self._promised.pop(uid, ()), self._shown.pop(uid, ())
        return self._let_go(promised) + self._let_go(shown) > 0

    def _let_go(self, networks: Networks) -> int:
        freed = 0
        for one, network in zip(self._sets, networks, strict=False):
            count = one.release(network)
            self._instruments.record_released(one, count)
            freed += count
        return freed

    def networks_of(self, node: Node) -> Networks:
        """Parse a node's pod CIDRs; raises `Unusable` if one is invalid or out of range."""
        name, found = node.metadata.name, []
        for index, text in enumerate(node.spec.pod_cidrs):
            parsed = parse_cidr(text)
            if parsed is None:
                raise InvalidNodeCidrs(f"failed to parse node {name}, CIDR {text}")
            if index >= len(self._sets):
                raise InvalidNodeCidrs(
                    f"node:{name} has an allocated cidr: {text} at index:{index} "
                    "that does not exist in cluster cidrs configuration"
                )
            try:
                self._sets[index].check(parsed[1])
            except CidrOutOfRange as error:
                told = f"failed to mark cidr[{parsed[1]}] at idx [{index}] as occupied for node: {name}: {error}"
                raise InvalidNodeCidrs(told) from None
            found.append(parsed[1])
        return tuple(found)
