# SPDX-License-Identifier: Apache-2.0
"""Health of a real node's network: pod network, service proxy and DNS, as the process of its cluster reports it."""

from __future__ import annotations

from typing import Final

import msgspec

PATH: Final = "/components"
NETWORK_FOLDER: Final = "network"  # in the data folder of a cluster


class NetworkComponent(msgspec.Struct, frozen=True):
    """Component of a node's network."""

    name: str
    port: int  # of its health, or of DNS; 0 if it has none
    problem: str = ""  # empty if it is healthy


class NetworkComponentList(msgspec.Struct, frozen=True):
    """Answer of the process."""

    components: tuple[NetworkComponent, ...] = ()
