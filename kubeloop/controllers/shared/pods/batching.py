"""For how long a loop gathers changes before it looks at a large group of pods as a whole. Pure.

A look costs time for each pod of the group. Were there one look for each change, a thousand pods that become ready
would cost a million; so the larger the group, the more changes a look waits for.
"""

from __future__ import annotations

from typing import Final

PACE: Final = 20e-6  # seconds of waiting for each pod: several times what it costs to look at one
SHORTEST_WAIT: Final = 0.001  # below which waiting saves nothing


def patience(pods: int) -> float:
    """The seconds to wait before a group of so many pods is looked at; 0 for not at all."""
    wait = pods * PACE
    return wait if wait >= SHORTEST_WAIT else 0.0
