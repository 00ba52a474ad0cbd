# SPDX-License-Identifier: Apache-2.0
"""Settings of a table that do not depend on Services: family, node, masquerade, detection of pod traffic."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubeloop.proxy.ip_family import IPV4, IPFamily
from kubeloop.proxy.node_addresses import NO_DETECTOR, LocalTrafficDetector, NodePortAddresses, nodeport_addresses


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Settings of one family's table."""

    family: IPFamily = IPV4
    node_ip: str = "127.0.0.1"  # decides whether source ranges include this node
    masquerade_bit: int = 14
    masquerade_all: bool = False
    detector: LocalTrafficDetector = NO_DETECTOR
    nodeport_addresses: NodePortAddresses = field(default_factory=lambda: nodeport_addresses((), IPV4))

    @property
    def masquerade_mark(self) -> str:
        """Mark of packets to be masqueraded, as text."""
        return f"{1 << self.masquerade_bit:#08x}"
