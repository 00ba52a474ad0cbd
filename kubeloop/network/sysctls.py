# SPDX-License-Identifier: Apache-2.0
"""Settings of the kernel that a node with pods needs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kubeloop.network.nodes import PodNetwork

_FORWARDING: Final = {4: "sys/net/ipv4/ip_forward", 6: "sys/net/ipv6/conf/all/forwarding"}


def enable_forwarding(proc: Path, pod_cidrs: Iterable[PodNetwork]) -> list[str]:
    """Enable forwarding of the IP families of pods where it is off; returns what was changed. Raises OSError."""
    changed = []
    for version in sorted({network.version for network in pod_cidrs}):
        path = proc / _FORWARDING[version]
        if path.read_text().strip() == "0":
            path.write_text("1")
            changed.append(_FORWARDING[version])
    return changed
