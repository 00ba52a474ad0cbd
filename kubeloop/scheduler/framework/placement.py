# SPDX-License-Identifier: Apache-2.0
"""Placements: sets of nodes on which a whole pod group may run."""

from __future__ import annotations

from typing import NamedTuple


class Placement(NamedTuple):
    """Set of nodes, and its name: the value of the topology label that they share."""

    name: str
    node_names: frozenset[str]


class PlacementProgress(NamedTuple):
    """Number of members of a group that have a place, and of those still to be tried."""

    scheduled: int
    remaining: int
