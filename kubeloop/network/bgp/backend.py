# SPDX-License-Identifier: Apache-2.0
"""Backend bgp: BIRD learns the routes to pods of other nodes, and puts them into the kernel."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from kubeloop.network.bgp.bird import Bird
from kubeloop.network.bgp.bird_config import BgpSettings, bird_config, session_names
from kubeloop.network.desired_state import BGP, unreachable_routes
from kubeloop.network.netlink.kernel_state import KernelState
from kubeloop.network.nodes import ClusterNode

log = logging.getLogger(__name__)


class BgpBackend:
    """Keeps BIRD's configuration equal to the nodes."""

    name = BGP
    reaches_nodes_directly = True

    def __init__(self, settings: BgpSettings, bird: Bird, folder: Path) -> None:
        self._settings = settings
        self._bird = bird
        self._folder = folder
        self.established = 0  # sessions with other nodes
        self.expected = 0

    def overhead(self, own: ClusterNode) -> int:
        """Return 0: packets are not changed."""
        return 0

    def kernel_state(self, own: ClusterNode, nodes: Collection[ClusterNode], link_mtu: int) -> KernelState:
        """Return the routes that reject unused addresses; BIRD has the others."""
        return KernelState(unreachable_routes(own))

    async def sync(self, own: ClusterNode, nodes: Collection[ClusterNode]) -> None:
        """Load a changed configuration, and count the sessions. Raises BirdError."""
        if await self._bird.load(bird_config(own, nodes, self._settings, self._folder)):
            log.info("BIRD has loaded a configuration for %d nodes", len(nodes))
        states, names = await self._bird.session_states(), session_names(own, nodes)
        self.expected = len(names)
        self.established = sum(states.get(name) == "Established" for name in names)
