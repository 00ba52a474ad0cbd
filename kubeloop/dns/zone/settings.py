# SPDX-License-Identifier: Apache-2.0
"""Settings of the cluster zone."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubeloop.dns.wire.names import join_labels
from kubeloop.dns.zone.pods import PodsMode


@dataclass(frozen=True, slots=True)
class ZoneSettings:
    """Settings of the cluster zone; defaults are those of kubeadm's Corefile."""

    domain: bytes = field(default_factory=lambda: join_labels((b"cluster", b"local")))  # in wire form, lower case
    ttl: int = 30
    pods: PodsMode = "insecure"
    addresses: tuple[bytes, ...] = ()  # of this server, for the NS record
